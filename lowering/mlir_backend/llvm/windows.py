"""Turn operands indexed by sums of loops, as a convolution's image, into views indexed by loops alone.

Takes a `linalg.generic` over memrefs. Gives it, in place, with views of its operands in which each loop of a sum has a
dimension of its own, so that a convolution is a contraction like a matmul; nothing is copied, overlapping windows share
elements. Returns a function that undoes it, or None where there is no such operand.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import ir, linalg, memref
from mlirtri.lowering.mlir.linalg_builder import PARALLEL, empty_generic

Term = tuple[int, int]
"""A loop's number and its coefficient."""


def with_views(generic: ir.Operation) -> Callable[[], None] | None:
    """Make every operand that is indexed by sums of loops a view."""
    old_maps = generic.attributes["indexing_maps"]
    iterators = [str(kind) for kind in generic.attributes["iterator_types"]]
    maps, views = [attribute.value for attribute in old_maps], {}
    for position, value in enumerate(generic.operands):
        dimensions = _loop_dimensions(value, maps[position], iterators)
        if dimensions is not None:
            views[position] = (value, _view(generic, value, dimensions))
            dims = [ir.AffineDimExpr.get(loop) for loop, _ in dimensions]
            maps[position] = ir.AffineMap.get(maps[position].n_dims, 0, dims)
    if not views:
        return None
    for position, (_, view) in views.items():
        generic.operands[position] = view
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(mapping) for mapping in maps])

    def undo() -> None:
        generic.attributes["indexing_maps"] = old_maps
        for position, (value, view) in views.items():
            generic.operands[position] = value
            view.owner.operation.erase()

    return undo


def with_even_columns(generic: ir.Operation, column: int) -> bool:
    """Copy an operand that is read with a stride along `column`, so that this loop is contiguous.

    The copy has an axis for the other loop of the sum, too, so overlapping elements are repeated. Returns whether there
    was one.
    """
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    for position, value in enumerate(generic.operands):
        terms = _terms(maps[position].results[-1]) if len(maps[position].results) else None
        if terms is None or len(terms) != 2 or not any(loop == column and factor > 1 for loop, factor in terms):
            continue
        other = next((loop for loop, _ in terms if loop != column), None)
        if other is not None and _is_alone(maps[position], (column, other)):
            _read_copy(generic, position, value, (other, column))
            return True
    return False


def _is_alone(access: ir.AffineMap, loops: tuple[int, int]) -> bool:
    """Return whether only the last index uses these loops, and the others are sums of loops."""
    sums = [_terms(result) for result in list(access.results)[:-1]]
    return None not in sums and not any(loop in loops for terms in sums for loop, _ in terms)


def _read_copy(generic: ir.Operation, position: int, value: ir.Value, loops: tuple[int, int]) -> None:
    """Replace an operand by a copy whose last axes are two loops, after its other axes."""
    extents, kind = _extents(generic), value.type
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    outer, count = len(kind.shape) - 1, len(kind.shape) + 1
    dimensions = [ir.AffineDimExpr.get(axis) for axis in range(count)]
    factors = dict(_terms(maps[position].results[-1]))
    first, second = (dimensions[outer + which] * factors[loop] for which, loop in enumerate(loops))
    read = ir.AffineMap.get(count, 0, [*dimensions[:outer], first + second])
    with ir.InsertionPoint(generic), generic.location:
        sizes = [*kind.shape[:-1], *(extents[loop] for loop in loops)]
        copy = memref.alloc(ir.MemRefType.get(sizes, kind.element_type), [], [])
        accesses = ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(mapping) for mapping in (read, ir.AffineMap.get_identity(count))]
        )
        body = (
            empty_generic([value], [copy], accesses, [PARALLEL] * count)
            .regions[0]
            .blocks.append(*[kind.element_type] * 2)
        )
        with ir.InsertionPoint(body):
            linalg.YieldOp([body.arguments[0]])
    with ir.InsertionPoint.after(generic), generic.location:
        memref.dealloc(copy)
    generic.operands[position] = copy
    dims = maps[position].n_dims
    maps[position] = ir.AffineMap.get(dims, 0, [*list(maps[position].results)[:-1], *map(ir.AffineDimExpr.get, loops)])
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(mapping) for mapping in maps])


def order_loops(generic: ir.Operation, order: list[int], outer: int) -> None:
    """Permute the loops: loop p is then the former ``order[p]``.

    Views get the dimensions of the first `outer` loops first: in a tile they are 1, and such dimensions between others
    would split the vectors.
    """
    for position, value in enumerate(generic.operands):
        _put_first(generic, position, value, order[:outer])
    count = len(order)
    renamed = ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(order.index(loop)) for loop in range(count)])
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    permuted = [ir.AffineMap.get(count, 0, [result.compose(renamed) for result in old_map.results]) for old_map in maps]
    kinds = list(generic.attributes["iterator_types"])
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(mapping) for mapping in permuted])
    generic.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in order])


def _put_first(generic: ir.Operation, position: int, value: ir.Value, loops: list[int]) -> None:
    maps = list(generic.attributes["indexing_maps"])
    dims = [result.position for result in maps[position].value.results]
    order = sorted(range(len(dims)), key=lambda axis: loops.index(dims[axis]) if dims[axis] in loops else len(loops))
    strides, offset = value.type.get_strides_and_offset()
    is_static = ir.ShapedType.get_dynamic_stride_or_offset() not in (*strides, offset)
    if order == list(range(len(dims))) or not is_static:
        return
    sizes, steps = ([values[axis] for axis in order] for values in (value.type.shape, strides))
    kind = ir.MemRefType.get(sizes, value.type.element_type, layout=ir.StridedLayoutAttr.get(offset, steps))
    with ir.InsertionPoint(generic), generic.location:
        generic.operands[position] = memref.reinterpret_cast(kind, value, [], [], [], [offset], sizes, steps)
    access = [ir.AffineDimExpr.get(dims[axis]) for axis in order]
    maps[position] = ir.AffineMapAttr.get(ir.AffineMap.get(maps[position].value.n_dims, 0, access))
    generic.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)


def _loop_dimensions(
    value: ir.Value, access: ir.AffineMap, iterators: list[str]
) -> list[tuple[int, tuple[int, int]]] | None:
    """Return each loop's extent (0: not known here) and stride in memory; None where no index is a sum."""
    kind = value.type
    if not isinstance(kind, ir.MemRefType) or not kind.has_static_shape:
        return None
    strides, offset = kind.get_strides_and_offset()
    is_wide = isinstance(kind.element_type, ir.F32Type | ir.F64Type)
    sums = [_terms(result) for result in access.results]
    if offset != 0 or not is_wide or None in sums or all(len(terms_of_axis) == 1 for terms_of_axis in sums):
        return None
    dimensions = []
    for terms, stride, size in zip(sums, strides, kind.shape, strict=True):
        # The other loop of the sum comes last: it may be innermost in memory.
        ordered = sorted(terms, key=lambda term: "reduction" not in iterators[term[0]])
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
        parts = [_terms(operand) for operand in (expression.lhs, expression.rhs)]
        return None if None in parts else [*parts[0], *parts[1]]
    return None


def _view(generic: ir.Operation, value: ir.Value, dimensions: list[tuple[int, tuple[int, int]]]) -> ir.Value:
    extents = _extents(generic)
    sizes = [size or extents[loop] for loop, (size, _) in dimensions]
    steps = [step for _, (_, step) in dimensions]
    kind = ir.MemRefType.get(sizes, value.type.element_type, layout=ir.StridedLayoutAttr.get(0, steps))
    with ir.InsertionPoint(generic), generic.location:
        return memref.reinterpret_cast(kind, value, [], [], [], [0], sizes, steps)


def _extents(generic: ir.Operation) -> dict[int, int]:
    """Return the extents of loops that index an operand alone."""
    extents: dict[int, int] = {}
    for value, access in zip(generic.operands, generic.attributes["indexing_maps"], strict=True):
        for result, size in zip(access.value.results, value.type.shape, strict=True):
            if isinstance(result, ir.AffineDimExpr):
                extents[result.position] = size
    return extents
