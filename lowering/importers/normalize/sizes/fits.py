"""Structured operations on arrays whose sizes a loop makes run only where these sizes fit each other.

Takes a function on tensors. Gives it with an assertion, and a branch, around each such operation: what is known of the
sizes before the call is checked there (`size_conditions`). Refuses nothing.

    linalg.add ins(%slice, %y)   ──►   cf.assert %fits; scf.if %fits { linalg.add ins(%slice, %y) } else { its outs }
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, ir, public_functions, scf
from mlirtri.lowering.sizes import loops as loop_sizes
from mlirtri.lowering.sizes.conditions import EQUAL, conditions_of

MESSAGE = "the sizes of the operands do not fit each other"
PREDICATES = {True: arith.CmpIPredicate.eq, False: arith.CmpIPredicate.sle}


def rewrite(module: ir.Module) -> bool:
    """Guard all such operations of `module`; whether there are any."""
    [function] = public_functions(module)
    found = loop_sizes.of_own_sizes(function)
    for operation in found:
        with ir.InsertionPoint(operation), operation.location:
            _guard(operation)
    return bool(found)


def _guard(operation: ir.Operation) -> None:
    holds = None
    for each in conditions_of(operation):
        one = arith.cmpi(PREDICATES[each.relation == EQUAL], each.left, each.right)
        holds = one if holds is None else arith.andi(holds, one)
    if holds is None:
        return
    ir.Operation.create("cf.assert", operands=[holds], attributes={"msg": ir.StringAttr.get(MESSAGE)})
    results = list(operation.results)
    branch = scf.IfOp(holds, [each.type for each in results], has_else=True)
    for each, made in zip(results, branch.results, strict=True):
        each.replace_all_uses_with(made)
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(list(operation.operands)[-len(results) :])
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp(results)
    operation.move_before(end.operation)
