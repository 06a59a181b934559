"""Code of tensors of rank 0 as code of scalars: what a region that compares or combines two elements is made of.

Takes a block after upstream's lowering of StableHLO: `linalg.generic` without loops, constants, extracts. Gives the
same operations on scalars at the insertion point. Refuses, as an `UnsupportedOperationError`, what has more elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import arith, ir, tensor
from mlirtri.errors import UnsupportedOperationError

Scalars = dict[ir.Value, ir.Value]


def inline_scalars(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """What `block` returns for these scalars; the block stays as it is."""
    known: Scalars = dict(zip(block.arguments, arguments, strict=True))
    *operations, last = block.operations
    for each in operations:
        operation = each.operation
        if operation.name in _RULES:
            _RULES[operation.name](operation, known)
        elif operation.regions or any(isinstance(one.type, ir.ShapedType) for one in operation.results):
            raise UnsupportedOperationError(
                f"{operation.name} in a region that computes one element of others is not lowered to linalg",
                span_of(operation.location),
                help="compare or combine elements by operations of scalars",
            )
        else:
            _clone(operation, known)
    return [_scalar(value, known) for value in last.operands]


def _scalar(value: ir.Value, known: Scalars) -> ir.Value:
    """The scalar of a tensor of rank 0, which may come from outside of the block."""
    if value not in known:
        known[value] = tensor.extract(value, []) if isinstance(value.type, ir.ShapedType) else value
    return known[value]


def _clone(operation: ir.Operation, known: Scalars) -> None:
    copy = operation.clone()
    for at, operand in enumerate(operation.operands):
        copy.operands[at] = known.get(operand, operand)
    known.update(zip(operation.results, copy.results, strict=True))


def _generic(operation: ir.Operation, known: Scalars) -> None:
    body = operation.regions[0].blocks[0]
    for argument, operand in zip(body.arguments, operation.operands, strict=True):
        if any(True for _ in argument.uses):
            known[argument] = _scalar(operand, known)
    *inner, last = body.operations
    for each in inner:
        _clone(each.operation, known)
    known.update(zip(operation.results, [known.get(each, each) for each in last.operands], strict=True))


def _constant(operation: ir.Operation, known: Scalars) -> None:
    attribute = operation.attributes["value"]
    if isinstance(operation.results[0].type, ir.ShapedType):
        attribute = ir.DenseElementsAttr(attribute).get_splat_value()
    known[operation.results[0]] = arith.ConstantOp(attribute.type, attribute).result


def _extract(operation: ir.Operation, known: Scalars) -> None:
    known[operation.results[0]] = _scalar(operation.operands[0], known)


def _nothing(operation: ir.Operation, known: Scalars) -> None:
    """A `tensor.empty` has no elements that somebody reads."""


_RULES: dict[str, Callable[[ir.Operation, Scalars], None]] = {
    "linalg.generic": _generic,
    "arith.constant": _constant,
    "tensor.extract": _extract,
    "tensor.from_elements": _extract,
    "tensor.empty": _nothing,
}
