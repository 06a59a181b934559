"""The table of rules for total arithmetic, and the builders that rules share.

A rule takes an operation on scalars, perhaps undefined for some operands in MLIR, and returns the values of its
results, defined for all operands, or None to leave the operation as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.mlir import arith, ir

Rule = Callable[[ir.Operation], Sequence[ir.Value] | None]
RULES: Registry[str, Rule] = Registry("rule of defined arithmetic")
total = RULES.register


def literal(kind: ir.Type, value: float | int) -> ir.Value:
    """Return a constant of a scalar type; integers wrap to its width."""
    if isinstance(kind, ir.FloatType):
        return arith.constant(kind, ir.FloatAttr.get(kind, float(value)))
    width = width_of(kind)
    value = int(value) & ((1 << width) - 1)
    # The attribute of an i1 takes 0 and 1, that of a wider type the signed value.
    is_negative = width > 1 and value >> (width - 1)
    return arith.constant(kind, ir.IntegerAttr.get(kind, value - (1 << width) if is_negative else value))


def width_of(kind: ir.Type) -> int:
    """Return the width in bits of an integer or float type; an index has 64."""
    return 64 if isinstance(kind, ir.IndexType) else kind.width


def compare(predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return `arith.cmpi` (predicates ``eq``, ``slt``, ``ule``, …) or `arith.cmpf` (``OLT``, ``UNO``, …)."""
    if isinstance(x.type, ir.FloatType):
        return arith.cmpf(getattr(arith.CmpFPredicate, predicate), x, y)
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), x, y)
