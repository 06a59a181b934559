"""Lower to LLVM's dialect by upstream's passes alone: the stage `llvmdialect` of pipeline `upstream`.

Loops are as upstream makes them, scalar and on one thread; LLVM vectorises what it can, and functions such as `exp` are
those of the C library. Ours is the calling convention, and arithmetic on fp16 and bf16 where LLVM has none.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse_large_buffers
from mlirtri.lowering.mlir_backend.llvm.bufferized_to_llvmdialect import (
    TO_LOOPS,
    loops_to_llvm,
    prepare_functions,
    sizes_to_arguments,
)
from mlirtri.lowering.mlir_common.cloning import copies_to_linalg
from mlirtri.lowering.toolchain.mlir_passes import run_passes, run_rewrite


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` in place; raises `PassFailedError`, `KernelMemoryError`."""
    with module.context, ir.Location.unknown():
        refuse_large_buffers(module)
        run_rewrite("prepare-functions", prepare_functions, module, context)
        run_rewrite("sizes-to-arguments", sizes_to_arguments, module, context)
        run_rewrite("open-copies-to-linalg", open_copies_to_linalg, module, context)
        run_passes(module, TO_LOOPS, context)
        loops_to_llvm(module, context)
    return module


def open_copies_to_linalg(module: ir.Module) -> None:
    """Make structured operations of copies with sizes of run time: upstream's call a library that wheels lack."""
    copies_to_linalg(module, lambda source, target: not (source.has_static_shape and target.has_static_shape))
