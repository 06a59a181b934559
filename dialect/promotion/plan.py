"""Operands and plans of dtype promotion, and the error of a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.promotion.tables import COMPARISONS, LETTERS, ROUNDINGS
from mlirtri.errors import KernelTypeError

BOOL, INT64, FLOAT32, FLOAT64 = DTYPES["bool"], DTYPES["int64"], DTYPES["float32"], DTYPES["float64"]
WEAK_DTYPES = {"bool": BOOL, "int": INT64, "float": FLOAT64, "complex": DTYPES["complex128"]}
"""The dtype of a Python scalar by its kind."""


@dataclass(frozen=True)
class Operand:
    """An operand as promotion sees it. Python scalars are weak: tensors decide the dtype; rank-0 tensors are not."""

    dtype: DType | None
    """None for a Python scalar, whose dtype follows from its kind."""
    weak: str | None = None
    """``bool``, ``int``, ``float`` or ``complex`` for a Python scalar, known or run-time; None for a tensor."""
    rank: int = 0
    value: bool | int | float | complex | None = None
    """The Python scalar itself, when known: NumPy refuses an int that does not fit."""

    @property
    def own(self) -> DType:
        """Return the operand's dtype; for a Python scalar the default dtype of its kind."""
        return WEAK_DTYPES[self.weak or "float"] if self.dtype is None else self.dtype

    @property
    def known_int(self) -> int | None:
        """Return the Python int if it is one and known at compile time, else None."""
        if self.weak != "int" or self.value is None or isinstance(self.value, complex):
            return None
        return int(self.value)

    def __str__(self) -> str:
        if self.weak is None:
            return str(self.dtype)
        return f"Python {self.weak}" if self.value is None else f"Python {self.weak} {self.value}"


@dataclass(frozen=True)
class Plan:
    """The dtypes of an operation's computation and result."""

    compute: tuple[DType, ...]
    """One per operand, all equal except for `where`'s condition and for `mixed_signs`."""
    result: DType
    identity: bool = False
    """The op is the identity on this dtype (floor of an integer): emit nothing."""
    mixed_signs: bool = False
    """NumPy compares uint64 with signed integers exactly: one `compute` dtype is uint64, the other int64."""
    weak: str | None = None
    """Kind of the Python scalar that the result is; None for a tensor."""


OF_PARTS = ("abs", "var", "std")
"""Operations whose result is real when their operands are complex."""


def plan(op: str, compute: DType, operands: Sequence[Operand]) -> Plan:
    """Return the plan of `op` where it computes in one dtype."""
    result = compute.part if op in OF_PARTS else compute
    result = BOOL if op in COMPARISONS else INT64 if op in ("argmax", "argmin") else result
    identity = (op in ROUNDINGS and not compute.is_inexact) or (op == "sign" and compute.is_bool)
    condition = (BOOL,) if op == "where" else ()
    return Plan(condition + (compute,) * (len(operands) - len(condition)), result, identity)


def row(rows: dict[str, str], op: str, dtype: DType) -> str:
    """Return the letter of `dtype` in the row of `op`; raise `KernelTypeError` for an op without a row."""
    if op not in rows:
        raise KernelTypeError(f"no dtype rule for operation {op!r}")
    position = list(LETTERS.values()).index(dtype)
    return rows[op][position] if position < len(rows[op]) else "-"


_HINTS = {
    "subtract": "use ^ (or logical_xor) on bools, or cast one side to an integer",
    "negative": "use ~ (or logical_not) on bools",
    "bitwise_and": "cast to an integer dtype, or use logical_and",
    "bitwise_or": "cast to an integer dtype, or use logical_or",
    "bitwise_xor": "cast to an integer dtype, or use logical_xor",
    "bitwise_not": "cast to an integer dtype, or use logical_not",
    "mean": "cast to a float dtype, or pass dtype=",
    "reciprocal": "write 1 / x, which is a float division",
    "left_shift": "cast to an integer dtype",
    "right_shift": "cast to an integer dtype",
    "concatenate": "cast to one dtype first",
}


def listed(operands: Sequence[Operand]) -> str:
    """Return the operands as text for an error."""
    return " and ".join(str(operand) for operand in operands)


def refuse(
    semantics: str, op: str, operands: Sequence[Operand], hint: str | None = None, as_library: bool = True
) -> NoReturn:
    """Raise `KernelTypeError`: the library refuses these dtypes too where `as_library` is set."""
    library = {"numpy": "NumPy", "torch": "torch"}[semantics]
    # NumPy computes the reciprocal of integers, to 0 except for 1 and -1.
    words = f", as {library} does" if as_library and op != "reciprocal" else ""
    raise KernelTypeError(
        f"{op} of {listed(operands)} is refused{words}",
        help=hint or _HINTS.get(op, "cast the operands to a dtype that it takes, for example float32"),
    )
