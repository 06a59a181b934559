"""StableHLO's `select_and_scatter`, the gradient of a pool, as loops over its windows and over the places in each.

Takes a module after upstream's lowering, which left these operations alone. Of each window the first place that no
other is selected over gets the window's element of the source, by the second region, in the order of the windows.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, linalg, operations_named, scf, tensor
from mlirtri.lowering.importers.from_stablehlo.scalar_regions import inline_scalars
from mlirtri.lowering.importers.from_stablehlo.scatter import inside_of, loops
from mlirtri.lowering.mlir.cloning import replace
from mlirtri.lowering.mlir.linalg_builder import index_constant

Values = list[ir.Value]


def rewrite(module: ir.Module) -> None:
    """Rewrite all such operations of `module`."""
    for operation in operations_named(module, "stablehlo.select_and_scatter"):
        with operation.location, ir.InsertionPoint(operation):
            results = _scattered(operation)
        replace(operation, results)


def _scattered(operation: ir.Operation) -> Sequence[ir.Value]:
    operand, source, start = operation.operands
    rank = operand.type.rank
    window = _numbers(operation, "window_dimensions", [1] * rank)
    strides = _numbers(operation, "window_strides", [1] * rank)
    padding = _numbers(operation, "padding", [0] * 2 * rank)[::2]
    empty = tensor.empty(operand.type.shape, operand.type.element_type)
    filled = linalg.fill(tensor.extract(start, []), outs=[empty])

    def share(at: Values, carried: Values) -> Sequence[ir.Value]:
        corner = [
            arith.subi(arith.muli(each, index_constant(step)), index_constant(low))
            for each, step, low in zip(at, strides, padding, strict=True)
        ]
        first = [_boolean(False), tensor.extract(start, []), *[index_constant(0)] * rank]
        found, _, *place = loops(window, [], first, lambda offset, best: _better(operation, corner, offset, best))
        choice = scf.IfOp(found, [carried[0].type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            numbers = [tensor.extract(carried[0], place), tensor.extract(source, at)]
            [value] = inline_scalars(operation.regions[1].blocks[0], numbers)
            scf.YieldOp([tensor.insert(value, carried[0], place)])
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp(carried)
        return choice.results

    return loops(list(source.type.shape), [], [filled], share)


def _better(operation: ir.Operation, corner: Values, offset: Values, best: Values) -> Sequence[ir.Value]:
    """Whether a place was found, its element and the place, with one more place of the window looked at."""
    operand = operation.operands[0]
    found, value, *place = best
    here = [arith.addi(*each) for each in zip(corner, offset, strict=True)]
    choice = scf.IfOp(inside_of(here, operand), [each.type for each in best], has_else=True)
    with ir.InsertionPoint(choice.then_block):
        new = tensor.extract(operand, here)
        [keeps] = inline_scalars(operation.regions[0].blocks[0], [value, new])
        keeps = arith.andi(found, keeps)
        values = [arith.select(keeps, *each) for each in zip([value, *place], [new, *here], strict=True)]
        scf.YieldOp([_boolean(True), *values])
    with ir.InsertionPoint(choice.else_block):
        scf.YieldOp(best)
    return choice.results


def _numbers(operation: ir.Operation, name: str, otherwise: list[int]) -> list[int]:
    if name not in operation.attributes:
        return otherwise
    attribute = operation.attributes[name]
    if isinstance(attribute, ir.DenseElementsAttr):
        return [int(each) for each in ir.DenseIntElementsAttr(attribute)]
    return list(attribute)


def _boolean(truth: bool) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(1), int(truth))
