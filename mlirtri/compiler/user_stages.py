"""Check what a user's stage gives, before a lowering of ours takes it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from mlirtri.compiler.interfaces import described, fits, function_of
from mlirtri.compiler.printing import RESUMABLE
from mlirtri.compiler.verify import verify_form
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import KernelTypeError, ParseError, Span
from mlirtri.lowering.core.stage import Code, CompileContext, Stage
from mlirtri.lowering.frontend.python_to_ast import KernelTree


def check_result(stage: Stage, result: object, context: CompileContext) -> None:
    """Raise a `KernelError` unless the result is IR that the next stage can take."""
    expected, shown = _wanted(stage.kind)
    if not isinstance(result, expected):
        actual = "None" if result is None else f"a {type(result).__module__}.{type(result).__qualname__}"
        raise KernelTypeError(
            f"stage {stage.name!r} gave {actual}, not {shown}",
            _span(stage),
            help="a stage is a function (ir, context) that returns the IR it made, or the one it changed",
        )
    if stage.kind not in RESUMABLE:
        return
    verify_form(stage, result)
    if context.interface is not None:
        _check_function(stage, result, context)


def _wanted(kind: str) -> tuple[type, str]:
    if kind == "tvmscript":
        from mlirtri.lowering.toolchain.tvm_names import IRModule  # loads TVM

        return IRModule, "a tvm.IRModule"
    return {"mlir": (ir.Module, "an MLIR module"), "python": (KernelTree, "the tree of stage 'ast'")}.get(
        kind, (Code, "a Code with its text")
    )


def _check_function(stage: Stage, module: Any, context: CompileContext) -> None:
    try:
        name, interface = function_of(stage.kind, module, Path(stage.name))
    except ParseError as error:
        raise KernelTypeError(f"stage {stage.name!r}: {error.message}", _span(stage), help=error.help) from None
    if name != context.kernel or not fits(interface, context.interface):
        expected = f"{context.kernel}{described(context.interface)}"
        raise KernelTypeError(
            f"stage {stage.name!r} gave the function {name}{described(interface)} instead of {expected}",
            _span(stage),
            help="a stage keeps the kernel's name and signature",
        )


def _span(stage: Stage) -> Span | None:
    code = getattr(inspect.unwrap(stage.run), "__code__", None)
    return None if code is None else Span(code.co_filename, code.co_firstlineno, 1)
