"""Lines of texts as HTML by Pygments, each different line once: the texts after two passes share most of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from mlirtri.trace.mlir_lexer import MlirLexer

_LEXERS = {"python": "python", "tvmscript": "python", "llvm": "llvm", "cuda": "cuda", "asm": "gas", "ptx": "ptx"}
_MOST = 2000
"""Characters of a line beyond which it stays plain."""


class LineTable:
    """All different lines of a page, as HTML, and their normal forms; numbers stand for them."""

    def __init__(self) -> None:
        self.html: list[str] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._normal: dict[str, int] = {}

    def numbers(self, kind: str, lines: Sequence[str]) -> list[int]:
        """Return the number of each line, coloured as IR of this kind."""
        return [self._number(kind, line) for line in lines]

    def normal(self, lines: Sequence[str]) -> list[int]:
        """Return numbers that are the same for the same normal form."""
        return [self._normal.setdefault(line, len(self._normal)) for line in lines]

    def _number(self, kind: str, line: str) -> int:
        key = kind, line
        if key not in self._numbers:
            self._numbers[key] = len(self.html)
            self.html.append(coloured(kind, line))
        return self._numbers[key]


def coloured(kind: str, line: str) -> str:
    """Return one line as HTML: spans whose classes are Pygments' short names."""
    lexer = _lexer(kind)
    if lexer is None or len(line) > _MOST:
        return escape(line, quote=False)
    parts: list[tuple[str, str]] = []
    for _, token, text in lexer.get_tokens_unprocessed(line):
        name = _class_of(token)
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1] + text)
        else:
            parts.append((name, text))
    return "".join(_span(name, escape(text, quote=False)) for name, text in parts)


def _span(name: str, text: str) -> str:
    return f"<i class={name}>{text}</i>" if name else text


def _class_of(token: Any) -> str:
    name = STANDARD_TYPES.get(token)
    while name is None:
        token = token.parent
        name = STANDARD_TYPES.get(token)
    return "" if name in ("w", "p", "n", "o", "err") else name


@cache
def _lexer(kind: str) -> Lexer | None:
    if kind == "mlir":
        return MlirLexer()
    try:
        return get_lexer_by_name(_LEXERS[kind])
    except (KeyError, ClassNotFound):
        return None
