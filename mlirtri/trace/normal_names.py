"""Texts compared without the names of values: lines are aligned by what is left, and names must then correspond.

Two aligned lines are the same if each value of the one always stands where the same value of the other stands.
"""

from __future__ import annotations

import re

_COUNTED = {
    "mlir": re.compile(r"(%[A-Za-z_$.\-][\w$.\-]*?|%|\^bb|#map|#set|#loc|#attr|@__constant_\w*?)(_?\d+)?(?![\w$.])"),
    "llvm": re.compile(r"(%[A-Za-z_$.\-][\w$.\-]*?|%|!|#)(\.?\d+)?(?![\w$])"),
    "asm": re.compile(r"(\.L[A-Za-z_]*|^\s*(?=[0-9a-f]+:)|\b(?=[0-9a-f]+ <)|\+0x)([0-9a-f]*(?:_\d+)?)"),
    "ptx": re.compile(r"(%[a-z]+|\$L[A-Za-z_]*)(\d[\d_]*)"),
}
"""By kind: a name, and the number behind it that counts equal names."""
_VALUES = {"mlir": re.compile(r"%[\w$.\-]+"), "llvm": re.compile(r"%[\w$.\-]+")}
_DEFINED = re.compile(r"^\s*((?:%[\w$.\-]+(?::\d+)?(?:, )?)+) = ")
_OPENS = re.compile(r"^\s*\^bb|\b(?:func\.func|llvm\.func|define)\b")


def with_normal_names(kind: str, text: str, with_stems: bool = True) -> list[str]:
    """Return the lines of a text of this kind without the numbers of names, or without the names of values.

    Kinds without such are as they are.
    """
    pattern = _COUNTED.get(kind)
    lines = text.splitlines()
    if not with_stems and kind in _VALUES:
        lines = [_VALUES[kind].sub("%", line) for line in lines]
    return lines if pattern is None else [pattern.sub(r"\1", line) for line in lines]


class Correspondence:
    """Which value of one text is which of another, as far as aligned lines have been read."""

    def __init__(self, kind: str) -> None:
        self._values = _VALUES.get(kind)
        self._after: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def agrees(self, before: str, after: str) -> bool:
        """Return whether two aligned lines have corresponding values; what they define corresponds from then on."""
        if self._values is None:
            return True
        pairs = list(zip(self._values.findall(before), self._values.findall(after), strict=False))
        defined = len(pairs) if _OPENS.search(before) else self._count_defined(before)
        for old, new in pairs[:defined]:
            self._after[old], self._before[new] = new, old
        return all([self._agree(old, new) for old, new in pairs[defined:]])

    def _count_defined(self, line: str) -> int:
        assert self._values is not None
        match = _DEFINED.match(line)
        return len(self._values.findall(match[1])) if match else 0

    def _agree(self, old: str, new: str) -> bool:
        return self._after.setdefault(old, new) == new and self._before.setdefault(new, old) == old
