"""Integer arithmetic of indices and addresses, which stays simple since it cannot overflow.

A program's integers wrap, which TIR expresses in twice their width. TVM's analysis then sees neither that ``a[i + 1]``
and ``a[i]`` are neighbours nor that accesses are contiguous. Loop counters, sizes and clamped numbers are far below the
limit of int64, and an integer that is only an index is in bounds or the program is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.loops.values import Bounds, Scalar, scalar_of
from mlirtri.lowering.bridge.scalar.scalar_rules import dtype_name
from mlirtri.lowering.mlir_common.reading import defined_by
from mlirtri.lowering.tir.statements import nodes_in
from mlirtri.lowering.toolchain.tvm_names import Analyzer, tirx

LARGEST_COUNT = 1 << 48
"""The upper limit of trip counts and of elements per array."""
ANY: Bounds = (-(1 << 63), (1 << 63) - 1)
_SIGNED = frozenset({"int8", "int16", "int32"})
_RING = {"arith.addi": tirx.Add, "arith.subi": tirx.Sub, "arith.muli": tirx.Mul}
_QUOTIENTS = {
    "arith.divui": tirx.FloorDiv, "arith.remui": tirx.FloorMod, "arith.divsi": tirx.FloorDiv,
    "arith.remsi": tirx.FloorMod, "arith.floordivsi": tirx.FloorDiv,
}  # fmt: skip
"""For non-negative numbers all of these round alike."""
_FORWARDING = frozenset({*_RING, "arith.maxsi", "arith.minsi", "arith.select"})


def bounds_of(operation: ir.Operation, operands: Sequence[Scalar]) -> Bounds:
    """Return the bounds of the result of integer arithmetic; never beyond int64, where it would wrap."""
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
    products = [factor * other for factor in x for other in y]
    return min(products), max(products)


def _quotient(x: Bounds, y: Bounds) -> Bounds:
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] > 0 else ANY


def _remainder(x: Bounds, y: Bounds) -> Bounds:
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else ANY


def _unsigned(x: Bounds) -> Bounds:
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
"""Comparisons by MLIR's predicate number; the later ones are unsigned."""


def is_plain(operation: ir.Operation, bounds: Bounds) -> bool:
    """Return whether int64 arithmetic cannot overflow, or is wrong anyway if it does.

    This holds for sums, differences, products, and quotients of non-negative by positive numbers.
    """
    [result] = operation.results
    if str(result.type) not in ("i64", "index"):
        return False
    if operation.name in _RING:
        return bounds != ANY or _is_index_only(result)
    return operation.name in _QUOTIENTS and (bounds != ANY or _is_of_index(operation))


def _is_of_index(operation: ir.Operation) -> bool:
    """Return whether an index is divided by a constant: signed and unsigned division then agree."""
    is_constant = defined_by(operation.operands[1], "arith.constant") is not None
    return is_constant and operation.name.endswith("ui") and isinstance(operation.results[0].type, ir.IndexType)


def decided(operation: ir.Operation, operands: Sequence[Scalar]) -> bool | None:
    """Return the result of an int64 comparison that the bounds of its operands decide, else None."""
    if operation.name != "arith.cmpi" or str(operation.operands[0].type) not in ("i64", "index"):
        return None
    number = operation.attributes["predicate"].value
    return _DECIDED[number](*(_known(operand) for operand in operands)) if number < len(_DECIDED) else None


def plain_arithmetic(operation: ir.Operation, operands: Sequence[Scalar], bounds: Bounds) -> Scalar:
    """Return the TIR of an integer operation whose result has these bounds, simplified."""
    expression = {**_RING, **_QUOTIENTS}[operation.name](*(operand.expression for operand in operands))
    scalar = scalar_of(expression, operands, bounds)
    if scalar.reads:
        return scalar
    expression = Analyzer().simplify(expression)
    return replace(scalar, expression=expression, size=len(nodes_in(expression, tirx.Expr)))


def _is_index_only(value: ir.Value) -> bool:
    """Return whether a value is used only in indices, and in comparisons on the way there."""
    users = [use.owner.operation for use in value.uses if use.owner.name != "arith.cmpi"]
    return bool(users) and all(
        user.name == "arith.index_cast" or (user.name in _FORWARDING and _is_index_only(user.results[0]))
        for user in users
    )
