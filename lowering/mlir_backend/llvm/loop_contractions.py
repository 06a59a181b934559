"""Give loop nests that multiply matrices back to linalg, so that they are tiled and vectorised as other contractions.

Imperative functions are lowered to loops, and the analyses of loops and copies see the product as loads and stores.
`mark` notes on the addition of each contraction how many loops it has. `raise_marked` replaces a nest that is still
one, of constant extents, by a `linalg.generic` on views. A nest that is no plain one any more stays loops.

    for i, k, j { c[x + i, j] += a[x + i, y + k] * b[y + k, j] }
        ──►   linalg.generic ins(subview a[x, y], subview b[y, 0]) outs(subview c[x, 0])
"""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import all_operations_in, ir, memref, operations_named
from mlirtri.lowering.mlir_backend.llvm.contraction_tiling import SUMS, WIDENING, contraction
from mlirtri.lowering.mlir_common.aliasing import is_inside, terminator
from mlirtri.lowering.mlir_common.cloning import clone
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, iterators_of
from mlirtri.lowering.mlir_common.linalg_builder import generic as build_generic
from mlirtri.lowering.mlir_common.reading import buffer_behind, defined_by, definition, integer_constant

MARK = "mlirtri.product_loops"
"""Attribute of the addition of a contraction: how many loops are around it."""
_LOOPS = ("scf.for", "scf.parallel")
_INSIDE = (*_LOOPS, *SUMS, *SUMS.values(), *WIDENING, "memref.load", "memref.store", "scf.yield", "scf.reduce")
_INDEX_ARITHMETIC = ("arith.addi", "arith.constant")


def mark(module: ir.Module) -> None:
    """Mark the contractions among the generics of `module` that are worth tiles."""
    for generic in operations_named(module, "linalg.generic"):
        if contraction(generic) is None:
            continue
        addition = terminator(generic.regions[0].blocks[0]).operands[0].owner
        addition.attributes[MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(iterators_of(generic)))


def raise_marked(module: ir.Module) -> None:
    """Replace the nests around marked additions by generics, where they are plain."""
    for addition in operations_named(module, *SUMS):
        if MARK not in addition.attributes:
            continue
        nest = _nest_around(addition)
        del addition.attributes[MARK]
        if nest is not None:
            with ir.InsertionPoint(nest.outermost), nest.outermost.location:
                nest.replace()


@dataclass(frozen=True)
class _Access:
    """A load or a store: the buffer, and by axis the loop that counts along it, if one does, and where that starts."""

    buffer: ir.Value
    loops: tuple[int | None, ...]
    starts: tuple[ir.Value | None, ...]

    def view(self, extents: list[int]) -> ir.Value:
        """Return the part that the loops read or write; axes without a loop are dropped."""
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        strides, offset = self.buffer.type.get_strides_and_offset()
        sizes = [1 if loop is None else extents[loop] for loop in self.loops]
        kept = [axis for axis, loop in enumerate(self.loops) if loop is not None]
        is_moved = any(start is not None for start in self.starts)
        layout = ir.StridedLayoutAttr.get(dynamic if is_moved else offset, [strides[axis] for axis in kept])
        kind = ir.MemRefType.get([sizes[axis] for axis in kept], self.buffer.type.element_type, layout)
        starts = [0 if start is None else start for start in self.starts]
        return memref.subview(self.buffer, starts, sizes, [1] * len(sizes), result_type=kind)

    def map(self, rank: int) -> ir.AffineMap:
        return dimensions(*(loop for loop in self.loops if loop is not None), rank=rank)


@dataclass(frozen=True)
class _Nest:
    outermost: ir.Operation
    addition: ir.Operation
    extents: list[int]
    factors: tuple[_Access, _Access]
    result: _Access

    def replace(self) -> None:
        """Build the generic before the nest, and erase the one of them that is not needed."""
        rank, out = len(self.extents), self.result
        accesses = (*self.factors, out)
        views = [access.view(self.extents) for access in accesses]
        iterators = ["parallel" if loop in out.loops else "reduction" for loop in range(rank)]
        maps = [access.map(rank) for access in accesses]
        build_generic(views[:2], views[2:], maps, iterators, self._body)
        built = views[2].owner.operation
        users = [use.owner.operation for use in views[2].uses]
        if contraction(users[0]) is not None:
            self.outermost.erase()
            return
        for operation in (*users, *(view.owner.operation for view in views[:2]), built):
            operation.erase()

    def _body(self, left: ir.Value, right: ir.Value, total: ir.Value) -> list[ir.Value]:
        product = _product_of(self.addition)
        loads = [_load_behind(operand) for operand in product.operands]
        values = dict(zip((load.results[0] for load in loads), (left, right), strict=True))
        for operand in product.operands:
            cast = definition(operand)
            if cast is not None and cast.name in WIDENING:
                values[operand] = clone(cast, values).results[0]
        values[product.results[0]] = clone(product, values).results[0]
        values[_total_of(self.addition)] = total
        return [clone(self.addition, values).results[0]]


def _nest_around(addition: ir.Operation) -> _Nest | None:
    """Return the plain nest that an addition is in; None where it is another."""
    count = ir.IntegerAttr(addition.attributes[MARK]).value
    indices, extents, outermost = _loops_around(addition, count)
    inside = [] if outermost is None else all_operations_in(outermost)[1:]
    if outermost is None or any(step.name not in (*_INSIDE, *_INDEX_ARITHMETIC) for step in inside):
        return None
    product = _product_of(addition)
    stores = [step for step in inside if step.name == "memref.store"]
    found = [_load_behind(operand) for operand in product.operands] if product is not None else []
    loads = [load for load in found if load is not None]
    if len(stores) != 1 or len(loads) != 2 or loads[0] == loads[1]:
        return None
    total = defined_by(_total_of(addition), "memref.load")
    if total is None or definition(stores[0].operands[0]) != addition:
        return None
    if sum(step.name == "memref.load" for step in inside) != 3:
        return None
    left, right, before = (
        _access(load.operands[0], list(load.operands)[1:], indices, outermost) for load in (*loads, total)
    )
    out = _access(stores[0].operands[1], list(stores[0].operands)[2:], indices, outermost)
    if left is None or right is None or out is None or out != before:
        return None
    written = buffer_behind(out.buffer)
    if any(buffer_behind(access.buffer) == written for access in (left, right)):
        return None
    return _Nest(outermost, addition, extents, (left, right), out)


def _loops_around(addition: ir.Operation, count: int) -> tuple[dict[ir.Value, int], list[int], ir.Operation | None]:
    """Return the numbers of the loops' indices, the extents, and the outermost loop; None for it if they do not fit."""
    loops, found = [], 0
    operation = addition.parent.operation
    while found < count and operation.name in _LOOPS:
        loops.insert(0, operation)
        found += 1 if operation.name == "scf.for" else len(operation.regions[0].blocks[0].arguments)
        operation = operation.parent.operation
    indices, extents = {}, []
    for loop in loops:
        rank = 1 if loop.name == "scf.for" else len(loop.regions[0].blocks[0].arguments)
        bounds = [integer_constant(value) for value in list(loop.operands)[: 3 * rank]]
        if bounds[:rank] != [0] * rank or bounds[2 * rank :] != [1] * rank or None in bounds:
            return {}, [], None
        for position, extent in enumerate(bounds[rank : 2 * rank]):
            indices[loop.regions[0].blocks[0].arguments[position]] = len(extents)
            extents.append(extent)
    return indices, extents, loops[0] if found == count else None


def _product_of(addition: ir.Operation) -> ir.Operation | None:
    found = [defined_by(operand, SUMS[addition.name]) for operand in addition.operands]
    products = [product for product in found if product is not None]
    return products[0] if len(products) == 1 else None


def _total_of(addition: ir.Operation) -> ir.Value:
    product = _product_of(addition)
    return next(operand for operand in addition.operands if definition(operand) != product)


def _load_behind(value: ir.Value) -> ir.Operation | None:
    cast = definition(value)
    return defined_by(cast.operands[0] if cast is not None and cast.name in WIDENING else value, "memref.load")


def _access(
    buffer: ir.Value, indices: list[ir.Value], loops: dict[ir.Value, int], outermost: ir.Operation
) -> _Access | None:
    """Return an access whose indices are a loop, a value from before the nest, or the sum of both."""
    found = [_axis(index, loops, outermost) for index in indices]
    axes = [axis for axis in found if axis is not None]
    if len(axes) < len(found):
        return None
    return _Access(buffer, tuple(loop for loop, _ in axes), tuple(start for _, start in axes))


def _axis(
    index: ir.Value, loops: dict[ir.Value, int], outermost: ir.Operation
) -> tuple[int | None, ir.Value | None] | None:
    if index in loops:
        return loops[index], None
    if not is_inside(index, outermost):
        return None, index
    addition = defined_by(index, "arith.addi")
    operands = [] if addition is None else list(addition.operands)
    for loop, start in (operands, operands[::-1]) if operands else ():
        if loop in loops and not is_inside(start, outermost):
            return loops[loop], start
    return None
