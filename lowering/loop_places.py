"""Integers that are places in memory: their arithmetic stays simple, since it cannot overflow.

Integers of a program wrap around, which TIR says in twice their width. TVM sees nothing in that: not that ``a[i + 1]``
and ``a[i]`` are neighbours, not that a loop's accesses are contiguous. Loop counters and sizes are far smaller than
int64 holds, and an integer that only serves as an index is in bounds or the program is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlirtri.dialect.mlir import ir
from mlirtri.lowering.loop_values import Scalar, joined
from mlirtri.lowering.tvm_names import Analyzer, structural_walk, tirx

LARGEST_COUNT = 1 << 48
"""No loop runs more often, and no array has more elements."""
_LARGEST = 1 << 62
_RING = {"arith.addi": tirx.Add, "arith.subi": tirx.Sub, "arith.muli": tirx.Mul}
_QUOTIENTS = {"arith.divui": tirx.FloorDiv, "arith.remui": tirx.FloorMod}
"""Of indices, which are never negative."""
_PASSED_ON = frozenset({*_RING, "arith.maxsi", "arith.minsi", "arith.select"})


def limit_of(operation: ir.Operation, limits: Sequence[int | None]) -> int | None:
    """How large the result of integer arithmetic can be, in magnitude, from how large its operands can be."""
    if operation.name == "arith.select":
        limits = limits[1:]
    if any(limit is None for limit in limits):
        return None
    if operation.name in ("arith.addi", "arith.subi"):
        return sum(limits)
    if operation.name == "arith.muli":
        return limits[0] * limits[1]
    return max(limits) if operation.name in (*_PASSED_ON, "arith.index_cast", "arith.extsi") else None


def is_plain(operation: ir.Operation, limit: int | None) -> bool:
    """Whether a sum, difference or product of int64 cannot overflow, or is wrong anyway if it does.

    So are quotients of indices by constants, which are known not to be 0.
    """
    [result] = operation.results
    if operation.name in _QUOTIENTS and isinstance(result.type, ir.IndexType):
        divisor = operation.operands[1].owner
        return not isinstance(divisor, ir.Block) and divisor.name == "arith.constant"
    if operation.name not in _RING or str(result.type) not in ("i64", "index"):
        return False
    return (limit is not None and limit < _LARGEST) or _is_place(result)


def place(operation: ir.Operation, operands: Sequence[Scalar], limit: int | None) -> Scalar:
    """Plain arithmetic, as short as it gets."""
    expression = {**_RING, **_QUOTIENTS}[operation.name](*(operand.expression for operand in operands))
    made = joined(expression, operands, limit)
    if made.reads:
        return made
    expression, nodes = Analyzer().simplify(expression), []
    structural_walk(expression, (tirx.Expr, nodes.append), order="post")
    return replace(made, expression=expression, size=len(nodes))


def _is_place(value: ir.Value) -> bool:
    """Whether a value only goes into indices, and into comparisons on the way there."""
    users = [use.owner.operation for use in value.uses]
    reach = [user for user in users if user.name != "arith.cmpi"]
    return bool(reach) and all(
        user.name == "arith.index_cast" or (user.name in _PASSED_ON and _is_place(user.results[0])) for user in reach
    )
