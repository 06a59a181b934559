"""Turn operands indexed by sums of loops, as a convolution's image, into views indexed by loops alone.

Each loop of a sum has a dimension of its own in the view, so that a convolution is a contraction like a matmul; nothing
is copied, overlapping windows share elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mlirtri.dialect.bindings.mlir import ir, memref
from mlirtri.lowering.mlir_common.linalg_builder import dimensions as access_by
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, loop_extents, maps_of, permute_loops, set_maps

Term = tuple[int, int]
"""A loop's number and its coefficient."""


def with_views(generic: ir.Operation) -> Callable[[], None] | None:
    """Make every operand that is indexed by sums of loops a view."""
    old_maps, iterators = maps_of(generic), iterators_of(generic)
    maps, views = list(old_maps), {}
    for position, value in enumerate(generic.operands):
        dimensions = _loop_dimensions(value, maps[position], iterators)
        if dimensions is not None:
            views[position] = (value, _view(generic, value, dimensions))
            maps[position] = access_by(*(loop for loop, _ in dimensions), rank=maps[position].n_dims)
    if not views:
        return None
    for position, (_, view) in views.items():
        generic.operands[position] = view
    set_maps(generic, maps)

    def undo() -> None:
        set_maps(generic, old_maps)
        for position, (value, view) in views.items():
            generic.operands[position] = value
            view.owner.operation.erase()

    return undo


def order_loops(generic: ir.Operation, order: list[int], outer: int) -> None:
    """Permute the loops: loop p is then the former ``order[p]``.

    Views get the dimensions of the first `outer` loops first: in a tile they are 1, and such dimensions between others
    would split the vectors.
    """
    for position, value in enumerate(generic.operands):
        _put_first(generic, position, value, order[:outer])
    permute_loops(generic, order)


def _put_first(generic: ir.Operation, position: int, value: ir.Value, loops: list[int]) -> None:
    maps = maps_of(generic)
    dims = [result.position for result in maps[position].results]
    order = sorted(range(len(dims)), key=lambda axis: loops.index(dims[axis]) if dims[axis] in loops else len(loops))
    strides, offset = value.type.get_strides_and_offset()
    is_static = ir.ShapedType.get_dynamic_stride_or_offset() not in (*strides, offset)
    if order == list(range(len(dims))) or not is_static:
        return
    sizes, steps = ([values[axis] for axis in order] for values in (value.type.shape, strides))
    kind = ir.MemRefType.get(sizes, value.type.element_type, layout=ir.StridedLayoutAttr.get(offset, steps))
    with ir.InsertionPoint(generic), generic.location:
        generic.operands[position] = memref.reinterpret_cast(kind, value, [], [], [], [offset], sizes, steps)
    maps[position] = access_by(*(dims[axis] for axis in order), rank=maps[position].n_dims)
    set_maps(generic, maps)


def _loop_dimensions(
    value: ir.Value, access: ir.AffineMap, iterators: list[str]
) -> list[tuple[int, tuple[int, int]]] | None:
    """Return each loop's extent (0: not known here) and stride in memory; None where no index is a sum."""
    kind = value.type
    if not isinstance(kind, ir.MemRefType) or not kind.has_static_shape:
        return None
    strides, offset = kind.get_strides_and_offset()
    is_wide = isinstance(kind.element_type, ir.F32Type | ir.F64Type)
    sums = sums_of(access.results)
    if offset != 0 or not is_wide or sums is None or all(len(terms) == 1 for terms in sums):
        return None
    dimensions = []
    for terms, stride, size in zip(sums, strides, kind.shape, strict=True):
        # The other loop of the sum comes last: it may be innermost in memory.
        ordered = sorted(terms, key=lambda term: iterators[term[0]] != "reduction")
        dimensions += [(loop, (size if len(terms) == 1 else 0, factor * stride)) for loop, factor in ordered]
    loops = [loop for loop, _ in dimensions]
    return dimensions if len(set(loops)) == len(loops) else None


def _terms(expression: ir.AffineExpr) -> list[Term] | None:
    """Return a sum of loops with coefficients; None for anything else."""
    if isinstance(expression, ir.AffineDimExpr):
        return [(expression.position, 1)]
    if isinstance(expression, ir.AffineMulExpr):
        parts = (expression.lhs, expression.rhs)
        loop = next((operand for operand in parts if isinstance(operand, ir.AffineDimExpr)), None)
        factor = next((operand for operand in parts if isinstance(operand, ir.AffineConstantExpr)), None)
        return None if loop is None or factor is None else [(loop.position, factor.value)]
    if isinstance(expression, ir.AffineAddExpr):
        parts = sums_of((expression.lhs, expression.rhs))
        return None if parts is None else [*parts[0], *parts[1]]
    return None


def sums_of(expressions: Iterable[ir.AffineExpr]) -> list[list[Term]] | None:
    """Return each expression as a sum of loops; None where one is anything else."""
    sums = [_terms(expression) for expression in expressions]
    plain = [terms for terms in sums if terms is not None]
    return plain if len(plain) == len(sums) else None


def _view(generic: ir.Operation, value: ir.Value, dimensions: list[tuple[int, tuple[int, int]]]) -> ir.Value:
    extents = loop_extents(generic)
    sizes = [size or extents[loop] for loop, (size, _) in dimensions]
    steps = [step for _, (_, step) in dimensions]
    kind = ir.MemRefType.get(sizes, value.type.element_type, layout=ir.StridedLayoutAttr.get(0, steps))
    with ir.InsertionPoint(generic), generic.location:
        return memref.reinterpret_cast(kind, value, [], [], [], [0], sizes, steps)
