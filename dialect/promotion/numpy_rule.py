"""NumPy's rule: a ufunc runs its first loop to whose dtypes all operands cast safely; Python scalars follow NEP 50.

https://numpy.org/neps/nep-0050-scalar-promotion.html; bfloat16 is that of ml_dtypes, which NEP 50 does not cover.
It checks no values: `dtype_rules.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.promotion.plan import BOOL, INT64, Operand, Plan, plan, refuse, row
from mlirtri.dialect.promotion.tables import (
    COMPARISONS,
    LETTER_OF,
    LETTERS,
    NUMPY_LOOP_ORDER,
    NUMPY_LOOPS,
    NUMPY_NO_COMMON,
    NUMPY_SAFE_CASTS,
    NUMPY_UNARY,
)
from mlirtri.errors import KernelValueError

UINT64 = DTYPES["uint64"]
_JOINS = ("where", "concatenate", "stack", "dot")


def numpy_plan(op: str, operands: Sequence[Operand]) -> Plan:
    """Return the plan of a table op in NumPy's semantics."""
    if op == "where":
        return plan(op, _join(op, operands[1:]), operands)
    if op in _JOINS:
        return plan(op, _join(op, operands), operands)
    if op == "clip" and len(operands) < 3:
        return numpy_plan("minimum", operands)
    if op in NUMPY_LOOPS or op == "divide":
        return _loop(op, operands)
    # Several operands are those of a normalization, for which NumPy has no rule.
    source = _join(op, operands)
    if (letter := row(NUMPY_UNARY, op, source)) == "-":
        refuse("numpy", op, operands)
    return plan(op, LETTERS[letter], operands)


def _loop(op: str, operands: Sequence[Operand]) -> Plan:
    strong = _strong(operands, weak_float_beside_bfloat16="e")
    if op == "subtract" and set(strong) == {"?"}:
        refuse("numpy", op, operands)
    if op in COMPARISONS and (mixed := _mixed_comparison(strong, operands)):
        return mixed
    if op == "divide":
        no_floats = all(not LETTERS[letter].is_inexact for letter in strong)
        compute = "d" if no_floats else _first_loop("eEfdFD", strong)
    else:
        compute = _first_loop(NUMPY_LOOPS[op], strong)
    if compute is None:
        refuse("numpy", op, operands)
    return plan(op, LETTERS[compute], operands)


def _strong(operands: Sequence[Operand], weak_float_beside_bfloat16: str) -> list[str]:
    """Return the operands' letters; a Python scalar adds one only where it is of a higher kind (NEP 50)."""
    # NumPy treats Python bools as strong.
    strong = [LETTER_OF[x.own.name] for x in operands if x.weak in (None, "bool")]
    weak = {x.weak for x in operands if x.weak}
    if "complex" in weak:
        return [*strong, *_weak_complex(strong)]
    has_float = any(LETTERS[letter].is_inexact for letter in strong)
    if "float" in weak and not has_float:
        return [*strong, "d"]
    if "float" in weak and "E" in strong:
        # NEP 50 does not cover ml_dtypes' bfloat16.
        return [*strong, weak_float_beside_bfloat16]
    if "int" in weak and set(strong) <= {"?"}:
        return [*strong, "q"]
    return strong


def _weak_complex(strong: Sequence[str]) -> str:
    """Return the letter that a Python complex adds: none beside complex dtypes, F beside floats, else D."""
    dtypes = [LETTERS[letter] for letter in strong]
    if any(dtype.is_complex for dtype in dtypes):
        return ""
    return "F" if any(dtype.is_float for dtype in dtypes) else "D"


def _first_loop(loops: str, strong: Sequence[str]) -> str | None:
    for loop in NUMPY_LOOP_ORDER:
        if loop in loops and all(loop in NUMPY_SAFE_CASTS[letter] for letter in strong):
            return loop
    return None


def _join(op: str, operands: Sequence[Operand]) -> DType:
    strong = _strong(operands, weak_float_beside_bfloat16="d")
    for letter, strangers in NUMPY_NO_COMMON.items():
        # With three operands or more NumPy's own answer depends on their order; this one refuses more.
        if letter in strong and set(strong) & set(strangers):
            refuse("numpy", op, operands)
    return LETTERS[_first_loop(NUMPY_LOOP_ORDER, strong) or "d"]


def _mixed_comparison(strong: Sequence[str], operands: Sequence[Operand]) -> Plan | None:
    """Plan an exact comparison: uint64 with a signed integer, or an integer with a Python int outside its range."""
    dtypes = [LETTERS[letter] for letter in strong]
    if any(not dtype.is_integer for dtype in dtypes):
        return None
    values = [x.known_int for x in operands if x.known_int is not None]
    if len(operands) == 2 and len(dtypes) == 1 and values and not dtypes[0].holds(values[0]):
        return _comparison_with_large_int(operands, values[0])
    if UINT64 in dtypes and any(not dtype.is_unsigned for dtype in dtypes):
        sides = tuple(UINT64 if dtype.is_unsigned else INT64 for dtype in dtypes)
        return Plan(sides, BOOL, mixed_signs=sides[0] != sides[1])
    return None


def _comparison_with_large_int(operands: Sequence[Operand], value: int) -> Plan:
    value_dtype = INT64 if INT64.holds(value) else UINT64
    if not value_dtype.holds(value):
        raise KernelValueError(f"Python int {value} fits neither int64 nor uint64", help="compare with a float")
    # The tensor is compared as a 64-bit integer of its own signedness.
    sides = tuple(
        value_dtype if x.weak else UINT64 if x.own.is_unsigned and x.own.bits == 64 else INT64 for x in operands
    )
    return Plan(sides, BOOL, mixed_signs=sides[0] != sides[1])
