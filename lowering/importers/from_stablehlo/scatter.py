"""StableHLO's `scatter` as loops over the elements of its updates.

Takes a module after upstream's lowering, which left the scatters alone and turned what is in their regions into linalg.
An element whose place is outside of the operand is left out. Updates of one place are made in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named, scatter_dimensions, scf, tensor
from mlirtri.lowering.importers.from_stablehlo.scalar_regions import inline_scalars
from mlirtri.lowering.mlir.cloning import replace

Body = Callable[[list[ir.Value], list[ir.Value]], Sequence[ir.Value]]


def rewrite(module: ir.Module) -> None:
    """Rewrite all scatters of `module`."""
    for operation in operations_named(module, "stablehlo.scatter"):
        with operation.location, ir.InsertionPoint(operation):
            results = _scattered(operation)
        replace(operation, results)


def _scattered(operation: ir.Operation) -> Sequence[ir.Value]:
    count = (len(operation.operands) - 1) // 2
    operands, indices = list(operation.operands[:count]), operation.operands[count]
    updates = list(operation.operands[count + 1 :])
    dimensions = scatter_dimensions(operation.attributes["scatter_dimension_numbers"])

    def element(at: list[ir.Value], carried: list[ir.Value]) -> Sequence[ir.Value]:
        place = _place(at, indices, dimensions, operands[0].type.rank)
        inside = inside_of(place, operands[0])
        choice = scf.IfOp(inside, [each.type for each in carried], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            old = [tensor.extract(each, place) for each in carried]
            new = [tensor.extract(each, at) for each in updates]
            values = inline_scalars(operation.regions[0].blocks[0], [*old, *new])
            scf.YieldOp([tensor.insert(v, into, place) for v, into in zip(values, carried, strict=True)])
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp(carried)
        return choice.results

    return loops(list(updates[0].type.shape), [], operands, element)


def loops(sizes: list[int], at: list[ir.Value], carried: list[ir.Value], body: Body) -> Sequence[ir.Value]:
    """Loops of these sizes around `body`, which takes where they are and what they carry."""
    if len(at) == len(sizes):
        return body(at, carried)
    bounds = [arith.constant(ir.IndexType.get(), each) for each in (0, sizes[len(at)], 1)]
    loop = scf.ForOp(*bounds, carried)
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(loops(sizes, [*at, loop.induction_variable], list(loop.inner_iter_args), body))
    return loop.results


def _place(at: list[ir.Value], indices: ir.Value, dimensions: Any, rank: int) -> list[ir.Value]:
    """Where the update at `at` goes: the place that the indices say, and how far into the window it is."""
    scattered = [each for number, each in enumerate(at) if number not in dimensions.update_window_dims]
    window = iter(each for number, each in enumerate(at) if number in dimensions.update_window_dims)
    skipped = (*dimensions.inserted_window_dims, *dimensions.input_batching_dims)
    place = [_index(0) if each in skipped else next(window) for each in range(rank)]
    for number, dimension in enumerate(dimensions.scattered_dims_to_operand_dims):
        start = _start(indices, scattered, number, dimensions.index_vector_dim)
        place[dimension] = arith.addi(place[dimension], start)
    batches = zip(dimensions.input_batching_dims, dimensions.scatter_indices_batching_dims, strict=True)
    for dimension, of_indices in batches:
        place[dimension] = scattered[of_indices - (of_indices > dimensions.index_vector_dim)]
    return place


def _start(indices: ir.Value, scattered: list[ir.Value], number: int, vector_dim: int) -> ir.Value:
    at = list(scattered)
    if vector_dim < indices.type.rank:
        at.insert(vector_dim, _index(number))
    return arith.index_cast(ir.IndexType.get(), tensor.extract(indices, at))


def inside_of(place: list[ir.Value], operand: ir.Value) -> ir.Value:
    """Whether all of `place` is; a negative number is too large when its sign is not looked at."""
    inside = arith.constant(ir.IntegerType.get_signless(1), 1)
    for index, size in zip(place, operand.type.shape, strict=True):
        inside = arith.andi(inside, arith.cmpi(arith.CmpIPredicate.ult, index, _index(size)))
    return inside


def _index(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)
