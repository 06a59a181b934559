"""Rules for the dtypes of an operation's computation and result, by NumPy's or torch's semantics.

Refuses, with the library's rule in the message, what the library refuses. Loads neither library.

Elementwise operations on Python scalars only are Python's own in both semantics: their result is a Python scalar again
(`Plan.weak`). A library function whose result is a strong scalar casts its operands first.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.promotion.numpy_rule import numpy_plan
from mlirtri.dialect.promotion.plan import BOOL, FLOAT32, INT64, WEAK_DTYPES, Operand, Plan, refuse
from mlirtri.dialect.promotion.tables import COMPARISONS, LOGICAL, PREDICATES, SCALAR_OPS
from mlirtri.dialect.promotion.torch_rule import torch_common_dtype, torch_plan
from mlirtri.errors import IntegerBoundsError, KernelDivisionError, KernelTypeError, KernelValueError

__all__ = ["Operand", "Plan", "common_dtype", "default_dtype", "result_dtypes"]

UINT8 = DTYPES["uint8"]


def default_dtype(semantics: str, kind: str) -> DType:
    """Return the dtype of a tensor of Python scalars of a kind: ``bool``, ``int``, ``float`` or ``complex``."""
    of_torch = {"float": FLOAT32, "complex": DTYPES["complex64"]} if semantics == "torch" else {}
    return of_torch.get(kind, WEAK_DTYPES[kind])


def common_dtype(semantics: str, operands: Sequence[Operand]) -> DType:
    """Return the dtype of a tensor that holds all operands, as `numpy.result_type` or `torch.result_type`."""
    return result_dtypes(semantics, "concatenate", operands).result


def result_dtypes(semantics: str, op: str, operands: Sequence[Operand], dtype: DType | None = None) -> Plan:
    """Return the plan of table op `op` (`where` and `clip` with all their operands; `clip` without a bound has fewer).

    `dtype` is the argument of that name of `sum`, `prod` and `mean`. Raises `KernelTypeError` for dtypes that the
    library does not take, `KernelValueError` for a Python int that fits no dtype, `KernelDivisionError` for `// 0`.
    """
    if dtype is not None:
        return _with_dtype(op, dtype)
    if op in SCALAR_OPS and all(x.weak for x in operands):
        return _python(op, operands)
    if op in LOGICAL or op in ("any", "all"):
        return _logical(semantics, op, operands)
    if op in PREDICATES:
        source = operands[0].own
        # An integer is finite: any float dtype gives the answer.
        if op == "signbit" and source.is_complex:
            refuse(semantics, op, operands, "take the sign of the real or the imaginary part")
        return Plan((source if source.is_inexact else FLOAT32,), BOOL)
    plan = numpy_plan(op, operands) if semantics == "numpy" else torch_plan(op, operands)
    _check_values(semantics, op, operands, plan)
    return plan


def _logical(semantics: str, op: str, operands: Sequence[Operand]) -> Plan:
    """Return the plan of a logical operation, which takes operands of any dtype as bools."""
    if semantics == "torch" and op in LOGICAL:
        torch_common_dtype(op, operands)  # refuses what torch does not promote, though it has no use for the dtype
    result = UINT8 if semantics == "torch" and op in ("any", "all") and operands[0].dtype == UINT8 else BOOL
    return Plan((BOOL,) * len(operands), result)


def _with_dtype(op: str, dtype: DType) -> Plan:
    if dtype.is_bool or (op == "mean" and not dtype.is_inexact):
        raise KernelTypeError(f"{op} does not compute in {dtype}", help="pass a float dtype, or cast the result")
    return Plan((dtype,), dtype)


def _python(op: str, operands: Sequence[Operand]) -> Plan:
    """Return the plan of Python scalars: NumPy's for bool, int64 and float64, but bools compute as integers."""
    keeps_bool = (*COMPARISONS, *LOGICAL, "bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "where")
    if op in COMPARISONS[2:] and any(x.weak == "complex" for x in operands):
        raise KernelTypeError("Python does not order complex numbers", help="compare their real parts, or abs()")
    strong = [Operand(INT64 if x.weak == "bool" and op not in keeps_bool else x.own) for x in operands]
    plan = result_dtypes("numpy", op, strong)
    weak = next(kind for kind, dtype in WEAK_DTYPES.items() if dtype.kind == plan.result.kind)
    return Plan(plan.compute, plan.result, plan.identity, weak=weak)


def _check_values(semantics: str, op: str, operands: Sequence[Operand], plan: Plan) -> None:
    """Refuse known Python ints that do not fit: NumPy refuses all of them, torch wraps most."""
    last = operands[-1].known_int if operands else None
    if op == "power" and plan.result.is_integer and last is not None and last < 0:
        raise KernelValueError(
            f"{plan.result} to the negative integer power {last} is not an integer",
            help="use a float exponent, or cast the base to a float",
        )
    divides = op in ("floor_divide", "remainder") and plan.result.is_integer
    if semantics == "torch" and divides and last == 0:
        raise KernelDivisionError(f"{op} of {plan.result} by zero, which torch raises ZeroDivisionError for")
    checked = op != "where" if semantics == "numpy" else op in ("where", "power", "clip")
    for operand, dtype in zip(operands, plan.compute, strict=True):
        if (value := operand.known_int) is None:
            continue
        outside_all = semantics == "torch" and not -(2**63) <= value < 2**64
        if outside_all or (checked and dtype.is_integer and not dtype.holds(value)):
            raise IntegerBoundsError(
                f"Python int {value} does not fit {dtype}",
                help=f"cast the tensor to a wider dtype, or write a value that {dtype} holds",
            )
