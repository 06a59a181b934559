"""Lower loops and branches of StableHLO to `scf`; upstream's lowering to linalg, which runs later, leaves them.

A `while` that counts becomes `scf.for`, any other one `scf.while`; `case` and `if` become `scf.if`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, scf, tensor
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import definition

CONTROL = ("stablehlo.while", "stablehlo.case", "stablehlo.if")


def rewrite(module: ir.Module) -> None:
    """Lower all loops and branches of `module`, in place, inner ones first."""
    for operation in reversed([operation for operation in all_operations(module) if operation.name in CONTROL]):
        with operation.location, ir.InsertionPoint(operation):
            values = _REWRITES[operation.name](operation)
        replace(operation, values)


@dataclass(frozen=True)
class _Count:
    position: int
    """The position of the counter among the loop-carried values."""
    start: int
    stop: int


def _while(operation: ir.Operation) -> Sequence[ir.Value]:
    if (count := _count_of(operation)) is not None:
        return _counted(operation, count)
    test, body = (region.blocks[0] for region in operation.regions)
    types = [result.type for result in operation.results]
    loop = ir.Operation.create("scf.while", types, list(operation.operands), regions=2)
    test.append_to(loop.regions[0])
    body.append_to(loop.regions[1])
    [condition] = _take_terminator(test)
    with ir.InsertionPoint(test):
        element = tensor.extract(condition, [])
        ir.Operation.create("scf.condition", operands=[element, *test.arguments])
    _yield(body)
    return loop.results


def _count_of(operation: ir.Operation) -> _Count | None:
    test, body = (region.blocks[0] for region in operation.regions)
    compare = definition(terminator(test).operands[0])
    if compare is None or compare.name != "stablehlo.compare" or "LT" not in str(compare.attributes[_DIRECTION]):
        return None
    counter = compare.operands[0]
    if not isinstance(counter.owner, ir.Block) or counter.owner != test:
        return None
    position = ir.BlockArgument(counter).arg_number
    step = definition(terminator(body).operands[position])
    if step is None or step.name != "stablehlo.add" or not _counts_up(step, body.arguments[position]):
        return None
    start, stop = _constant(operation.operands[position]), _constant(compare.operands[1])
    return None if start is None or stop is None else _Count(position, start, stop)


_DIRECTION = "comparison_direction"


def _counts_up(add: ir.Operation, counter: ir.Value) -> bool:
    left, right = add.operands
    return (left == counter and _constant(right) == 1) or (right == counter and _constant(left) == 1)


def _counted(operation: ir.Operation, count: _Count) -> Sequence[ir.Value]:
    initial = [operand for position, operand in enumerate(operation.operands) if position != count.position]
    bounds = [index_constant(count.start), index_constant(max(count.start, count.stop)), index_constant(1)]
    loop = scf.ForOp(*bounds, initial)
    kind = ir.RankedTensorType(operation.operands[count.position].type)
    with ir.InsertionPoint(loop.body):
        counter = arith.index_cast(kind.element_type, loop.induction_variable)
        carried = list(loop.inner_iter_args)
        carried.insert(count.position, tensor.from_elements(kind, [counter]))
        values = _moved(operation.regions[1].blocks[0], carried)
        scf.YieldOp([value for position, value in enumerate(values) if position != count.position])
    end = ir.IntegerAttr.get(kind.element_type, max(count.start, count.stop))
    last = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, end))
    results = list(loop.results)
    return [*results[: count.position], last, *results[count.position :]]


def _if(operation: ir.Operation) -> Sequence[ir.Value]:
    condition = tensor.extract(operation.operands[0], [])
    return _branch(condition, operation, *(region.blocks[0] for region in operation.regions))


def _case(operation: ir.Operation) -> Sequence[ir.Value]:
    blocks = [region.blocks[0] for region in operation.regions]
    return _case_chain(operation, tensor.extract(operation.operands[0], []), 0, blocks)


def _case_chain(operation: ir.Operation, selector: ir.Value, case: int, blocks: list[ir.Block]) -> Sequence[ir.Value]:
    first, *others = blocks
    if not others:
        return _moved(first, ())
    constant = arith.constant(selector.type, case)
    condition = arith.cmpi(arith.CmpIPredicate.eq, selector, constant)
    if len(others) == 1:
        return _branch(condition, operation, first, others[0])
    branch = _empty_branch(condition, operation)
    first.append_to(branch.regions[0])
    _yield(first)
    else_block = branch.regions[1].blocks.append()
    with ir.InsertionPoint(else_block):
        values = _case_chain(operation, selector, case + 1, others)
        ir.Operation.create("scf.yield", operands=list(values))
    return branch.results


def _branch(
    condition: ir.Value, operation: ir.Operation, then_block: ir.Block, else_block: ir.Block
) -> Sequence[ir.Value]:
    branch = _empty_branch(condition, operation)
    for region, block in zip(branch.regions, (then_block, else_block), strict=True):
        block.append_to(region)
        _yield(block)
    return branch.results


def _empty_branch(condition: ir.Value, operation: ir.Operation) -> ir.Operation:
    return ir.Operation.create("scf.if", [result.type for result in operation.results], [condition], regions=2)


def _moved(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    for old, new in zip(block.arguments, arguments, strict=True):
        old.replace_all_uses_with(new)
    insertion_point = ir.InsertionPoint.current
    values = _take_terminator(block)
    for operation in list(block.operations):
        operation.operation.detach_from_parent()
        insertion_point.insert(operation)
    return values


_REWRITES = {"stablehlo.while": _while, "stablehlo.case": _case, "stablehlo.if": _if}


def _take_terminator(block: ir.Block) -> list[ir.Value]:
    end = terminator(block)
    values = list(end.operands)
    end.erase()
    return values


def _yield(block: ir.Block) -> None:
    values = _take_terminator(block)
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.yield", operands=values)


def _constant(value: ir.Value) -> int | None:
    maker = definition(value)
    if maker is None or maker.name != "stablehlo.constant":
        return None
    kind = ir.RankedTensorType(value.type)
    if kind.rank or not isinstance(kind.element_type, ir.IntegerType) or kind.element_type.is_unsigned:
        return None
    attribute = ir.DenseElementsAttr(maker.attributes["value"])
    return ir.IntegerAttr(attribute.get_splat_value()).value if kind.element_type.width > 1 else None
