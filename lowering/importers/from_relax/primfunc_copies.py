"""Lower blocks of a PrimFunc that only copy elements to slices, padding, or the source tensor itself.

Takes a nest. Gives the tensor that its output is, or None for a nest that is no such copy. Handles whole tensors of
static shape only: any other nest becomes a `linalg.generic`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import ir, tensor
from mlirtri.lowering.importers.from_relax.primfunc_nests import AffineIndex, Nest, affine_index_of
from mlirtri.lowering.importers.from_relax.tir_to_scalar import constant
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, TensorLoad, tirx
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir

Bound = tuple[int, str, int]
"""An axis, ``>=`` or ``<``, and the constant that it is compared with."""


def copied(nest: Nest, tensors: dict[Buffer, ir.Value]) -> ir.Value | None:
    """Emit the tensor that the nest's output is; None if the nest is more than a copy."""
    copy = _copy_of(nest)
    if copy is None or copy.source not in tensors or not tensors[copy.source].type.has_static_shape:
        return None
    if copy.padding is None:
        return _slice(copy, tensors[copy.source])
    return _padded(copy, tensors[copy.source])


@dataclass(frozen=True)
class _Copy:
    """An output whose elements are a source's, in the same order."""

    source: Buffer
    accesses: tuple[tuple[int | None, int, int], ...]
    """For each axis of the source: the axis of the output or None, the stride and the offset."""
    sizes: tuple[int, ...]
    """The shape of the output."""
    padding: Expr = None
    """The constant where the source is out of bounds."""
    bounds: frozenset[Bound] = frozenset()
    """The conditions under which the source is in bounds."""


def _copy_of(nest: Nest) -> _Copy | None:
    if nest.reductions or len(nest.outputs) != 1 or len(nest.statements) != 1:
        return None
    [(output, indices)] = nest.outputs.items()
    if nest.single or indices != tuple(AffineIndex(((axis, 1),)) for axis in range(len(nest.axes))):
        return None
    if not all(isinstance(size, tirx.IntImm) for size in output.shape):
        return None
    sizes = tuple(int(size.value) for size in output.shape)
    value = nest.statements[0].value
    if isinstance(value, TensorLoad):
        return _Copy(value.source, axes, sizes) if (axes := _affine_axes(value, nest)) is not None else None
    return _guarded_copy(value, nest, sizes)


def _guarded_copy(value: Expr, nest: Nest, sizes: tuple[int, ...]) -> _Copy | None:
    if not isinstance(value, tvm_ir.Call) or not str(getattr(value.op, "name", "")).endswith("if_then_else"):
        return None
    condition, load, padding = value.args
    if not isinstance(load, TensorLoad) or not isinstance(padding, (tirx.IntImm, tirx.FloatImm)):
        return None
    indices, bounds = _affine_axes(load, nest), list(_bounds(condition, nest))
    if indices is None or None in bounds:
        return None
    return _Copy(load.source, indices, sizes, padding, frozenset(bound for bound in bounds if bound is not None))


def _affine_axes(load: TensorLoad, nest: Nest) -> tuple[tuple[int | None, int, int], ...] | None:
    """Return the axes that a load is indexed by, if they are in the order of the output; None for other loads."""
    indices = []
    for index in load.indices:
        # An offset may be negative where there is padding.
        shift = _shift(index)
        affine = affine_index_of(index - shift if shift < 0 else index, nest.positions)
        if affine is None or len(affine.terms) > 1:
            return None
        axis, stride = affine.terms[0] if affine.terms else (None, 1)
        indices.append((axis, stride, affine.offset + min(shift, 0)))
    walked = [axis for axis, _, _ in indices if axis is not None]
    return tuple(indices) if walked == list(range(len(nest.axes))) else None


def _shift(index: Expr) -> int:
    """Return the constant that an index adds."""
    kind = type(index).__name__
    if kind in ("Add", "Sub") and isinstance(index.b, tirx.IntImm):
        return int(index.b.value) * (1 if kind == "Add" else -1)
    return 0


def _bounds(condition: Expr, nest: Nest) -> Iterator[Bound | None]:
    kind = type(condition).__name__
    if kind == "And":
        yield from _bounds(condition.a, nest)
        yield from _bounds(condition.b, nest)
    elif isinstance(condition, tvm_ir.Call) and str(getattr(condition.op, "name", "")).endswith("likely"):
        yield from _bounds(condition.args[0], nest)
    elif kind in ("LE", "LT", "GE", "GT"):
        yield _bound(kind, condition.a, condition.b, nest)
    else:
        yield None


def _bound(kind: str, x: Expr, y: Expr, nest: Nest) -> Bound | None:
    if isinstance(x, tirx.IntImm):
        return _bound({"LE": "GE", "LT": "GT", "GE": "LE", "GT": "LT"}[kind], y, x, nest)
    axis = nest.positions.get(x) if isinstance(x, tirx.Var) else None
    if axis is None or not isinstance(y, tirx.IntImm):
        return None
    constant = int(y.value) + (kind in ("LE", "GT"))
    return axis, ">=" if kind in ("GE", "GT") else "<", constant


def _slice(copy: _Copy, source: ir.Value) -> ir.Value | None:
    sizes = [1 if axis is None else copy.sizes[axis] for axis, _, _ in copy.accesses]
    offsets, strides = [offset for _, _, offset in copy.accesses], [stride for _, stride, _ in copy.accesses]
    last = [offset + (size - 1) * stride for offset, size, stride in zip(offsets, sizes, strides, strict=True)]
    is_within = all(0 <= position < size for position, size in zip(last, source.type.shape, strict=True))
    if not is_within or min(offsets, default=0) < 0 or 0 in sizes:
        return None
    if list(copy.sizes) == list(source.type.shape):
        return source
    kind = ir.RankedTensorType.get(list(copy.sizes), source.type.element_type)
    return tensor.extract_slice(kind, source, [], [], [], offsets, sizes, strides)


def _padded(copy: _Copy, source: ir.Value) -> ir.Value | None:
    """Emit a `tensor.pad`; None unless the bounds match the source exactly."""
    if any(axis is None or stride != 1 or offset > 0 for axis, stride, offset in copy.accesses):
        return None
    low = [-offset for _, _, offset in copy.accesses]
    high = [
        padded_size - start - size for padded_size, start, size in zip(copy.sizes, low, source.type.shape, strict=True)
    ]
    lower = {(axis, ">=", start) for axis, start in enumerate(low) if start > 0}
    upper = {(axis, "<", copy.sizes[axis] - end) for axis, end in enumerate(high) if end > 0}
    trivial = {bound for bound in copy.bounds if bound[2] == (0 if bound[1] == ">=" else copy.sizes[bound[0]])}
    if min(high, default=0) < 0 or copy.bounds - trivial != lower | upper:
        return None
    kind = ir.RankedTensorType.get(list(copy.sizes), source.type.element_type)
    dtype = str(copy.padding.ty.dtype)
    operation = tensor.PadOp(kind, source, [], [], low, high)
    index = ir.IndexType.get()
    block = operation.regions[0].blocks.append(*[index] * len(low), arg_locs=[ir.Location.current] * len(low))
    with ir.InsertionPoint(block):
        tensor.YieldOp(constant(copy.padding.value, dtype))
    return operation.results[0]
