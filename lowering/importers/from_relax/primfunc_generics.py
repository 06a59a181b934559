"""Emit a structured loop nest of a PrimFunc as a `linalg.generic`, or as a slice or padding where it only copies.

Indexing maps are the nest's affine loads; a load that no map expresses becomes a `tensor.extract` in the body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import ir, linalg, linalg_fill, tensor
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.primfunc_frame import Frame
from mlirtri.lowering.importers.from_relax.primfunc_nests import (
    AffineIndex,
    GenericNest,
    affine_index_of,
    bind_axes,
    loads_in,
    statements_of,
)
from mlirtri.lowering.importers.from_relax.tir_to_scalar import Scalars
from mlirtri.lowering.importers.from_relax.types import constant
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.linalg_builder import generic
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, TensorLoad, tirx
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir

Access = tuple[Buffer, tuple[AffineIndex, ...]]
"""A buffer and the affine indices of an element."""


def emit_nest(frame: Frame, nest: GenericNest) -> None:
    """Emit a nest as a `linalg.generic`, after the initial values of a reduction."""
    bind_axes(nest, frame.analyzer)
    for buffer in nest.outputs:
        if buffer not in frame.tensors:
            raise UnsupportedOperationError(f"the buffer {buffer.name} is memory that the function does not own")
    if (moved := _copied(nest, frame.tensors)) is not None:
        frame.tensors |= dict.fromkeys(nest.outputs, moved)
        return
    inits = [_initial(frame, nest, buffer) for buffer in nest.outputs]
    loads = _affine_loads(frame, nest)
    maps = [_map(nest, indices) for _, indices in loads]
    inputs = [frame.tensors[buffer] for buffer, _ in loads]
    if window := _unseen_reductions(nest, maps):
        sizes = [frame.size(nest.axes[position].dom.extent) for position in window]
        inputs.append(tensor.empty(sizes, ir.F32Type.get()))
        maps.append(_map(nest, tuple(AffineIndex(((position, 1),)) for position in window)))
    maps += [_map(nest, indices) for indices in nest.outputs.values()]
    kinds = ["reduction" if nest.is_reduction(position) else "parallel" for position in range(len(nest.axes))]

    def body(*elements: ir.Value) -> list[ir.Value]:
        values = dict(zip(loads, elements, strict=False))
        values |= dict(zip(nest.outputs.items(), elements[len(inputs) :], strict=True))
        return _body(frame, nest, nest.statements, values)

    results = generic(inputs, inits, maps, kinds, body)
    for buffer, result in zip(nest.outputs, results, strict=True):
        frame.tensors[buffer] = result


def _initial(frame: Frame, nest: GenericNest, buffer: Buffer) -> ir.Value:
    if nest.block.init is None:
        return frame.tensors[buffer] if buffer in nest.updated else _fresh(frame, buffer)
    stores = [store for store in statements_of(nest.block.init) if store.buffer.same_as(buffer)]
    if len(stores) == 1 and not loads_in(stores) and isinstance(stores[0].value, (tirx.IntImm, tirx.FloatImm)):
        return linalg_fill(frame.scalars.evaluate(stores[0].value), _fresh(frame, buffer))
    spatial_axes = [position for position in range(len(nest.axes)) if not nest.is_reduction(position)]
    spatial = GenericNest(nest.block, stores, [nest.axes[position] for position in spatial_axes], single=nest.single)
    indices = tuple(
        AffineIndex(tuple((spatial_axes.index(position), factor) for position, factor in index.terms))
        for index in nest.outputs[buffer]
    )

    def body(*_: ir.Value) -> list[ir.Value]:
        return _body(frame, spatial, stores, {}, [buffer])

    maps = [_map(spatial, indices)]
    return generic([], [_fresh(frame, buffer)], maps, ["parallel"] * len(spatial_axes), body)[0]


def _fresh(frame: Frame, buffer: Buffer) -> ir.Value:
    kind = frame.tensors[buffer].type
    sizes = [frame.size(extent) for extent in buffer.shape]
    static = [
        static_size if static_size != DYNAMIC else size for static_size, size in zip(kind.shape, sizes, strict=True)
    ]
    return tensor.empty(static, kind.element_type)


def _affine_loads(frame: Frame, nest: GenericNest) -> list[Access]:
    accesses: dict[Access, None] = {}
    for load in loads_in(nest.statements):
        if load.source in frame.tensors and load.source not in nest.outputs:
            if (indices := _affine_indices(frame, nest, load)) is not None:
                accesses[load.source, indices] = None
    return list(accesses)


def _affine_indices(frame: Frame, nest: GenericNest, load: TensorLoad) -> tuple[AffineIndex, ...] | None:
    affine_indices = []
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        affine = affine_index_of(index, nest.positions)
        if affine is None:
            return None
        if affine.is_axis:
            is_in_bounds = frame.analyzer.can_prove_equal(nest.axes[affine.terms[0][0]].dom.extent, extent)
        else:
            is_in_bounds = isinstance(extent, tirx.IntImm) and frame.scalars.is_below(index, extent)
        if not is_in_bounds:
            return None
        affine_indices.append(affine)
    return tuple(affine_indices)


def _map(nest: GenericNest, indices: Sequence[AffineIndex]) -> ir.AffineMap:
    return ir.AffineMap.get(len(nest.axes), 0, [_affine_expression(index) for index in indices])


def _affine_expression(index: AffineIndex) -> ir.AffineExpr:
    parts = [
        ir.AffineExpr.get_dim(position) * factor if factor != 1 else ir.AffineExpr.get_dim(position)
        for position, factor in index.terms
    ]
    parts += [ir.AffineExpr.get_constant(index.offset)] if index.offset or not parts else []
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _unseen_reductions(nest: GenericNest, maps: Sequence[ir.AffineMap]) -> list[int]:
    """Return the reduction axes whose extent no input determines."""
    indexed = {
        expression.position
        for mapping in maps
        for expression in mapping.results
        if isinstance(expression, ir.AffineDimExpr)
    }
    return [position for position in nest.reductions if position not in indexed]


def _body(
    frame: Frame,
    nest: GenericNest,
    statements: list[Stmt],
    values: dict[Access, ir.Value],
    targets: Sequence[Buffer] | None = None,
) -> list[ir.Value]:
    scratch: dict[tuple[object, ...], ir.Value] = {}
    outputs: dict[Buffer, ir.Value] = {}
    outer_scalars = frame.scalars

    def load(buffer: Buffer, indices: Sequence[Expr]) -> ir.Value:
        if (value := scratch.get(_element_key(buffer, indices))) is not None:
            return value
        affine_indices = (affine_index_of(index, nest.positions) for index in indices)
        access = buffer, tuple(index for index in affine_indices if index is not None)
        return values[access] if access in values else frame.load(buffer, indices)

    scalars = Scalars(load, frame.analyzer)
    scalars.variables, scalars.indices = dict(outer_scalars.variables), dict(outer_scalars.indices)
    frame.scalars = scalars
    for position, axis in enumerate(nest.axes):
        scalars.indices[axis.var] = linalg.IndexOp(position).result
    for variable in nest.single:
        scalars.indices[variable] = index_constant(0)
    scratch_buffers = set(nest.block.alloc_buffers)
    for statement in statements:
        value = scalars.evaluate(statement.value)
        if isinstance(statement, tirx.Bind):
            scalars.variables[statement.var] = value
        elif statement.buffer in scratch_buffers:
            scratch[_element_key(statement.buffer, statement.indices)] = value
        else:
            outputs[statement.buffer] = value
    frame.scalars = outer_scalars
    return [outputs[buffer] for buffer in targets or nest.outputs]


def _element_key(buffer: Buffer, indices: Sequence[Expr]) -> tuple[object, ...]:
    return (buffer, *(str(index) for index in indices))


Bound = tuple[int, str, int]
"""An axis, ``>=`` or ``<``, and the constant that it is compared with."""


def _copied(nest: GenericNest, tensors: dict[Buffer, ir.Value]) -> ir.Value | None:
    copy = _copy_of(nest)
    if copy is None or copy.source not in tensors or not tensors[copy.source].type.has_static_shape:
        return None
    if copy.padding is None:
        return _slice(copy, tensors[copy.source])
    return _padded(copy, tensors[copy.source])


@dataclass(frozen=True)
class _Copy:
    source: Buffer
    accesses: tuple[tuple[int | None, int, int], ...]
    """For each axis of the source: the axis of the output or None, the stride and the offset."""
    sizes: tuple[int, ...]
    """The shape of the output."""
    padding: Expr | None = None
    """The constant where the source is out of bounds."""
    bounds: frozenset[Bound] = frozenset()
    """The conditions under which the source is in bounds."""


def _copy_of(nest: GenericNest) -> _Copy | None:
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


def _guarded_copy(value: Expr, nest: GenericNest, sizes: tuple[int, ...]) -> _Copy | None:
    if not isinstance(value, tvm_ir.Call) or not str(getattr(value.op, "name", "")).endswith("if_then_else"):
        return None
    condition, load, padding = value.args
    if not isinstance(load, TensorLoad) or not isinstance(padding, (tirx.IntImm, tirx.FloatImm)):
        return None
    indices, bounds = _affine_axes(load, nest), list(_bounds(condition, nest))
    if indices is None or None in bounds:
        return None
    return _Copy(load.source, indices, sizes, padding, frozenset(bound for bound in bounds if bound is not None))


def _affine_axes(load: TensorLoad, nest: GenericNest) -> tuple[tuple[int | None, int, int], ...] | None:
    indices = []
    for index in load.indices:
        # An offset may be negative where there is padding.
        shift = _shift(index)
        affine = affine_index_of(index - shift if shift < 0 else index, nest.positions)
        if affine is None or len(affine.terms) > 1:
            return None
        axis, stride = affine.terms[0] if affine.terms else (None, 1)
        indices.append((axis, stride, affine.offset + min(shift, 0)))
    indexed = [axis for axis, _, _ in indices if axis is not None]
    return tuple(indices) if indexed == list(range(len(nest.axes))) else None


def _shift(index: Expr) -> int:
    kind = type(index).__name__
    if kind in ("Add", "Sub") and isinstance(index.b, tirx.IntImm):
        return int(index.b.value) * (1 if kind == "Add" else -1)
    return 0


def _bounds(condition: Expr, nest: GenericNest) -> Iterator[Bound | None]:
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


def _bound(kind: str, x: Expr, y: Expr, nest: GenericNest) -> Bound | None:
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
