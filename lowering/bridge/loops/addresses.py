"""Integers that are places in memory: their arithmetic stays simple, since it cannot overflow.

Integers of a program wrap around, which TIR says in twice their width. TVM sees nothing in that: not that ``a[i + 1]``
and ``a[i]`` are neighbours, not that a loop's accesses are contiguous. Loop counters and sizes are far smaller than
int64 holds, as are clamped numbers, and an integer that only serves as an index is in bounds or the program is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.loops.values import Bounds, Scalar, joined
from mlirtri.lowering.bridge.scalar.rules import dtype_name
from mlirtri.lowering.toolchain.tvm_names import Analyzer, structural_walk, tirx

LARGEST_COUNT = 1 << 48
"""No loop runs more often, and no array has more elements."""
ANY: Bounds = (-(1 << 63), (1 << 63) - 1)
_SIGNED = frozenset({"int8", "int16", "int32"})
_RING = {"arith.addi": tirx.Add, "arith.subi": tirx.Sub, "arith.muli": tirx.Mul}
_QUOTIENTS = {
    "arith.divui": tirx.FloorDiv, "arith.remui": tirx.FloorMod, "arith.divsi": tirx.FloorDiv,
    "arith.remsi": tirx.FloorMod, "arith.floordivsi": tirx.FloorDiv,
}  # fmt: skip
"""Of numbers that are not negative all of them round alike."""
_PASSED_ON = frozenset({*_RING, "arith.maxsi", "arith.minsi", "arith.select"})


def bounds_of(operation: ir.Operation, operands: Sequence[Scalar]) -> Bounds:
    """Between which numbers the result of integer arithmetic lies; not beyond int64, where it would wrap."""
    rule = _BOUNDS.get(operation.name)
    if rule is None or str(operation.results[0].type) not in ("i64", "index"):
        return ANY
    low, high = rule(*(_known(operand) for operand in operands))
    return (low, high) if ANY[0] <= low and high <= ANY[1] else ANY


def _known(scalar: Scalar) -> Bounds:
    dtype = dtype_name(scalar.expression)
    if dtype == "bool":
        return 0, 1
    if dtype in _SIGNED:
        half = 1 << (DTYPES[dtype].bits - 1)
        return -half, half - 1
    return scalar.bounds or ANY


def _product(x: Bounds, y: Bounds) -> Bounds:
    products = [one * other for one in x for other in y]
    return min(products), max(products)


def _quotient(x: Bounds, y: Bounds) -> Bounds:
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else ANY


def _remainder(x: Bounds, y: Bounds) -> Bounds:
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else ANY


def _unsigned(x: Bounds) -> Bounds:
    """Of a narrow number taken as one without a sign."""
    return x if x[0] >= 0 else (0, 2 * (x[1] + 1) - 1)


_BOUNDS: dict[str, Callable[..., Bounds]] = {
    "arith.addi": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "arith.subi": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "arith.muli": _product,
    "arith.maxsi": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "arith.minsi": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "arith.select": lambda _, x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "arith.index_cast": lambda x: x,
    "arith.extsi": lambda x: x,
    "arith.extui": _unsigned,
    **dict.fromkeys(("arith.divui", "arith.divsi", "arith.floordivsi"), _quotient),
    **dict.fromkeys(("arith.remui", "arith.remsi"), _remainder),
}
_DECIDED: tuple[Callable[[Bounds, Bounds], bool | None], ...] = (
    lambda x, y: False if x[1] < y[0] or y[1] < x[0] else None,
    lambda x, y: True if x[1] < y[0] or y[1] < x[0] else None,
    lambda x, y: True if x[1] < y[0] else False if x[0] >= y[1] else None,
    lambda x, y: True if x[1] <= y[0] else False if x[0] > y[1] else None,
    lambda x, y: True if x[0] > y[1] else False if x[1] <= y[0] else None,
    lambda x, y: True if x[0] >= y[1] else False if x[1] < y[0] else None,
)
"""By the number of MLIR's predicate; those behind take numbers as unsigned."""


def is_plain(operation: ir.Operation, bounds: Bounds) -> bool:
    """Whether a sum, difference or product of int64 cannot overflow, or is wrong anyway if it does.

    So are quotients of numbers that are not negative by numbers that are positive.
    """
    [result] = operation.results
    if str(result.type) not in ("i64", "index"):
        return False
    if operation.name in _RING:
        return bounds != ANY or _is_place(result)
    return operation.name in _QUOTIENTS and (bounds != ANY or _is_of_index(operation))


def _is_of_index(operation: ir.Operation) -> bool:
    """Whether an index is divided by a constant: as an unsigned number it is what it is as a signed one."""
    divisor = operation.operands[1].owner
    is_constant = not isinstance(divisor, ir.Block) and divisor.name == "arith.constant"
    return is_constant and operation.name.endswith("ui") and isinstance(operation.results[0].type, ir.IndexType)


def decided(operation: ir.Operation, operands: Sequence[Scalar]) -> bool | None:
    """What a comparison of int64 says, where the bounds of its operands tell."""
    if operation.name != "arith.cmpi" or str(operation.operands[0].type) not in ("i64", "index"):
        return None
    number = operation.attributes["predicate"].value
    return _DECIDED[number](*(_known(operand) for operand in operands)) if number < len(_DECIDED) else None


def place(operation: ir.Operation, operands: Sequence[Scalar], bounds: Bounds) -> Scalar:
    """Plain arithmetic, as short as it gets."""
    expression = {**_RING, **_QUOTIENTS}[operation.name](*(operand.expression for operand in operands))
    made = joined(expression, operands, bounds)
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
