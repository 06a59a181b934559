"""Builders of `scf` around tensors: a loop or branch gets its types after its body has been emitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, scf, tensor
from mlirtri.dialect.builder import TriValue
from mlirtri.dialect.definition import mlir_type
from mlirtri.lowering.mlir_common.reading import integer_constant

INT64 = DTYPES["int64"]


def index_of(x: TriValue, location: ir.Location | None) -> ir.Value:
    element = tensor.extract(x.value, [], loc=location)
    return arith.index_cast(ir.IndexType.get(), element, loc=location)


def tensor_of_index(index: ir.Value, location: ir.Location | None) -> TriValue:
    element = arith.index_cast(ir.IntegerType.get_signless(64), index, loc=location)
    return TriValue(scalar_tensor(element, INT64, location), TensorType((), INT64))


def scalar_tensor(element: ir.Value, dtype: DType, location: ir.Location | None) -> ir.Value:
    return tensor.from_elements(mlir_type(TensorType((), dtype)), [element], loc=location)


def condition_of(x: TriValue, location: ir.Location | None) -> ir.Value:
    return tensor.extract(x.value, [], loc=location)


def for_loop(
    bounds: tuple[ir.Value, ir.Value, ir.Value],
    initial: Sequence[TriValue],
    body: Callable[[ir.Value, list[TriValue]], Sequence[TriValue]],
    location: ir.Location | None,
) -> list[TriValue]:
    """Emit an `scf.for` and return its results; an exception in the body erases the loop."""
    loop = scf.ForOp(*bounds, [operand.value for operand in initial], loc=location)
    try:
        with ir.InsertionPoint(loop.body):
            carried = [TriValue(value, x.type) for value, x in zip(loop.inner_iter_args, initial, strict=True)]
            yielded = body(loop.induction_variable, carried)
            scf.YieldOp([operand.value for operand in yielded], loc=location)
    except BaseException:
        loop.operation.erase()
        raise
    return [TriValue(value, x.type) for value, x in zip(loop.results, initial, strict=True)]


def runs_always() -> bool:
    """Return whether each call reaches the insertion point: around it are only loops of constant bounds that run."""
    operation = ir.InsertionPoint.current.block.owner
    while operation.name == "scf.for":
        lower, upper = (integer_constant(bound) for bound in list(operation.operands)[:2])
        if lower is None or upper is None or lower >= upper:
            return False
        operation = operation.operation.parent
    return operation.name == "func.func"


def while_loop(
    initial: Sequence[TriValue],
    test: Callable[[list[TriValue]], tuple[TriValue, Sequence[TriValue]]],
    body: Callable[[list[TriValue]], Sequence[TriValue]],
    location: ir.Location | None,
) -> list[TriValue]:
    """Emit an `scf.while` and return its results; `test` returns a predicate and the forwarded values."""
    types = [operand.value.type for operand in initial]
    loop = scf.WhileOp(types, [operand.value for operand in initial], loc=location)
    locations = [location or ir.Location.unknown()] * len(types)
    try:
        before = loop.regions[0].blocks.append(*types, arg_locs=locations)
        after = loop.regions[1].blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(before):
            carried = [TriValue(value, x.type) for value, x in zip(before.arguments, initial, strict=True)]
            predicate, forwarded = test(carried)
            scf.ConditionOp(condition_of(predicate, location), [operand.value for operand in forwarded], loc=location)
        with ir.InsertionPoint(after):
            carried = [TriValue(value, x.type) for value, x in zip(after.arguments, initial, strict=True)]
            scf.YieldOp([operand.value for operand in body(carried)], loc=location)
    except BaseException:
        loop.operation.erase()
        raise
    return [TriValue(value, x.type) for value, x in zip(loop.results, initial, strict=True)]


class Arms:
    """The two arms of an `scf.if` under construction; result types are known once both have been emitted."""

    def __init__(self, condition: ir.Value, location: ir.Location | None):
        self.condition = condition
        self.location = location
        self.draft = scf.IfOp(condition, [], has_else=True, loc=location)
        self.blocks = [self.draft.then_block, self.draft.else_block]

    def abandon(self) -> None:
        self.draft.operation.erase()

    def finish(self, yielded: Sequence[tuple[TriValue, TriValue]]) -> list[TriValue]:
        """Finish the `scf.if` with arms that yield these pairs of equal type; return its results."""
        for block, values in zip(self.blocks, zip(*yielded, strict=True) if yielded else ((), ()), strict=True):
            with ir.InsertionPoint(block):
                scf.YieldOp([operand.value for operand in values], loc=self.location)
        types = [first.value.type for first, _ in yielded]
        operation = ir.Operation.create(
            "scf.if", results=types, operands=[self.condition], regions=2, loc=self.location
        )
        for block, region in zip(self.blocks, operation.regions, strict=True):
            block.append_to(region)
        self.draft.operation.erase()
        return [TriValue(value, first.type) for value, (first, _) in zip(operation.results, yielded, strict=True)]
