"""Assembly of one kernel with the user's line above each block of instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from mlirtri.errors import UnknownOptionError
from mlirtri.trace.source_lines import LISTED, source_lines

_STARTS = re.compile(r"^(?:[0-9a-f]+ <([^>]+)>|(\.L__\w+|[A-Za-z_][\w.$]*)):")
_NOT_SHOWN = re.compile(
    r"^(?:\s*\.(?:loc|file|cfi_\w+|p2align|size|type|globl|section|text)\b|\.L(?:tmp|func_)\w*:|; \S)"
)
_WRAPPER = "__tvm_ffi_"
"""What begins the names of functions that check arguments and call a kernel."""
Lines = list[tuple[str, tuple[tuple[str, int], ...]]]
"""Lines of assembly with the source lines that they come from."""


def listing(text: str, name: str, source_of: Callable[[str, int], str], scheduled: str = "") -> str:
    """Return the functions whose names contain `name`, and those that they refer to.

    `source_of` returns a line of a file. `scheduled` is the TVMScript, whose lines stand above a kernel whose code has
    lost its own, as the bodies of parallel loops do. Raises `UnknownOptionError` if no function has such a name.
    """
    functions = _functions(text.splitlines(), source_lines("asm", text))
    chosen = [each for each in functions if name in each and not each.startswith(_WRAPPER)]
    chosen = chosen or [each for each in functions if name in each]
    if not chosen:
        shown = ", ".join(each for each in functions if not each.startswith((_WRAPPER, "__")))
        raise UnknownOptionError(f"no kernel {name!r} in the assembly", help=f"it has {shown}")
    for each in chosen:
        chosen += [other for other in functions if other not in chosen and _refers(functions[each], other)]
    shown = "\n\n".join("\n".join(_shown(each, functions[each], source_of)) for each in chosen)
    if re.search(r"^; .+:\d+: ", shown, re.MULTILINE):
        return shown
    named = [_origins_in(scheduled, each.removesuffix("_compute_")) for each in chosen]
    origins = dict.fromkeys(origin for each in named for origin in each)
    return "\n".join([*(_source_line(*origin, source_of) for origin in origins), shown])


def _origins_in(scheduled: str, name: str) -> list[tuple[str, int]]:
    """Return the source lines that a function of TVMScript names, in order."""
    match = re.search(rf"^ *def {re.escape(name)}\(.*?(?=^ *def |\Z)", scheduled, re.MULTILINE | re.DOTALL)
    return sorted({(file, int(line)) for file, line in LISTED.findall(match[0])}) if match else []


def _source_line(file: str, number: int, source_of: Callable[[str, int], str]) -> str:
    return f"; {file.rpartition('/')[2]}:{number}: {source_of(file, number).strip()}"


def _functions(lines: Sequence[str], origins: Sequence[tuple[tuple[str, int], ...]]) -> dict[str, Lines]:
    found: dict[str, Lines] = {}
    current: Lines = []
    for line, origin in zip(lines, origins, strict=True):
        if line.startswith(".Lfunc_end") or line.lstrip().startswith(".size"):
            current = []
        elif match := _STARTS.match(line):
            current = found.setdefault(match[1] or match[2], [])
        else:
            current.append((line, origin))
    return found


def _refers(lines: Lines, name: str) -> bool:
    pattern = re.compile(rf"(?<![\w.$]){re.escape(name)}(?![\w$])")
    return any(pattern.search(line) for line, _ in lines)


def _shown(name: str, lines: Lines, source_of: Callable[[str, int], str]) -> Iterator[str]:
    yield f"{name}:"
    before: tuple[tuple[str, int], ...] = ()
    for line, origin in lines:
        if not line.strip() or _NOT_SHOWN.match(line):
            continue
        if origin and origin != before and not line.startswith("."):
            for file, number in origin:
                yield _source_line(file, number, source_of)
            before = origin
        yield line
