"""The names of the passes and dialects that there are: upstream's, found in its library, and ours."""

from __future__ import annotations

import mmap
import re
from functools import cache
from pathlib import Path

from mlirtri.dialect import definition
from mlirtri.dialect.bindings.mlir import ir, load_stablehlo, load_torch, passmanager
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


def _candidates() -> set[str]:
    """Return what could be a name in MLIR's library."""
    (library,) = (Path(str(ir.__file__)).parent / "_mlir_libs").glob("*Aggregate*")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        strings = {match.decode() for match in re.findall(rb"[a-z][a-z0-9_\-]{2,70}(?=\x00)", data)}
    return {text[start:] for text in strings for start in range(len(text) - 2) if text[start].isalpha()}


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
