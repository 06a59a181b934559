"""Operations of StableHLO that compute nothing: those on tensors of no elements, barriers of optimisations,
and bits that stay what they are.

Takes a module of `stablehlo`. Gives it with `tensor.empty` for every tensor without elements, initial values for what
was reduced from none, and the operands of barriers in their place: upstream's lowering stops at each of these.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, operations_named, tensor
from mlirtri.lowering.mlir.cloning import replace

KEPT = ("stablehlo.while", "stablehlo.if", "stablehlo.case", "stablehlo.return", "stablehlo.custom_call")


def rewrite(module: ir.Module) -> None:
    """Replace all of them in `module`."""
    # Those in regions come after what they are in, which goes with them: from the back none is gone yet.
    for operation in reversed(operations_named(module, "stablehlo.*")):
        if operation.name in KEPT or not len(operation.results):
            continue
        with operation.location, ir.InsertionPoint(operation):
            values = _values(operation)
        if values is None:
            continue
        replace(operation, values)


def _values(operation: ir.Operation) -> list[ir.Value] | None:
    """What the results are; None where the operation computes something."""
    if operation.name == "stablehlo.optimization_barrier":
        return list(operation.operands)
    types = [each.type for each in operation.results]
    if operation.name == "stablehlo.bitcast_convert" and operation.operands[0].type == types[0]:
        # Of complex numbers upstream's lowering ends the process.
        return list(operation.operands)
    if all(_is_empty(each) for each in types):
        return [tensor.empty(list(each.shape), each.element_type) for each in types]
    if operation.name == "stablehlo.reduce" and _is_empty(operation.operands[0].type):
        initial = list(operation.operands)[len(types) :]
        return [_filled(value, kind) for value, kind in zip(initial, types, strict=True)]
    if operation.name == "stablehlo.reduce" and not len(ir.DenseI64ArrayAttr(operation.attributes["dimensions"])):
        # The initial values are identities of what is computed: StableHLO promises no more than that.
        return list(operation.operands)[: len(types)]
    return None


def _is_empty(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape and 0 in kind.shape


def _filled(scalar: ir.Value, kind: ir.Type) -> ir.Value:
    dimensions = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
    return ir.Operation.create("stablehlo.broadcast_in_dim", [kind], [scalar], dimensions).result
