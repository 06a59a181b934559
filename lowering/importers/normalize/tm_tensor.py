"""torch-mlir's own operations on tensors become loops: `tm_tensor.scan`, `scatter`, `sort`, `topk` and `attention`.

Takes a module with operations of the dialect `tm_tensor`. Gives `linalg`, `tensor` and `scf` with the same meaning, in
place. A place that a scatter writes outside of its tensor is an assertion that fails; nothing is written there.
Refuses nothing. Sorting takes n log n comparisons; NaN goes where torch has it, behind all numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, operations_named
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.tm_tensor_attention import attention
from mlirtri.lowering.importers.normalize.tm_tensor_loops import best, scan, scatter
from mlirtri.lowering.linalg.scans import kind_of, totals
from mlirtri.lowering.linalg.sorting import less
from mlirtri.lowering.mlir import merge_sort
from mlirtri.lowering.mlir.aliasing import terminator
from mlirtri.lowering.mlir.cloning import inlined, replace
from mlirtri.lowering.mlir.linalg_builder import sizes_of

Values = list[ir.Value]


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Replace every operation of the dialect; those inside of others come along."""
    for operation in operations_named(module, "tm_tensor.*"):
        if (rule := RULES.get(operation.name)) is None:
            continue
        with ir.InsertionPoint(operation), operation.location:
            is_totals = context.target.is_cuda and operation.name == "tm_tensor.scan"
            results = (_totals(operation) if is_totals else None) or rule(operation)
        replace(operation, results)


def _region(operation: ir.Operation) -> Callable[..., ir.Value]:
    """The operation's function of scalars."""
    block = operation.regions[0].blocks[0]

    def call(*arguments: ir.Value) -> ir.Value:
        [result] = inlined(block, arguments)
        return result

    return call


def _scan(operation: ir.Operation) -> Values:
    source, out, start = operation.operands
    axis, inclusive = operation.attributes["dimension"].value, ir.BoolAttr(operation.attributes["inclusive"]).value
    needs_last = any(True for _ in operation.results[1].uses)
    return scan(source, out, start, axis, inclusive, _region(operation), needs_last)


def _totals(operation: ir.Operation) -> Values | None:
    """A scan as a reduction, for which CUDA has a schedule; None for one that only a loop can do."""
    source, _, start = operation.operands
    dtype, kind = find_dtype(str(source.type.element_type)), kind_of(operation.regions[0].blocks[0])
    is_plain = ir.BoolAttr(operation.attributes["inclusive"]).value and not any(operation.results[1].uses)
    if not is_plain or None in (dtype, kind) or not source.type.has_static_shape:
        return None
    of = TensorType(tuple(source.type.shape), dtype)
    return [totals(source, of, operation.attributes["dimension"].value, kind), start]


def _scatter(operation: ir.Operation) -> Values:
    updates, places, original = operation.operands
    axes = list(operation.attributes["dimension_map"])
    return [scatter(updates, places, original, axes, _region(operation))]


def _topk(operation: ir.Operation) -> Values:
    given = operation.attributes["operandSegmentSizes"][0]
    inputs, outputs = list(operation.operands)[:given], list(operation.operands)[given:]
    axis = operation.attributes["dimension"].value
    return best(inputs[0], inputs[1] if given > 1 else None, outputs, axis, _region(operation))


def _attention(operation: ir.Operation) -> Values:
    *inputs, out = operation.operands
    return [attention(*inputs, out=out)]


# --- sorting -------------------------------------------------------------------------------------------------------


def _sort(operation: ir.Operation) -> Values:
    """The region says whether the row that stands earlier stays there."""
    fields, axis = list(operation.operands), operation.attributes["dimension"].value
    rows = merge_sort.rows_of(fields, sizes_of(fields[0]), axis)
    if (overtakes := _overtakes_by_key(operation.regions[0].blocks[0])) is not None:
        return merge_sort.sort(rows, overtakes)
    stays = _region(operation)

    def by_region(later: Values, earlier: Values) -> ir.Value:
        pairs = [value for pair in zip(earlier, later, strict=True) for value in pair]
        return arith.xori(stays(*pairs), arith.constant(ir.IntegerType.get_signless(1), 1))

    return merge_sort.sort(rows, by_region, is_order=False)


def _overtakes_by_key(block: ir.Block) -> merge_sort.Overtakes | None:
    """What a region that compares one field by one comparison says, with NaN behind all numbers."""
    compared = terminator(block).operands[0]
    operation = None if isinstance(compared.owner, ir.Block) else compared.owner.operation
    if operation is None or operation.name not in ("arith.cmpf", "arith.cmpi"):
        return None
    arguments, operands = list(block.arguments), list(operation.operands)
    if not all(operand in arguments for operand in operands):
        return None
    first, second = (arguments.index(operand) for operand in operands)
    if first // 2 != second // 2 or first == second:
        return None
    predicate = _predicate(operation)
    if predicate is None:
        return None
    field, dtype = first // 2, find_dtype(_spelling(arguments[first].type, predicate))
    if dtype is None:
        return None
    word = predicate[-2:] if first < second else {"l": "g", "g": "l"}[predicate[-2]] + predicate[-1]

    def before(x: ir.Value, y: ir.Value) -> ir.Value:
        return less(Scalar(x, dtype), Scalar(y, dtype)).value

    def overtakes(later: Values, earlier: Values) -> ir.Value:
        x, y = later[field], earlier[field]
        if word == "le":
            return before(x, y)
        if word == "ge":
            return before(y, x)
        stays = before(y, x) if word == "lt" else before(x, y)
        return scalar.logical_not(Scalar(stays, find_dtype("i1"))).value

    return overtakes


def _predicate(operation: ir.Operation) -> str | None:
    """``sle``, ``ult``, ``oge``…; None for those that are no order."""
    number = operation.attributes["predicate"].value
    if operation.name == "arith.cmpi":
        return {2: "slt", 3: "sle", 4: "sgt", 5: "sge", 6: "ult", 7: "ule", 8: "ugt", 9: "uge"}.get(number)
    return {2: "ogt", 3: "oge", 4: "olt", 5: "ole", 9: "ugt", 10: "uge", 11: "ult", 12: "ule"}.get(number)


def _spelling(kind: ir.Type, predicate: str) -> str:
    """How our table of dtypes spells the type, with the sign that the comparison sees."""
    is_unsigned = isinstance(kind, ir.IntegerType) and kind.width > 1 and predicate[0] == "u"
    return f"u{kind}" if is_unsigned else str(kind)


RULES: dict[str, Callable[[ir.Operation], Values]] = {
    "tm_tensor.scan": _scan, "tm_tensor.scatter": _scatter, "tm_tensor.sort": _sort, "tm_tensor.topk": _topk,
    "tm_tensor.attention": _attention,
}  # fmt: skip
