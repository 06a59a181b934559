"""scheduled → cuda: CUDA C++ for every kernel, made without a GPU and without nvcc.

Takes the scheduled module. Gives `Code` with the source of all kernels; a ``#line`` at the head of each names the
user's file and line, so that nvcc's and a profiler's messages do. Raises `CodegenError` on the line of a kernel
for which TVM makes no source. The executable refuses every call where there is no CUDA device (`DeviceError`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import CodegenError, DeviceError
from mlirtri.lowering.cuda_source import device_module, source_of
from mlirtri.lowering.launch_plan import make_plan
from mlirtri.lowering.stage import Code, CompileContext
from mlirtri.lowering.tvm_names import IRModule, PrimFunc, tirx
from mlirtri.lowering.tvm_passes import locations_of, place_of, prim_funcs, short_message, span_of
from mlirtri.lowering.tvm_targets import tvm_target


def lower(mod: IRModule, context: CompileContext) -> Code:
    """The CUDA source of all kernels."""
    functions = prim_funcs(mod)
    plan = make_plan(mod)
    executable = CudaExecutable(plan.kernels if plan else len(functions))
    if not functions:
        return Code("// no kernel\n", executable)
    target = tvm_target(context.target)
    try:
        return Code(_source(functions, target), executable)
    except Exception as error:
        place = next((place_of(function) for name, function in functions if _fails(name, function, target)), None)
        raise CodegenError(f"TVM made no CUDA source: {short_message(error)}", place) from None


def _source(functions: list[tuple[str, PrimFunc]], target) -> str:
    device = device_module(functions, target)
    heads = {name: _line_directive(function) for name, function in functions}
    located = {
        gv: function.with_body(_after(heads[_kernel_of(gv.name_hint, heads)], function.body))
        for gv, function in device.functions_items()
    }
    return source_of(IRModule(located), target)


def _kernel_of(device_name: str, heads: dict[str, Any]) -> str:
    """The PrimFunc that a device function came from; TVM appends ``_kernel`` and a number to its name."""
    return max((name for name in heads if device_name.startswith(f"{name}_kernel")), key=len, default="")


def _line_directive(function: PrimFunc) -> Any:
    """A statement that TVM prints as comments naming every source line, then ``#line`` of the last of them."""
    spans = [span for location in locations_of(function) if (span := span_of(location))]
    if not spans:
        return None
    comments = "".join(f"\n  // {span.file}:{span.line}" for span in spans)
    file = spans[-1].file.replace("\\", "\\\\").replace('"', '\\"')
    # The call's own "();" ends up behind the comment sign, so that the next line is the first that the directive names.
    return tirx.Evaluate(tirx.call_extern("int32", f'{comments}\n#line {spans[-1].line} "{file}" //'))


def _after(head: Any, body: Any) -> Any:
    return body if head is None else tirx.SeqStmt([head, body])


def _fails(name: str, function: PrimFunc, target) -> bool:
    try:
        _source([(name, function)], target)
    except Exception:
        return True
    return False


@dataclass(frozen=True)
class CudaExecutable:
    """Stands for kernels that need a device."""

    kernels: int

    def launch(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        raise DeviceError(
            "this kernel was compiled for CUDA, and this TVM has no CUDA runtime to launch it",
            help='compile with target="cpu" to run it; the CUDA source is kernel.ir["cuda"]',
        )
