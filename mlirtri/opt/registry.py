"""The names of the passes and dialects that there are: upstream's, found in its library, and ours."""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from struct import unpack_from

from mlirtri.dialect import definition
from mlirtri.dialect.bindings.mlir import ir, load_stablehlo, load_torch, passmanager
from mlirtri.errors import nearest
from mlirtri.opt.own_passes import own_names


def load_all(context: ir.Context) -> None:
    """Register what MLIR's own registration leaves out: the dialects and passes of torch-mlir and StableHLO."""
    load_torch(context)
    load_stablehlo(context)


def new_context() -> ir.Context:
    """Return a context with every dialect and pass of the installed MLIR."""
    context = ir.Context()
    load_all(context)
    return context


@cache
def registered_passes() -> tuple[str, ...]:
    """Return the sorted names of all passes and pipelines in the installed MLIR, and of ours.

    MLIR has no function that lists them, but every name is a string in its library: each string that could be one is
    tried on the pipeline parser. Linkers store "cse" inside of "…-cse", so every tail of a string counts.
    """
    context = new_context()
    return tuple(sorted({*own_names(), *(name for name in _candidates() if _is_registered(name, context))}))


def passes_near(name: str, others: Collection[str] = ()) -> list[str]:
    """Return up to three names, of passes or among `others`, that `name` may be a misspelling of.

    It takes .3 s: few of the strings that could be a name are tried.
    """
    letters, length = {*name}, len(name)
    likely = [
        other
        for other in _candidates()
        if 2 * abs(len(other) - length) <= length and 2 * len(letters & {*other}) > len(letters)
    ]
    context, known = new_context(), {*own_names(), *others}
    near = nearest(name, [*known, *likely], _TRIED)
    return [other for other in dict.fromkeys(near) if other in known or _is_registered(other, context)][:3]


_TRIED = 200
"""Of the strings nearest to a name so many are tried; most are tails of others."""


def _candidates() -> set[str]:
    """Return what could be a name in MLIR's library."""
    (library,) = (Path(str(ir.__file__)).parent / "_mlir_libs").glob("*Aggregate*")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        parts = [data[start : start + size] for start, size in _constants(data)]
    strings = {match.decode() for part in parts for match in re.findall(rb"[a-z][a-z0-9_\-]{2,70}(?=\x00)", part)}
    return {text[start:] for text in strings for start in range(len(text) - 2) if text[start].isalpha()}


def _constants(data: mmap.mmap) -> list[tuple[int, int]]:
    """Return offset and size of a library's sections of constants, a twentieth of it; of the whole where it is no ELF.

    The fields of ELF's headers for 64 bits: System V ABI, chapter 4.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        return [(0, len(data))]
    (table,), (size, count, index) = unpack_from("<Q", data, 0x28), unpack_from("<3H", data, 0x3A)
    sections = [unpack_from("<IIQQQQ", data, table + number * size) for number in range(count)]
    names = sections[index][4]
    named = [(data[names + name : names + name + 7], offset, length) for name, _, _, _, offset, length in sections]
    return [(offset, length) for name, offset, length in named if name == b".rodata"]


def _is_registered(name: str, context: ir.Context) -> bool:
    try:
        passmanager.PassManager.parse(f"any({name})", context)
    except ValueError as error:
        return "does not refer to a registered pass" not in str(error)
    return True


def available_dialects() -> list[str]:
    """Return the sorted names of all dialects, `tri` included, as MLIR lists them where it misses one."""
    context = new_context()
    definition.load(context)
    try:
        ir.Module.parse("no_such_dialect.op", context)
    except ir.MLIRError as error:
        notes = [str(note.message) for diagnostic in error.error_diagnostics for note in diagnostic.notes]
        listed = next(note for note in notes if note.startswith("Available dialects: "))
        return sorted(
            re.findall(r"\w+", re.sub(r"\(.*", "", listed.removeprefix("Available dialects: ").replace("(*)", "")))
        )
    return []
