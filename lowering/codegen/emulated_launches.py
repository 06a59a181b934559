"""The host's half of CUDA functions, for the emulated device: TVM's own host code, with the CPU in place of the GPU.

Tensors are checked and kernels launched as on a device, in loops and branches of the host, too. A launch passes, after
the kernel's arguments, the grid, the block, the bytes of dynamic shared memory and those that a block may have, and the
bytes of each buffer, which the emulated device checks accesses against; less than 0 for a buffer that the host has
allocated, in which nothing is written yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.codegen.build_pipeline import BUILD_PIPELINE
from mlirtri.lowering.codegen.lowered_functions import DEVICE_FUNCTION, Named, cuda_module
from mlirtri.lowering.core.launch_figures import most_shared_bytes
from mlirtri.lowering.tir.statements import nodes_in, operator_name
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    IRModule,
    Node,
    PrimFunc,
    RuntimeModule,
    Target,
    ir,
    structural_map,
    tirx,
    tvm,
)

_LAUNCH = "tirx.call_ffi_kernel"
_PACKED = "tirx.tvm_call_packed"
_GET = "tirx.tvm_struct_get"
_SET_DEVICE = "__tvm_set_device"
_DYNAMIC_BYTES = "tirx.use_dyn_shared_memory"
_SIZES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
_CPU, _CUDA = 1, 2
"""DLPack's numbers of devices."""
_DEVICE_TYPE = 10
"""TVM's number of the field of a tensor that has its kind of device."""


def host_module(functions: Sequence[Named], target: Target) -> RuntimeModule:
    """Return the runtime module of the functions' host code; it looks kernels up in the modules that it imports."""
    pipeline, finish_host, _ = tvm.tirx.get_tir_pipeline(BUILD_PIPELINE)
    mod = pipeline(tirx.transform.BindTarget(target)(cuda_module(functions)))
    spans = {name: {buffer.name: _span(buffer) for buffer in _strided(function)} for name, function in functions}
    most = most_shared_bytes(str(target.attrs["arch"]))
    on_host = {
        variable: _on_cpu(function, most, spans.get(variable.name_hint, {}))
        for variable, function in mod.functions_items()
        if int(function.attrs.get("calling_conv", 0)) != DEVICE_FUNCTION
    }
    return tvm.get_global_func("target.build.llvm")(finish_host()(IRModule(on_host)), target.host)


def _strided(function: PrimFunc) -> list[Any]:
    return [buffer for buffer in function.params if len(getattr(buffer, "strides", None) or ())]


def _span(buffer: Buffer) -> Any:
    """Return how many elements there are from the first of a strided buffer to one past its last one."""
    elements: Any = tirx.IntImm("int64", 1)
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        elements = elements + (size - 1) * stride
    return elements


def _on_cpu(function: PrimFunc, most: int, spans: Mapping[str, Any]) -> PrimFunc:
    """Return a host function of CUDA tensors as one of the CPU's, whose launches say the sizes of memory.

    `spans` has the elements of strided buffers by name.
    """
    own = frozenset(node.buffer for node in nodes_in(function.body, tirx.AllocBuffer))
    rules = [
        (tirx.EQ, _compared_with_cpu),
        (tirx.AttrStmt, _attribute_of_cpu),
        (ir.Call, lambda node: _call(node, most, spans, own)),
    ]
    return function.with_body(structural_map(function.body, rules, order="post"))


def _compared_with_cpu(node: Node) -> Any:
    field = node.a
    is_device = operator_name(field) == _GET and int(field.args[2]) == _DEVICE_TYPE
    return tirx.EQ(field, tirx.IntImm("int32", _CPU)) if is_device else node


def _attribute_of_cpu(node: Node) -> Any:
    if node.attr_key != "device_type" or int(node.value) != _CUDA:
        return node
    return tirx.AttrStmt(node.node, node.attr_key, tirx.IntImm("int32", _CPU), node.body)


def _call(node: Node, most: int, spans: Mapping[str, Any], own: Set[Any]) -> Any:
    if operator_name(node) == _LAUNCH:
        return _launch(node, most, spans, own)
    if operator_name(node) == _PACKED and node.args[0].value == _SET_DEVICE:
        return tirx.call_packed(_SET_DEVICE, tirx.IntImm("int32", _CPU), node.args[2])
    return node


def _launch(node: Node, most: int, spans: Mapping[str, Any], own: Set[Any]) -> Any:
    names = [str(name) for name in node.attrs.launch_params]
    count = len(node.args) - len(names)
    kernel, arguments = node.args[0], list(node.args[1:count])
    given = dict(zip(names, node.args[count:], strict=True))
    sizes = [tirx.Cast("int64", given.get(name, tirx.IntImm("int64", 1))) for name in _SIZES]
    sizes.append(tirx.Cast("int64", given.get(_DYNAMIC_BYTES, tirx.IntImm("int64", 0))))
    sizes.append(tirx.IntImm("int64", most))
    buffers = [argument for argument in arguments if not isinstance(argument.ty, ir.PrimType)]
    extents = [_bytes_of(argument, kernel.value, spans, own) for argument in buffers]
    return tirx.call_packed(kernel.value, *arguments, *sizes, *extents)


def _bytes_of(argument: Expr, kernel: str, spans: Mapping[str, Any], own: Set[Any]) -> Expr:
    """Return the bytes of the buffer whose data a launch passes, less than 0 for one of the host's `own`."""
    buffer = argument.args[0] if isinstance(argument, ir.Call) and len(argument.args) else None
    if buffer is None or not hasattr(buffer, "shape"):
        raise UnsupportedOperationError(
            f"the emulation does not know the size of the buffer {argument} that {kernel} takes",
            help='run the kernel on a device, with target="cuda"',
        )
    size: Any = tirx.IntImm("int64", as_dtype(str(buffer.dtype)).bytes)
    for extent in [spans[buffer.name]] if buffer.name in spans else buffer.shape:
        size = size * tirx.Cast("int64", extent)
    return -size if buffer in own else size
