"""Run passes that can end the process, torch-mlir's on foreign programs, in a process of their own.

A pass that fails, and a process that dies or exceeds its limits, raise the `PassFailedError` of `run_passes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri import settings
from mlirtri.dialect.bindings.mlir import ir, load_stablehlo, load_torch, print_module
from mlirtri.dialect.definition import context_for
from mlirtri.errors import KernelError, Note, PassFailedError, Span
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.toolchain.mlir_passes import Pass, explain, in_module, parse_pipeline, saved_reproducer
from mlirtri.lowering.toolchain.worker_process import WORKER, Limits, ProcessDied

SECONDS = 600.0
"""After which a process counts as hanging."""
BYTES, BYTES_PER_BYTE = 4 << 30, 256
"""Address space that passes may take, unless ``MLIRTRI_MAX_PASS_BYTES`` says otherwise: so much, and so many more for
each of the text. The libraries are 300 MiB, twelve layers of attention 10 more."""


def run_isolated(module: ir.Module, passes: Sequence[Pass], context: CompileContext) -> ir.Module:
    """Return `module` after `passes`, in a context of its own; raises `PassFailedError`."""
    text = module.operation.get_asm(enable_debug_info=True)
    groups = [(step.name, in_module(step.pipeline)) for step in passes]
    if not context.keep_passes:
        groups = [(" ".join(name for name, _ in groups), in_module(",".join(step.pipeline for step in passes)))]
    for name, pipeline in groups:
        before, text = text, _asked(pipeline, text)
        if isinstance(text, _Failure):
            help = saved_reproducer(before, pipeline, context)
            raise PassFailedError(f"pass {name} failed: {text.message}", text.span, help=help, notes=text.notes)
        module = _parsed(text)
        if context.keep_passes:
            context.record(name, print_module(module), before)
    return module


def _parsed(text: str) -> ir.Module:
    module_context = context_for(text)
    load_torch(module_context)
    load_stablehlo(module_context)
    return ir.Module.parse(text, module_context)


@dataclass(frozen=True)
class _Failure:
    message: str
    span: Span | None = None
    notes: Sequence[Note] = ()


def _asked(pipeline: str, text: str) -> str | _Failure:
    limit = settings.get("MLIRTRI_MAX_PASS_BYTES")
    most_bytes = limit if limit is not None else BYTES + BYTES_PER_BYTE * len(text)
    try:
        return WORKER.ask(Limits(SECONDS, most_bytes), _answer, pipeline, text)
    except ProcessDied as reason:
        help = "; MLIRTRI_MAX_PASS_BYTES sets how much" if "MiB of memory" in str(reason) else ""
        return _Failure(f"it {reason}{help}")


def _answer(pipeline: str, text: str) -> str | _Failure:
    try:
        module = _parsed(text)
        parse_pipeline(pipeline, module.context).run(module.operation)
        return module.operation.get_asm(enable_debug_info=True)
    except ir.MLIRError as error:
        return _Failure(*explain(error))
    except KernelError as error:
        return _Failure(error.message, error.span, error.notes)
