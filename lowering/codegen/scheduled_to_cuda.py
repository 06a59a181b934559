"""Generate CUDA C++ for every kernel (scheduled → cuda), without a GPU and without nvcc.

A ``#line`` at the head of each kernel names the user's file and line, so that nvcc's and a profiler's messages do. The
executable compiles the source for the device at its first call.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from mlirtri.errors import CodegenError, KernelError
from mlirtri.lowering.codegen.build_pipeline import BUILD_PIPELINE
from mlirtri.lowering.codegen.lowered_functions import cuda_module, device_module, on_failing_line, source_of
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.external.vdevices import is_for, targets_in
from mlirtri.lowering.runtime.cuda_executable import CudaExecutable
from mlirtri.lowering.runtime.launch_plan import Plan
from mlirtri.lowering.runtime.planner import make_plan
from mlirtri.lowering.runtime.tvm_executable import Library
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, Target, tirx, tvm
from mlirtri.lowering.toolchain.tvm_passes import locations_of, prim_funcs, short_message, span_of


def lower(mod: IRModule, context: CompileContext) -> Code:
    functions = [pair for pair in prim_funcs(mod) if is_for(pair[1], "cuda")]
    targets = targets_in(mod, context.target)
    target = tvm_target(next(candidate for candidate in targets if candidate.is_cuda))
    # A kernel for both kinds of devices is complete after `cuda_to_llvm`.
    executable = executable_of(functions, make_plan(mod), target) if len(targets) == 1 else None
    payload = mod if executable is None else None
    if not functions:
        return Code("// no kernel\n", executable, payload)

    source = on_failing_line(functions, lambda some: _source(some, target), "TVM made no CUDA source")
    return Code(source, executable, payload)


def _source(functions: list[tuple[str, PrimFunc]], target: Target) -> str:
    device = device_module(functions, target)
    heads = {name: _line_directive(function) for name, function in functions}
    located = {
        gv: function.with_body(_after(heads[_kernel_of(gv.name_hint, heads)], function.body))
        for gv, function in device.functions_items()
    }
    return source_of(IRModule(located), target)


def _kernel_of(device_name: str, heads: dict[str, Any]) -> str:
    """Return the PrimFunc that a device function came from; TVM appends ``_kernel`` and a number to its name."""
    return max((name for name in heads if device_name.startswith(f"{name}_kernel")), key=len, default="")


def _line_directive(function: PrimFunc) -> Any:
    """Return a statement that TVM prints as comments naming every source line, then ``#line`` of the last of them."""
    spans = [span for location in locations_of(function) if (span := span_of(location))]
    if not spans:
        return None
    comments = "".join(f"\n  // {span.file}:{span.line}" for span in spans)
    file = spans[-1].file.replace("\\", "\\\\").replace('"', '\\"')
    # The call's own "();" is printed behind the comment sign; ``#line`` applies to the line after it.
    return tirx.Evaluate(tirx.call_extern("int32", f'{comments}\n#line {spans[-1].line} "{file}" //'))


def _after(head: Any, body: Any) -> Any:
    return body if head is None else tirx.SeqStmt([head, body])


def executable_of(
    functions: list[tuple[str, PrimFunc]], plan: Plan | None, target: Target, host: Library | None = None
) -> CudaExecutable:
    """Return the executable of CUDA functions, which TVM compiles at the first launch, and the CPU's beside them."""

    def make_module() -> Any:
        # TVM's own default needs the cuda-bindings package.
        os.environ.setdefault("TVM_CUDA_COMPILE_MODE", "nvcc" if shutil.which("nvcc") else "nvrtc")
        try:
            return tvm.tirx.build(cuda_module(functions), target=target, pipeline=BUILD_PIPELINE)
        except KernelError:
            raise
        except Exception as error:
            raise CodegenError(f"TVM made no CUDA code: {short_message(error)}") from None

    return CudaExecutable(plan, len(functions), make_module, str(target.attrs["arch"]), host)
