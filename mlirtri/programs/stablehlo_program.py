"""`mt.from_stablehlo`, and `mt.from_jax` on top of it: what JAX and other tools write as StableHLO, as a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlirtri.compiler.isolation import text_of_bytecode
from mlirtri.dialect.bindings.locations import parse_text
from mlirtri.dialect.bindings.mlir import ir, load_stablehlo, read_stablehlo_artifact
from mlirtri.dialect.definition import new_context
from mlirtri.errors import KernelError, KernelTypeError, ParseError
from mlirtri.kernels.kernel import shown_to_user
from mlirtri.programs.mlir_program import read_source
from mlirtri.programs.mlir_sources import BYTECODE, contents_of
from mlirtri.programs.program import Program

SUFFIXES = (".mlir", ".mlirbc", ".stablehlo")


def from_stablehlo(source: str | bytes | Path) -> Program:
    """The program of a StableHLO module: its text, a portable artifact, or the path of a file of either.

    Functions take and give NumPy arrays or torch tensors of the module's types; several results are a tuple.
    Raises `ParseError` at the place that does not parse.
    """
    try:
        return _program(source)
    except KernelError as error:
        raise shown_to_user(error)


def from_jax(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Program:
    """The program that JAX makes of `function` for these arguments, arrays or `jax.ShapeDtypeStruct`.

    `function` may be jitted, or be what `jax.jit(f).lower(…)` gave, without arguments then. The program takes the
    leaves of the arguments in order, and gives the leaves of the results.
    Raises `KernelTypeError` where JAX is not installed.
    """
    try:
        lowered = function if hasattr(function, "as_text") else _lowered(function, arguments, keywords)
        return _program(lowered.as_text(debug_info=True), "<jax>")
    except KernelError as error:
        raise shown_to_user(error)


def _lowered(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    try:
        import jax  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise KernelTypeError("from_jax needs JAX", help="pip install 'mlirtri[jax]'") from None
    # What the function does not use is an argument all the same.
    jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    return jitted.lower(*arguments, **keywords)


def _program(source: str | bytes | Path, file: str | None = None) -> Program:
    data, found = contents_of(source, SUFFIXES)
    file = file or found
    if data.startswith(BYTECODE):
        data = text_of_bytecode(data, file, _artifact_to_text)
    read = read_source(data, file, ("stablehlo.constant",), _parsed)
    return Program("stablehlo", lambda: _parsed(read.text, file), read.functions, file, read.params)


def _artifact_to_text(data: bytes) -> bytes:
    """The text of bytecode, which is StableHLO's own portable form or a module as it is; with its constants."""
    try:
        module = read_stablehlo_artifact(data, _context())
    except ValueError as error:
        raise ParseError(f"this is no portable artifact of StableHLO: {error}") from None
    return module.operation.get_asm(binary=True, enable_debug_info=True)


def _parsed(text: str, file: str) -> ir.Module:
    return parse_text(text, file, _context())


def _context() -> ir.Context:
    context = new_context()
    load_stablehlo(context)
    # Attributes such as `mhlo.num_partitions` are of dialects that nobody here has.
    context.allow_unregistered_dialects = True
    return context
