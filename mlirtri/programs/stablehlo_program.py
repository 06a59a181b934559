"""`mt.from_stablehlo`, and `mt.from_jax` on top of it: StableHLO of JAX and other tools as a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlirtri.compiler.isolation import text_of_bytecode
from mlirtri.dialect.bindings.locations import parse_text
from mlirtri.dialect.bindings.mlir import ir, load_stablehlo, read_stablehlo_artifact
from mlirtri.dialect.definition import new_context
from mlirtri.errors import KernelError, KernelTypeError, ParseError
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.programs.mlir_program import read_source
from mlirtri.programs.mlir_sources import BYTECODE, contents_of
from mlirtri.programs.program import Program

SUFFIXES = (".mlir", ".mlirbc", ".stablehlo")


def from_stablehlo(source: str | bytes | Path) -> Program:
    """Return the program of a StableHLO module: its text, a portable artifact, or a file of either.

    Functions take and return NumPy arrays or torch tensors of the module's types; several results are a tuple. Raises
    `ParseError` with the position that does not parse.
    """
    try:
        return _program(source)
    except KernelError as error:
        hide_frames(error)
        raise


def from_jax(function: Callable[..., object], *arguments: object, **keywords: object) -> Program:
    """Return the program of `function` as JAX lowers it for these arguments, arrays or `jax.ShapeDtypeStruct`.

    `function` may be jitted, or the result of `jax.jit(f).lower(…)`, without arguments then. The program takes the
    leaves of the arguments in order, and returns the leaves of the results. Raises `KernelTypeError` where JAX is not
    installed.
    """
    try:
        lowered = function if hasattr(function, "as_text") else _lowered(function, arguments, keywords)
        return _program(lowered.as_text(debug_info=True), "<jax>")
    except KernelError as error:
        hide_frames(error)
        raise


def _lowered(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    try:
        import jax  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise KernelTypeError("from_jax needs JAX", help="pip install 'mlirtri[jax]'") from None
    # Unused parameters remain arguments.
    jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    return jitted.lower(*arguments, **keywords)


def _program(source: str | bytes | Path, file: str | None = None) -> Program:
    data, found_file = contents_of(source, SUFFIXES)
    file = file or found_file
    if data.startswith(BYTECODE):
        data = text_of_bytecode(data, file, _artifact_to_text)
    read = read_source(data, file, ("stablehlo.constant",), _parsed)
    return Program("stablehlo", lambda: _parsed(read.text, file), read.functions, file, read.params)


def _artifact_to_text(data: bytes) -> bytes:
    try:
        module = read_stablehlo_artifact(data, _context())
    except ValueError as error:
        raise ParseError(f"this is not a portable artifact of StableHLO: {error}") from None
    return module.operation.get_asm(binary=True, enable_debug_info=True)


def _parsed(text: str, file: str) -> ir.Module:
    return parse_text(text, file, _context())


def _context() -> ir.Context:
    context = new_context()
    load_stablehlo(context)
    # Drop attributes of unavailable dialects, such as `mhlo.num_partitions`.
    context.allow_unregistered_dialects = True
    return context
