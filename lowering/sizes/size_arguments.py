"""Pass dynamic sizes to compiled code as index arguments behind the pointers, in the order of memrefs and axes.

func @f(%x: memref<?x4xf32>)   ──►   func @f(%x: memref<1xf32>, %n: index)
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, memref
from mlirtri.lowering.mlir.index_values import index_constant

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def unknown_sizes(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Return the buffer and axis of each size that a call has to pass, in order."""
    return tuple((buffer, axis) for buffer, shape in enumerate(shapes) for axis, size in enumerate(shape) if size < 0)


def pass_sizes(function: ir.OpView) -> None:
    """Change the function's arguments, in place; their uses still see the memrefs."""
    block = function.regions[0].blocks[0]
    buffers = list(block.arguments)
    if not unknown_sizes([buffer.type.shape for buffer in buffers]):
        return
    attributes = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    for buffer in buffers:
        if not buffer.type.has_static_shape:
            added = [block.add_argument(ir.IndexType.get(), buffer.location) for size in buffer.type.shape if size < 0]
            attributes += [ir.DictAttr.get({})] * len(added)
            _see_as_memref(buffer, added)
    kinds = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _see_as_memref(buffer: ir.Value, dynamic_sizes: Sequence[ir.Value]) -> None:
    """Make `buffer` a pointer, and give its uses a memref of these dynamic sizes."""
    kind, unknown = buffer.type, iter(dynamic_sizes)
    with ir.InsertionPoint.at_block_begin(buffer.owner), buffer.location:
        buffer.set_type(ir.MemRefType.get([1], kind.element_type))
        sizes = [next(unknown) if size < 0 else index_constant(size) for size in kind.shape]
        strides, dynamic = _strides(kind.shape, sizes)
        layout = ir.StridedLayoutAttr.get(0, strides)
        strided_type = ir.MemRefType.get(kind.shape, kind.element_type, layout)
        view = memref.ReinterpretCastOp(
            strided_type, buffer, [], list(dynamic_sizes), dynamic, [0], list(kind.shape), strides
        )
        restored = memref.CastOp(kind, view.result)
    buffer.replace_all_uses_except(restored.result, view.operation)


def _strides(shape: Sequence[int], sizes: Sequence[ir.Value]) -> tuple[list[int], list[ir.Value]]:
    static, dynamic = [1], []
    value = index_constant(1)
    for axis in range(len(shape) - 1, 0, -1):
        value = arith.muli(value, sizes[axis])
        is_static = static[0] >= 0 and shape[axis] >= 0
        static.insert(0, static[0] * shape[axis] if is_static else _DYNAMIC)
        if not is_static:
            dynamic.insert(0, value)
    return static, dynamic
