"""Pass dynamic sizes to compiled code as index arguments after the pointers, in the order of memrefs and axes.

func @f(%x: memref<?x4xf32>)   ──►   func @f(%x: memref<1xf32>, %n: index)

After them come the strides that are known at run time only, of the arguments that are not row-major.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import arith, ir, memref
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.mlir_common.index_values import index_constant

_DYNAMIC = ir.ShapedType.get_dynamic_size()
_BY_INDEX = ("memref.load", "memref.store", "memref.dim")
Strides = Mapping[int, Sequence[int | None]]
"""By number of an argument, its strides in elements, None for one of run time."""


def unknown_sizes(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Return the buffer and axis of each size that a call has to pass, in order."""
    return tuple((buffer, axis) for buffer, shape in enumerate(shapes) for axis, size in enumerate(shape) if size < 0)


def unknown_strides(strides: Strides) -> tuple[tuple[int, int], ...]:
    """Return the argument and axis of each stride that a call has to pass, in order."""
    return tuple(
        (argument, axis)
        for argument, steps in sorted(strides.items())
        for axis, stride in enumerate(steps)
        if stride is None
    )


def pass_sizes(function: ir.OpView, strides: Strides) -> None:
    """Change the function's arguments, in place; their uses still see the memrefs.

    `strides` are those of arguments that are not row-major. Raises `UnsupportedOperationError` for a view of one.
    """
    block = function.regions[0].blocks[0]
    buffers = list(block.arguments)
    unknown = unknown_sizes([buffer.type.shape for buffer in buffers])
    if not unknown and not strides:
        return
    passed = (*unknown, *unknown_strides(strides))
    added = [block.add_argument(ir.IndexType.get(), buffers[number].location) for number, _ in passed]
    attributes = [*ir.ArrayAttr(function.attributes["arg_attrs"]), *[ir.DictAttr.get({})] * len(added)]
    sizes = {number: [] for number in range(len(buffers))}
    steps: dict[int, list[ir.Value]] = {number: [] for number in strides}
    for position, ((number, _), value) in enumerate(zip(passed, added, strict=True)):
        (sizes if position < len(unknown) else steps)[number].append(value)
    for number, buffer in enumerate(buffers):
        if number in strides:
            _see_as_strided(buffer, sizes[number], strides[number], steps[number])
        elif not buffer.type.has_static_shape:
            _see_as_memref(buffer, sizes[number])
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


def _see_as_strided(
    buffer: ir.Value, sizes: Sequence[ir.Value], strides: Sequence[int | None], dynamic: Sequence[ir.Value]
) -> None:
    """Make `buffer` a pointer, and give its loads and stores a memref of these strides."""
    kind = buffer.type
    for use in buffer.uses:
        if use.owner.operation.name not in _BY_INDEX:
            raise UnsupportedOperationError(
                f"MLIR's code reads an argument that is no row-major one by index only, and {use.owner.operation.name} "
                "needs it whole",
                span_of(use.owner.location),
                help='use pipeline="linalg" or "relax", or annotate it with mt.Tensor: it is copied then',
            )
    with ir.InsertionPoint.at_block_begin(buffer.owner), buffer.location:
        buffer.set_type(ir.MemRefType.get([1], kind.element_type))
        steps = [_DYNAMIC if stride is None else stride for stride in strides]
        strided = ir.MemRefType.get(kind.shape, kind.element_type, ir.StridedLayoutAttr.get(0, steps))
        view = memref.ReinterpretCastOp(strided, buffer, [], list(sizes), list(dynamic), [0], list(kind.shape), steps)
    buffer.replace_all_uses_except(view.result, view.operation)


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
