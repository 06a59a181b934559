"""Colours of lines of IR and code by Pygments, for trace pages and for cells of notebooks.

A page has them once for all lines that differ in their numbers only, as most lines of IR do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
_NUMBER = re.compile(r"^[^\S\n]*[0-9a-f]+(?=:)|0x[0-9a-f]+|[0-9]+", re.ASCII | re.MULTILINE)
"""An address that starts a line of assembly, or digits; ``lines.js`` has the same."""


class ColourTable:
    """The colours of a page's lines: lines of one kind that are equal but for their numbers share them."""

    def __init__(self) -> None:
        self.classes: list[str] = [""]
        """Pygments' short names of tokens; the first is no colour."""
        self.runs: list[list[int]] = [[]]
        """For each pattern of a line: characters and class, again and again, where a number is one character."""
        self._patterns: dict[str, dict[str, int]] = {}
        """By kind, lines without their numbers."""

    def numbers(self, kind: str, lines: Sequence[str]) -> list[int]:
        """Return the number of the runs of each line; 0 for a line that stays plain."""
        if _lexer(kind) is None or not lines:
            return [0] * len(lines)
        # One call for all lines: a page has a million.
        shown = ["" if len(line) > _MOST else line for line in lines]
        patterns = _NUMBER.sub("0", "\n".join(shown)).split("\n")
        known = self._patterns.setdefault(kind, {"": 0})
        for pattern, line in dict(zip(patterns, shown, strict=True)).items():
            if pattern not in known:
                known[pattern] = len(self.runs)
                self.runs.append(self._runs_of(kind, line))
        return list(map(known.__getitem__, patterns))

    def _runs_of(self, kind: str, line: str) -> list[int]:
        positions = _positions_without_numbers(line)
        runs: list[int] = []
        start = end = 0
        for name, text in _tokens(kind, line):
            end += len(text)
            if length := positions[end] - positions[start]:
                runs += [length, self._class_number(name)]
            start = end
        return runs

    def _class_number(self, name: str) -> int:
        if name not in self.classes:
            self.classes.append(name)
        return self.classes.index(name)


def coloured(kind: str, line: str) -> str:
    """Return one line as HTML: elements ``i`` whose classes are Pygments' short names."""
    if _lexer(kind) is None or len(line) > _MOST:
        return escape(line, quote=False)
    return "".join(_element(name, escape(text, quote=False)) for name, text in _tokens(kind, line))


def _positions_without_numbers(line: str) -> list[int]:
    """Return for each position in a line the one that it has where each number is one character."""
    positions = list(range(len(line) + 1))
    saved = 0
    done = 0
    for match in _NUMBER.finditer(line):
        for position in range(done, match.start() + 1):
            positions[position] = position - saved
        for position in range(match.start() + 1, match.end() + 1):
            positions[position] = match.start() + 1 - saved
        saved += match.end() - match.start() - 1
        done = match.end() + 1
    for position in range(done, len(line) + 1):
        positions[position] = position - saved
    return positions


def _tokens(kind: str, line: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each run of equal tokens."""
    lexer = _lexer(kind)
    assert lexer is not None
    last, gathered = "", ""
    for _, token, text in lexer.get_tokens_unprocessed(line):
        name = _class_of(token)
        if name != last and gathered:
            yield last, gathered
            gathered = ""
        last, gathered = name, gathered + text
    if gathered:
        yield last, gathered


def _element(name: str, text: str) -> str:
    return f"<i class={name}>{text}</i>" if name else text


@cache
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


_MOST_LINES = 2000
"""Lines of a text beyond which a cell shows the first of them only."""
_STYLE = """<style>
.mlirtri-texts pre { font-size: 12px; line-height: 1.4; overflow-x: auto; margin: .2rem 0 .6rem; }
.mlirtri-texts i { font-style: normal; }
.mlirtri-texts .k, .mlirtri-texts .kn, .mlirtri-texts .kd { color: #a626a4; }
.mlirtri-texts .kt { color: #0b7285; }
.mlirtri-texts .nv { color: #2b66c9; }
.mlirtri-texts .nf { color: #7a4fd0; }
.mlirtri-texts .nc, .mlirtri-texts .nb { color: #0a7d45; }
.mlirtri-texts .m, .mlirtri-texts .mi, .mlirtri-texts .mf, .mlirtri-texts .no { color: #b05c00; }
.mlirtri-texts .s, .mlirtri-texts .s1, .mlirtri-texts .s2 { color: #2b7a0b; }
.mlirtri-texts summary { cursor: pointer; font-family: monospace; }
</style>"""


def texts_html(texts: Iterable[tuple[str, str, str, str]]) -> str:
    """Return texts as folded sections; each is a name, a note, the kind of IR, and the text."""
    sections = []
    for name, note, kind, text in texts:
        lines = text.splitlines()
        rest = f"\n… {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else ""
        code = "\n".join(coloured(kind, line) for line in lines[:_MOST_LINES])
        sections.append(
            f"<details><summary>{escape(name)} <small>{escape(note)}</small></summary><pre>{code}{rest}</pre></details>"
        )
    return f'{_STYLE}<div class="mlirtri-texts">{"".join(sections)}</div>'
