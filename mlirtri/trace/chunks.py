"""The texts of a page in compressed chunks, which the browser opens when it shows something of them.

A page of a network has half a million lines in hundreds of texts, most of them in several. Each different line is kept
once, in chunks of `LINES_PER_CHUNK`; a text is the numbers of its lines, each less the one before, and the user's lines
that they come from.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from mlirtri.trace.colours import ColourTable
from mlirtri.trace.unified import normal_lines

LINES_PER_CHUNK = 4096
Origins = tuple[tuple[str, int], ...]


def packed(data: object) -> str:
    """Return JSON in zlib's format as Base64."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 6)).decode()


def unpacked(chunk: str) -> Any:
    """Return what `packed` took."""
    return json.loads(zlib.decompress(base64.b64decode(chunk)).decode("utf-8", "surrogatepass"))


class LineTable:
    """All different lines of a page, with their normal forms and colours; numbers stand for them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._colours = ColourTable()
        self._colour_numbers: list[int] = []
        self._normal_numbers: list[int] = []
        self._numbers: dict[str, dict[str, int]] = {}
        self._normal: dict[str, int] = {}
        self._full_chunks: list[str] = []

    def numbers(self, kind: str, lines: Iterable[str]) -> list[int]:
        """Return the number of each line of IR of this kind."""
        known, lines = self._numbers.setdefault(kind, {}), list(lines)
        self._add(kind, known, [line for line in dict.fromkeys(lines) if line not in known])
        return list(map(known.__getitem__, lines))

    def _add(self, kind: str, known: dict[str, int], new: Sequence[str]) -> None:
        known.update(zip(new, count(len(self.lines)), strict=False))
        self.lines += new
        self._colour_numbers += self._colours.numbers(kind, new)
        numbers = self._normal
        self._normal_numbers += [numbers.setdefault(line, len(numbers)) for line in normal_lines(kind, new)]

    def chunks(self) -> list[str]:
        """Return the lines, packed: a text, and for each line its normal form and its colours."""
        full = len(self.lines) // LINES_PER_CHUNK
        self._full_chunks += [self._chunk(number) for number in range(len(self._full_chunks), full)]
        return [*self._full_chunks, *([self._chunk(full)] if len(self.lines) % LINES_PER_CHUNK else [])]

    def _chunk(self, number: int) -> str:
        part = slice(number * LINES_PER_CHUNK, (number + 1) * LINES_PER_CHUNK)
        data = {
            "text": "\n".join(self.lines[part]),
            "normal": self._normal_numbers[part],
            "colours": self._colour_numbers[part],
        }
        return packed(data)

    def colours(self) -> str:
        """Return the names of classes and the runs of each pattern, packed."""
        return packed({"classes": self._colours.classes, "runs": self._colours.runs})


class OriginTable:
    """The sets of the main file's lines that lines of texts come from; the first is empty."""

    def __init__(self, file: str | None):
        self.file = file
        self.sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._known: dict[Origins, int] = {}

    def numbers(self, origins: Iterable[Origins]) -> list[int]:
        """Return the number of the set of each line of a text."""
        return [self._known[each] if each in self._known else self._added(each) for each in origins]

    def _added(self, origins: Origins) -> int:
        found = tuple(sorted({line for name, line in origins if self.is_main(name)}))
        if found not in self._numbers:
            self._numbers[found] = len(self.sets)
            self.sets.append(found)
        self._known[origins] = self._numbers[found]
        return self._known[origins]

    def is_main(self, name: str) -> bool:
        """Return whether this names the main file, with its folder or without."""
        return self.file is not None and (name == self.file or _base(name) == _base(self.file))


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def packed_text(lines: Sequence[int], origins: Sequence[int]) -> str:
    """Return a text as the numbers of its lines and of the sets that they come from."""
    return packed(
        {"lines": [number - before for before, number in zip([0, *lines], lines, strict=False)], "from": origins}
    )
