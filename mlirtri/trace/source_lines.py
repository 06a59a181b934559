"""The user's lines that each line of a text belongs to, by the locations that survive in it.

MLIR has them in its complete text, TVMScript in attributes of blocks and functions, CUDA in ``#line``, LLVM IR in
``!dbg``, assembly in ``.loc`` or in comments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

Lines = list[tuple[tuple[str, int], ...]]
"""For each line of a text the files and lines of the user's that it comes from."""
_ORIGIN = re.compile(r'"([^"]+)":(\d+):\d+')
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_ALIAS_USE = re.compile(r"#loc\d*")
_OWN = re.compile(r"\bloc\(((?:[^()]|\([^()]*\))*)\)\s*$")
_BLOCK_ORIGIN = re.compile(r'"mlirtri\.loc": "([^"]+?):(\d+):\d+"')
_FUNCTION_ORIGINS = re.compile(r'"mlirtri\.lines": \[([^\]]*)\]')
LISTED = re.compile(r'"([^"]+?):(\d+):\d+"')


def source_lines(kind: str, text: str, complete: str | None = None) -> Lines:
    """Return the user's lines of each line of a text of this kind; `complete` is MLIR's text with locations."""
    read = _READERS.get(kind)
    if read is None:
        return [()] * len(text.splitlines())
    return read(text, complete or text)


def main_file(texts: list[Lines]) -> str | None:
    """Return the file that most lines come from."""
    files = Counter(file for lines in texts for origins in lines for file, _ in origins)
    return files.most_common(1)[0][0] if files else None


def _of_mlir(text: str, complete: str) -> Lines:
    lines = text.splitlines()
    full = complete.splitlines()
    aliases = {match[1]: match[2] for line in full if (match := _ALIAS.match(line))}
    # Both have the same lines but for the aliases of attributes, which are their own.
    body = [line for line in full if line and not line.startswith("#")]
    own = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    if len(body) != len(own):
        return [()] * len(lines)
    found: Lines = [_origins(match[1], aliases) if (match := _OWN.search(line)) else () for line in body]
    _to_openings(body, found)
    origins: Lines = [()] * len(lines)
    for number, each in zip(own, found, strict=True):
        origins[number] = each
    return origins


def _to_openings(lines: list[str], origins: Lines) -> None:
    """Give a line that opens a region the locations of the line that closes it: MLIR prints them there."""
    open_: list[int] = []
    for number, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith("}") and open_:
            opening = open_.pop()
            if not origins[opening]:
                origins[opening] = origins[number]
        if re.search(r"\{(?:\s*loc\(.*\))?$", bare):
            open_.append(number)


def _origins(location: str, aliases: dict[str, str], depth: int = 0) -> tuple[tuple[str, int], ...]:
    found = [(file, int(line)) for file, line in _ORIGIN.findall(location)]
    if depth < 8:
        for alias in _ALIAS_USE.findall(location):
            found += _origins(aliases.get(alias, ""), aliases, depth + 1)
    return tuple(dict.fromkeys(found))


def _of_tvmscript(text: str, complete: str) -> Lines:
    """Give the lines of a block its location; other lines of a function those that the function lists."""
    lines = text.splitlines()
    origins: Lines = [()] * len(lines)
    starts = [number for number, line in enumerate(lines) if re.match(r"\s*def ", line)]
    for start, end in zip(starts, [*starts[1:], len(lines)][: len(starts)], strict=True):
        listed = _FUNCTION_ORIGINS.search("\n".join(lines[start:end]))
        if listed is None:
            continue
        function = tuple(dict.fromkeys((file, int(line)) for file, line in LISTED.findall(listed[1])))
        for number in range(start, end):
            origins[number] = function if lines[number].strip() else ()
    for number, line in enumerate(lines):
        if match := _BLOCK_ORIGIN.search(line):
            _mark_block(lines, origins, number, (match[1], int(match[2])))
    return origins


def _mark_block(lines: list[str], origins: Lines, number: int, origin: tuple[str, int]) -> None:
    indent = len(lines[number]) - len(lines[number].lstrip())
    start = end = number
    while start > 0 and len(lines[start - 1]) - len(lines[start - 1].lstrip()) >= indent:
        start -= 1
    while end + 1 < len(lines) and lines[end + 1].strip() and _indent(lines[end + 1]) >= indent:
        end += 1
    for position in range(max(0, start - 1), end + 1):
        origins[position] = (origin,)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _of_cuda(text: str, complete: str) -> Lines:
    origins: Lines = []
    current: tuple[tuple[str, int], ...] = ()
    for line in text.splitlines():
        if match := re.match(r'\s*#line (\d+)(?: "([^"]+)")?', line):
            file = match[2] or (current[0][0] if current else "")
            current = ((file, int(match[1])),)
        origins.append(current)
    return origins


def _of_llvm(text: str, complete: str) -> Lines:
    files = re.findall(r'!DIFile\(filename: "([^"]+)"', text)
    file = next((each for each in files if each.endswith(".py")), files[0] if files else "")
    lines = {
        name: int(line) for name, line in re.findall(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)", text, re.M)
    }
    origins: Lines = []
    for line in text.splitlines():
        match = re.search(r"!dbg (!\d+)", line)
        number = lines.get(match[1], 0) if match else 0
        origins.append(((file, number),) if number else ())
    return origins


def _of_assembly(text: str, complete: str) -> Lines:
    origins: Lines = []
    names = dict(re.findall(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]+)"', text, re.M))
    current: tuple[tuple[str, int], ...] = ()
    for line in text.splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", line):
            current = ((names.get(match[1], ""), int(match[2])),) if int(match[2]) else ()
        elif match := re.match(r"; (\S.*):(\d+)\s*$", line):
            current = ((match[1], int(match[2])),)
        origins.append(current)
    return origins


_READERS: dict[str, Callable[[str, str], Lines]] = {
    "mlir": _of_mlir, "tvmscript": _of_tvmscript, "cuda": _of_cuda, "llvm": _of_llvm, "asm": _of_assembly,
    "ptx": _of_assembly,
}  # fmt: skip
