"""CUDA source as C++ for the emulated device, line by line, so that a line of one is that line of the other.

Only what no header can define is rewritten: shared arrays, inline PTX, and `#line`, which would hide the source's own
lines. All the rest stands as it was emitted; ``device/`` has headers under the names of CUDA's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlirtri.lowering.cuda_emulation.ptx import without_ptx

_SHARED = re.compile(r"__shared__\s+((?:alignas|__align__)\(\d+\)\s+)?([A-Za-z_][\w ]*?)\s+(\w+)((?:\[[^\]]+\])+)\s*;")
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:(?:alignas|__align__)\(\d+\)\s+)?([A-Za-z_][\w ]*?)\s+(\w+)\[\]\s*;")
_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^;{]*)\)\s*\{")
_DOT_PRODUCTS = re.compile(r"#if defined\(__CUDA_ARCH__\) && .*?#endif // __CUDA_ARCH__ >= 610", re.DOTALL)
"""What TVM writes in front of kernels with vectors of bytes: PTX of dot products, which no kernel of ours calls."""
_LINE = re.compile(r'^#line (\d+) "(.*)"', re.MULTILINE)


@dataclass(frozen=True)
class KernelText:
    """The names of a kernel's parameters, and where it ends in the CUDA source."""

    name: str
    parameters: tuple[str, ...]
    last_line: int


def kernels_of(source: str) -> dict[str, KernelText]:
    """Return each kernel that the source defines, by name."""
    kernels = {}
    matches = list(_KERNEL.finditer(source))
    ends = [match.start() for match in matches[1:]] + [len(source)]
    for match, end in zip(matches, ends, strict=True):
        parameters = [part.split()[-1].lstrip("*") for part in match.group(2).split(",") if part.strip()]
        last = source.count("\n", 0, end) + 1
        names = tuple(name.removesuffix("_ptr") for name in parameters)
        kernels[match.group(1)] = KernelText(match.group(1), names, last)
    return kernels


def translated(source: str) -> str:
    """Return the C++ of CUDA source; raises `UnsupportedOperationError` for PTX that is not emulated."""
    source = _DOT_PRODUCTS.sub(lambda match: "\n" * match.group().count("\n"), source)
    text = _LINE.sub("//", without_ptx(source))
    text = _DYNAMIC.sub(r"\1* \2 = (\1*)emulated::dynamic_shared_memory();", text)
    text = _SHARED.sub(_shared_array, text)
    entries = "".join(f"EMULATED_KERNEL({name})\n" for name in kernels_of(source))
    return f"{text}\n{entries}"


def _shared_array(match: re.Match) -> str:
    _, element, name, extents = match.groups()
    kind = f"{element} (&{name}){extents} = *({element} (*){extents})"
    return f'{kind}emulated::shared_array("{name.removesuffix("_ptr")}", __LINE__, sizeof({element}{extents}));'


def python_line(source: str, line: int) -> tuple[str, int] | None:
    """Return the Python file and line from which a line of the CUDA source was generated; None if it has none."""
    above = "\n".join(source.splitlines()[:line])
    marks = _LINE.findall(above)
    return (marks[-1][1], int(marks[-1][0])) if marks else None
