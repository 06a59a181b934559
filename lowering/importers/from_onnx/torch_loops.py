"""ONNX's Loop → `torch.prim.Loop`: torch-mlir's own lowering drops the condition of a loop that has a trip count.

A loop with a condition has no trip count in torch's form, of which `from_torch/repairs.py` makes `scf.while`: it
carries the number of its iterations, and compares it in its condition.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.importers.from_torch.builder import boolean, integer, tensor_type
from mlirtri.lowering.importers.from_torch.repairs import ENDLESS, LOOP
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.cloning import inlined, replace

Values = list[ir.Value]


def rewrite(module: ir.Module) -> None:
    """Replace the loops of `module`, inner ones first; raises `UnsupportedOperationError`."""
    for operation in reversed(operations_named(module, "torch.operator")):
        if ir.StringAttr(operation.attributes["name"]).value == "onnx.Loop":
            with operation.location, ir.InsertionPoint(operation):
                _replace(operation)


def _replace(operation: ir.Operation) -> None:
    body = operation.regions[0].blocks[0]
    count, begins, *carried = operation.operands
    kinds = [argument.type for argument in list(body.arguments)[2:]]
    _check(operation, kinds, list(terminator(body).operands)[1:])
    carried = [_as_type(value, kind) for value, kind in zip(carried, kinds, strict=True)]
    if _is_none(begins):
        results = _counted(body, _number(count), carried)
    else:
        results = _conditional(body, None if _is_none(count) else _number(count), _truth(begins), carried)
    results = [_as_type(new, old.type) for new, old in zip(results, operation.results, strict=True)]
    replace(operation, results)


def _check(operation: ir.Operation, kinds: list[ir.Type], yielded: Values) -> None:
    for kind, value in zip(kinds, yielded, strict=True):
        if kind != value.type:
            raise UnsupportedOperationError(
                f"a value that this Loop carries is a {kind} before an iteration, and a {value.type} after it",
                span_of(operation.location),
                help="carry values of one shape, which the graph of the loop says",
            )


def _counted(body: ir.Block, count: ir.Value, carried: Values) -> Values:
    """Create a loop that its trip count ends; the condition of its body says nothing."""
    loop, inner = _loop(count, boolean(True), carried)
    with ir.InsertionPoint(inner):
        index, *values = inner.arguments
        truth = boolean(True)
        _, *yielded = inlined(body, [_tensor(index), _true_tensor(), *values])
        _yield(truth, yielded)
    return list(loop.results)


def _conditional(body: ir.Block, count: ir.Value | None, begins: ir.Value, carried: Values) -> Values:
    """Create a loop that its condition ends, or as many iterations as `count`."""
    zero = integer(0)
    if count is not None:
        begins = _both(begins, _scalar("lt.int", "bool", zero, count))
    loop, inner = _loop(integer(ENDLESS), begins, [zero, *carried])
    with ir.InsertionPoint(inner):
        _, done, *values = inner.arguments
        condition, *yielded = inlined(body, [_tensor(done), _true_tensor(), *values])
        done, condition = _scalar("add.int", "int", done, integer(1)), _truth(condition)
        if count is not None:
            condition = _both(condition, _scalar("lt.int", "bool", done, count))
        _yield(condition, [done, *yielded])
    return list(loop.results)[1:]


def _loop(count: ir.Value, begins: ir.Value, carried: Values) -> tuple[ir.Operation, ir.Block]:
    kinds = [value.type for value in carried]
    loop = ir.Operation.create(LOOP, kinds, [count, begins, *carried], regions=1)
    arguments = [ir.Type.parse("!torch.int"), *kinds]
    return loop, loop.regions[0].blocks.append(*arguments, arg_locs=[loop.location] * len(arguments))


def _yield(condition: ir.Value, values: Values) -> None:
    ir.Operation.create("torch.prim.Loop.condition", operands=[condition, *values])


def _is_none(value: ir.Value) -> bool:
    return str(value.type) == "!torch.none"


def _as_type(value: ir.Value, type_: ir.Type) -> ir.Value:
    if value.type == type_:
        return value
    return ir.Operation.create("torch.tensor_static_info_cast", [type_], [value]).result


def _scalar(name: str, kind: str, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(f"torch.aten.{name}", [ir.Type.parse(f"!torch.{kind}")], operands).result


def _number(value: ir.Value) -> ir.Value:
    return _scalar("Int.Tensor", "int", value)


def _truth(value: ir.Value) -> ir.Value:
    return _scalar("Bool.Tensor", "bool", value)


def _both(x: ir.Value, y: ir.Value) -> ir.Value:
    return _scalar("__and__.bool", "bool", x, y)


def _tensor(number: ir.Value) -> ir.Value:
    return ir.Operation.create("torch.prim.NumToTensor.Scalar", [tensor_type([], "si64")], [number]).result


def _true_tensor() -> ir.Value:
    """Return what a body sees of the condition: an iteration begins only where that is true."""
    literal = ir.Attribute.parse("dense<true> : tensor<i1>")
    return ir.Operation.create("torch.vtensor.literal", [tensor_type([], "i1")], attributes={"value": literal}).result
