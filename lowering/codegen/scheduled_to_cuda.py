"""Generate CUDA C++ for every kernel (scheduled → cuda), without a GPU and without nvcc.

A ``#line`` at the head of each kernel names the user's file and line, so that nvcc's and a profiler's messages do. The
executable compiles the source for the device at its first call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mlirtri.errors import CodegenError, KernelError, Span
from mlirtri.lowering.codegen.build_pipeline import BUILD_PIPELINE
from mlirtri.lowering.codegen.cuda_figures import figures_of
from mlirtri.lowering.codegen.emulated_launches import host_module
from mlirtri.lowering.codegen.lowered_functions import cuda_module, device_module, on_failing_line, source_of
from mlirtri.lowering.codegen.passes.source_locations import with_source_lines, without_calls
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import Code, CompileContext, Executable
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.cuda_emulation.executable import EmulatedExecutable
from mlirtri.lowering.cuda_emulation.translation import kernels_of
from mlirtri.lowering.external.vdevices import is_for, targets_in
from mlirtri.lowering.runtime.cuda_executable import CudaExecutable
from mlirtri.lowering.runtime.launch_plan import Plan
from mlirtri.lowering.runtime.planner import make_plan
from mlirtri.lowering.runtime.tvm_executable import Library
from mlirtri.lowering.toolchain.cuda_code import code_of
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, tvm
from mlirtri.lowering.toolchain.tvm_names import Target as TvmTarget
from mlirtri.lowering.toolchain.tvm_passes import locations_of, prim_funcs, short_message, span_of


def lower(mod: IRModule, context: CompileContext) -> Code:
    functions = [pair for pair in prim_funcs(mod) if is_for(pair[1], "cuda")]
    targets = targets_in(mod, context.target)
    target = next(candidate for candidate in targets if candidate.is_cuda)
    # A kernel for both kinds of devices is complete after `cuda_to_llvm`.
    is_complete = len(targets) == 1
    source = "// no kernel\n"
    if functions:
        source = on_failing_line(functions, lambda some: _source(some, tvm_target(target)), "TVM made no CUDA source")
    executable = executable_of(functions, source, make_plan(mod), target) if is_complete else None
    return Code(source, executable, None if is_complete else mod)


def _source(functions: list[tuple[str, PrimFunc]], target: TvmTarget) -> str:
    device = device_module(functions, target)
    spans = {name: _spans(function) for name, function in functions}
    located = {
        gv: with_source_lines(function, spans.get(_kernel_of(gv.name_hint, spans), ()))
        for gv, function in device.functions_items()
    }
    return without_calls(source_of(IRModule(located), target))


def _kernel_of(device_name: str, functions: dict[str, Any]) -> str:
    """Return the PrimFunc that a device function came from; TVM appends ``_kernel`` and a number to its name."""
    return max((name for name in functions if device_name.startswith(f"{name}_kernel")), key=len, default="")


def _spans(function: PrimFunc) -> list[Span]:
    """Return the Python expressions that a function computes, its own last."""
    return [span for location in locations_of(function) if (span := span_of(location))]


def executable_of(
    functions: list[tuple[str, PrimFunc]], source: str, plan: Plan | None, target: Target, host: Library | None = None
) -> Executable:
    """Return the executable of CUDA functions, compiled at the first launch, and the CPU's beside them.

    `source` is theirs. TVM makes the functions that launch it.
    """
    compiled = tvm_target(target)
    make_figures = partial(figures_of, functions, source, compiled)
    if target.is_emulated:
        spans = {name: _spans(function) for name, function in functions}
        of_kernels = {name: spans.get(_kernel_of(name, spans), ()) for name in kernels_of(source)}
        make_host = partial(host_module, functions, compiled)
        return EmulatedExecutable(plan, len(functions), source, of_kernels, make_host, host, make_figures)

    def make_module(source: str) -> Any:
        try:
            with code_of(source, target.architecture):
                return tvm.tirx.build(cuda_module(functions), target=compiled, pipeline=BUILD_PIPELINE)
        except KernelError:
            raise
        except Exception as error:
            raise CodegenError(f"TVM made no CUDA code: {short_message(error)}") from None

    return CudaExecutable(plan, len(functions), source, make_module, target.architecture, host, make_figures)
