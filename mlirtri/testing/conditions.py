"""The conditions of ``REQUIRES:``, ``UNSUPPORTED:`` and ``XFAIL:``: names of features with ``&&``, ``||``, ``!``.

Those of ``%if`` are the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from mlirtri.errors import KernelValueError

_TOKEN = re.compile(r"\s*(&&|\|\||[!()]|[-+=._a-zA-Z0-9]+|$)")


def holds(condition: str, features: Collection[str]) -> bool:
    """Return whether a condition holds on a machine with these features; raises `KernelValueError` for no condition.

    ``true`` and ``false`` are constants; ``!`` binds closest, then ``&&``.
    """
    return _Condition(condition, features).value()


def with_branches(text: str, features: Collection[str]) -> str:
    """Return a RUN line with each ``%if CONDITION %{ … %} %else %{ … %}`` replaced by its branch, as lit does it.

    Raises `KernelValueError` for one without its braces.
    """
    before, is_there, after = _partition(text, r"%if\b")
    if not is_there:
        return text
    condition, opens, after = _partition(after, r"%\{")
    if not opens:
        raise _no_braces(text)
    chosen, rest = _braced(after, text)
    other = ""
    if match := re.match(r"\s*%else\s*%\{", rest):
        other, rest = _braced(rest[match.end() :], text)
    branch = chosen if holds(condition.strip(), features) else other
    return f"{before}{with_branches(branch, features)}{with_branches(rest, features)}"


def _partition(text: str, pattern: str) -> tuple[str, bool, str]:
    match = re.search(pattern, text)
    return (text[: match.start()], True, text[match.end() :]) if match else (text, False, "")


def _braced(text: str, whole: str) -> tuple[str, str]:
    """Return what stands in front of the brace that closes one before `text`, and what stands after."""
    depth = 1
    for match in re.finditer(r"%[{}]", text):
        depth += 1 if match[0] == "%{" else -1
        if depth == 0:
            return text[: match.start()], text[match.end() :]
    raise _no_braces(whole)


def _no_braces(text: str) -> KernelValueError:
    return KernelValueError(f"%if without its braces: {text}", help="write %if FEATURE %{ … %} %else %{ … %}")


class _Condition:
    def __init__(self, text: str, features: Collection[str]):
        self.text, self.features = text, features
        self.tokens = self._tokens()

    def _tokens(self) -> list[str]:
        tokens, position = [], 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self._error()
            tokens.append(match[1])
            position = match.end()
        return [token for token in tokens if token]

    def _error(self) -> KernelValueError:
        return KernelValueError(
            f"{self.text!r} is no condition", help="write names of features with &&, ||, ! and parentheses"
        )

    def value(self) -> bool:
        """Return the value of the whole text."""
        result = self._any()
        if self.tokens:
            raise self._error()
        return result

    def _any(self) -> bool:
        result = self._all()
        while self._take("||"):
            result = self._all() or result
        return result

    def _all(self) -> bool:
        result = self._single()
        while self._take("&&"):
            result = self._single() and result
        return result

    def _single(self) -> bool:
        if self._take("!"):
            return not self._single()
        if self._take("("):
            result = self._any()
            if not self._take(")"):
                raise self._error()
            return result
        if not self.tokens or not re.match(r"[-+=._a-zA-Z0-9]", self.tokens[0]):
            raise self._error()
        name = self.tokens.pop(0)
        return name == "true" or (name != "false" and name in self.features)

    def _take(self, token: str) -> bool:
        if self.tokens[:1] != [token]:
            return False
        self.tokens.pop(0)
        return True
