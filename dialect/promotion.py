"""Which dtypes an operation computes in and gives, as NumPy or torch has it.

Takes the semantics (``numpy`` or ``torch``), the name of a table op and an `Operand` per operand.
Gives a `Plan`: the frontend casts each operand to its `compute` dtype, applies the op, casts the result to `result`.
Refuses, with the library's rule in a sentence, what the library refuses. Loads neither library.

The third semantics, ``python``, is for operators and `math` functions whose operands are all Python scalars: the
result is a Python scalar again (`Plan.weak`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri.dialect.dtypes import DTYPES, DType
from mlirtri.dialect.promotion_tables import (
    COMPARISONS,
    LETTER_OF,
    LETTERS,
    LOGICAL,
    NUMPY_LOOP_ORDER,
    NUMPY_LOOPS,
    NUMPY_NO_COMMON,
    NUMPY_SAFE_CASTS,
    NUMPY_UNARY,
    PREDICATES,
    ROUNDINGS,
    TORCH_PROMOTION,
    TORCH_ROWS,
)
from mlirtri.errors import KernelDivisionError, KernelTypeError, KernelValueError

BOOL, INT64, UINT64, UINT8 = DTYPES["bool"], DTYPES["int64"], DTYPES["uint64"], DTYPES["uint8"]
FLOAT32, FLOAT64 = DTYPES["float32"], DTYPES["float64"]
SEMANTICS = ("numpy", "torch")
_JOINS = ("where", "concatenate", "stack", "dot")
_WEAK_DTYPES = {"bool": BOOL, "int": INT64, "float": FLOAT64}


@dataclass(frozen=True)
class Operand:
    """What promotion has to know of an operand; Python scalars are weak, tensors of rank 0 are not."""

    dtype: DType | None
    """None for a Python scalar, which has the dtype of its kind."""
    weak: str | None = None
    """``bool``, ``int`` or ``float`` for a Python scalar, known or run-time; None for a tensor."""
    rank: int = 0
    value: bool | int | float | None = None
    """The Python scalar itself, when it is known: NumPy refuses an int that does not fit."""

    def __str__(self) -> str:
        if self.weak is None:
            return str(self.dtype)
        return f"Python {self.weak}" if self.value is None else f"Python {self.weak} {self.value}"


@dataclass(frozen=True)
class Plan:
    """The dtypes of one operation."""

    compute: tuple[DType, ...]
    """One per operand, all alike but for `where`'s condition and for `mixed_signs`."""
    result: DType
    identity: bool = False
    """The op returns its operand for this dtype (floor of an integer): apply nothing."""
    mixed_signs: bool = False
    """NumPy compares uint64 with signed integers exactly: one `compute` dtype is uint64, the other int64."""
    weak: str | None = None
    """Kind of the Python scalar that the result is; None for a tensor."""


def default_dtype(semantics: str, kind: str) -> DType:
    """The dtype of a tensor made of Python scalars: ``bool``, ``int`` or ``float`` (torch: float32, NumPy: float64)."""
    return FLOAT32 if semantics == "torch" and kind == "float" else _WEAK_DTYPES[kind]


def common_dtype(semantics: str, operands: Sequence[Operand]) -> DType:
    """The dtype of a tensor that holds all operands: `numpy.result_type` or `torch.result_type`."""
    return result_dtypes(semantics, "concatenate", operands).result


def result_dtypes(semantics: str, op: str, operands: Sequence[Operand], dtype: DType | None = None) -> Plan:
    """The dtypes of table op `op` (`where` and `clip` with all their operands; `clip` without a bound has fewer).

    `dtype` is the argument of that name of `sum`, `prod` and `mean`. Raises `KernelTypeError` for dtypes that the
    library does not take, `KernelValueError` for a Python int that fits no dtype, `KernelDivisionError` for `// 0`.
    """
    if dtype is not None:
        return _with_dtype(semantics, op, dtype)
    if semantics == "python" or (semantics == "torch" and operands and all(x.weak for x in operands)):
        return _python(op, operands)
    if op in LOGICAL or op in ("any", "all"):
        plan = Plan((BOOL,) * len(operands), BOOL)
        if semantics == "torch" and op in LOGICAL:
            _torch_common(op, operands)  # refuses what torch does not promote, though it has no use for the dtype
        if semantics == "torch" and op in ("any", "all") and operands[0].dtype == UINT8:
            return Plan(plan.compute, UINT8)
        return plan
    if op in PREDICATES:
        source = _strong_dtype(semantics, operands[0])
        # An integer is finite: any float dtype gives the answer.
        return Plan((source if source.is_float else FLOAT32,), BOOL)
    plan = _numpy(op, operands) if semantics == "numpy" else _torch(op, operands)
    _check_values(semantics, op, operands, plan)
    return plan


def _strong_dtype(semantics: str, operand: Operand) -> DType:
    return operand.dtype if operand.weak is None else default_dtype(semantics, operand.weak)


def _plan(op: str, compute: DType, operands: Sequence[Operand]) -> Plan:
    result = BOOL if op in COMPARISONS else INT64 if op in ("argmax", "argmin") else compute
    identity = (op in ROUNDINGS and not compute.is_float) or (op == "sign" and compute.is_bool)
    condition = (BOOL,) if op == "where" else ()
    return Plan(condition + (compute,) * (len(operands) - len(condition)), result, identity)


def _with_dtype(semantics: str, op: str, dtype: DType) -> Plan:
    if dtype.is_bool or (op == "mean" and not dtype.is_float):
        raise KernelTypeError(f"{op} does not compute in {dtype}", help="pass a float dtype, or cast the result")
    return Plan((dtype,), dtype)


# --- Python scalars only -------------------------------------------------------------------------------------------


def _python(op: str, operands: Sequence[Operand]) -> Plan:
    """Python's rule: NumPy's for bool, int64 and float64, except that arithmetic on bools is on integers."""
    keeps_bool = (*COMPARISONS, *LOGICAL, "bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "where")
    strong = [
        Operand(INT64 if x.weak == "bool" and op not in keeps_bool else _WEAK_DTYPES[x.weak or "float"])
        for x in operands
    ]
    plan = result_dtypes("numpy", op, strong)
    weak = "bool" if plan.result.is_bool else "int" if plan.result.is_integer else "float"
    return Plan(plan.compute, plan.result, plan.identity, weak=weak)


# --- NumPy ---------------------------------------------------------------------------------------------------------


def _numpy(op: str, operands: Sequence[Operand]) -> Plan:
    if op == "where":
        return _plan(op, _numpy_join(op, operands[1:]), operands)
    if op in _JOINS:
        return _plan(op, _numpy_join(op, operands), operands)
    if op == "clip" and len(operands) < 3:
        return _numpy("minimum", operands)
    if op in NUMPY_LOOPS or op == "divide":
        return _numpy_loop(op, operands)
    # The first operand alone may decide (round's decimals); weights of a normalization take part like operands.
    source = _numpy_join(op, operands)
    if (letter := _row(NUMPY_UNARY, op, source)) == "-":
        _refuse("numpy", op, operands)
    return _plan(op, LETTERS[letter], operands)


def _numpy_loop(op: str, operands: Sequence[Operand]) -> Plan:
    strong = _numpy_strong(operands, weak_float_beside_bfloat16="e")
    if op == "subtract" and set(strong) == {"?"}:
        _refuse("numpy", op, operands)
    if op in COMPARISONS and (mixed := _numpy_mixed_comparison(strong, operands)):
        return mixed
    if op == "divide":
        no_floats = all(not LETTERS[letter].is_float for letter in strong)
        compute = "d" if no_floats else _first_loop("eEfd", strong)
    else:
        compute = _first_loop(NUMPY_LOOPS[op], strong)
    if compute is None:
        _refuse("numpy", op, operands)
    return _plan(op, LETTERS[compute], operands)


def _numpy_strong(operands: Sequence[Operand], weak_float_beside_bfloat16: str) -> list[str]:
    """Letters of the operands, where Python scalars add a letter only if they are of a higher kind (NEP 50)."""
    # A Python bool is as strong as NumPy's.
    strong = [LETTER_OF[(x.dtype or BOOL).name] for x in operands if x.weak in (None, "bool")]
    weak = {x.weak for x in operands if x.weak}
    has_float = any(LETTERS[letter].is_float for letter in strong)
    if "float" in weak and not has_float:
        return [*strong, "d"]
    if "float" in weak and "E" in strong:
        # NEP 50 does not know ml_dtypes' bfloat16.
        return [*strong, weak_float_beside_bfloat16]
    if "int" in weak and set(strong) <= {"?"}:
        return [*strong, "q"]
    return strong


def _first_loop(loops: str, strong: Sequence[str]) -> str | None:
    for loop in NUMPY_LOOP_ORDER:
        if loop in loops and all(loop in NUMPY_SAFE_CASTS[letter] for letter in strong):
            return loop
    return None


def _numpy_join(op: str, operands: Sequence[Operand]) -> DType:
    strong = _numpy_strong(operands, weak_float_beside_bfloat16="d")
    for letter, strangers in NUMPY_NO_COMMON.items():
        # With three operands and more, NumPy's own answer depends on their order; this one refuses more.
        if letter in strong and set(strong) & set(strangers):
            _refuse("numpy", op, operands)
    return LETTERS[_first_loop(NUMPY_LOOP_ORDER, strong)]


def _numpy_mixed_comparison(strong: Sequence[str], operands: Sequence[Operand]) -> Plan | None:
    """uint64 with a signed integer, or an integer with a Python int outside its range: both compared exactly."""
    dtypes = [LETTERS[letter] for letter in strong]
    if any(not dtype.is_integer for dtype in dtypes):
        return None
    values = [x.value for x in operands if x.weak == "int" and x.value is not None]
    if len(operands) == 2 and len(dtypes) == 1 and values and not _fits(values[0], dtypes[0]):
        return _comparison_with_large_int(operands, values[0])
    if UINT64 in dtypes and any(not dtype.is_unsigned for dtype in dtypes):
        sides = tuple(UINT64 if dtype.is_unsigned else INT64 for dtype in dtypes)
        return Plan(sides, BOOL, mixed_signs=sides[0] != sides[1])
    return None


def _comparison_with_large_int(operands: Sequence[Operand], value: int) -> Plan:
    value_dtype = INT64 if _fits(value, INT64) else UINT64
    if not _fits(value, value_dtype):
        raise KernelValueError(f"Python int {value} fits neither int64 nor uint64", help="compare with a float")
    # The tensor is compared in 64 bits of its own sign.
    sides = tuple(
        value_dtype if x.weak else UINT64 if x.dtype.is_unsigned and x.dtype.bits == 64 else INT64 for x in operands
    )
    return Plan(sides, BOOL, mixed_signs=sides[0] != sides[1])


# --- torch ---------------------------------------------------------------------------------------------------------


def _torch(op: str, operands: Sequence[Operand]) -> Plan:
    if op in ("layer_norm", "rms_norm"):
        return _torch_normalization(op, operands)
    if op == "where" and operands[0].dtype not in (BOOL, UINT8):
        raise KernelTypeError(f"torch.where takes a bool condition, not {operands[0]}", help="compare with 0 first")
    if op == "subtract" and any(x.dtype == BOOL or x.weak == "bool" for x in operands):
        _refuse("torch", op, operands)
    if op in ("matmul", "dot") and len({x.dtype for x in operands}) > 1:
        raise KernelTypeError(
            f"torch's {op} takes operands of one dtype, not {_listed(operands)}",
            help="cast one of them with .to(dtype)",
        )
    common = _torch_common(op, operands[1:] if op == "where" else operands)
    if (letter := _row(TORCH_ROWS, op, common)) == "-":
        _refuse("torch", op, operands)
    return _plan(op, LETTERS[letter], operands)


def _torch_common(op: str, operands: Sequence[Operand]) -> DType:
    """Tensors of rank 1 and more come first, then rank 0, then Python scalars: a later one only adds its category.

    https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch-dtype
    """
    tiers = (
        [x for x in operands if x.weak is None and x.rank > 0],
        [x for x in operands if x.weak is None and x.rank == 0],
        [x for x in operands if x.weak is not None],
    )
    result: DType | None = None
    for tier in tiers:
        dtype: DType | None = None
        for operand in tier:
            dtype = _torch_promote(op, dtype, _strong_dtype("torch", operand), operands)
        if result is None or (dtype is not None and _category(dtype) > _category(result)):
            result = _torch_promote(op, result, dtype, operands) if dtype is not None else result
    return result


def _torch_promote(op: str, left: DType | None, right: DType, operands: Sequence[Operand]) -> DType:
    if left is None:
        return right
    if (letter := TORCH_PROMOTION[LETTER_OF[left.name]][list(LETTERS.values()).index(right)]) == "-":
        _refuse("torch", op, operands, f"torch does not promote {left} with {right}: cast one of them")
    return LETTERS[letter]


def _category(dtype: DType) -> int:
    return 0 if dtype.is_bool else 2 if dtype.is_float else 1


def _torch_normalization(op: str, operands: Sequence[Operand]) -> Plan:
    """`layer_norm` also takes half inputs with float32 weights; `rms_norm` takes any weight; both give x's dtype."""
    x, *weights = operands
    weight_dtypes = {weight.dtype for weight in weights}
    mixes = op == "rms_norm" or weight_dtypes <= {x.dtype} or (x.dtype.is_half and weight_dtypes == {FLOAT32})
    if not all(operand.dtype.is_float for operand in operands) or not mixes:
        _refuse("torch", op, operands, f"cast weight and bias to {x.dtype}, the dtype of the input")
    compute = _torch_common(op, [Operand(operand.dtype, rank=1) for operand in operands])
    return Plan((compute,) * len(operands), x.dtype)


# --- values and sentences ------------------------------------------------------------------------------------------


def _row(rows: dict[str, str], op: str, dtype: DType) -> str:
    if op not in rows:
        raise KernelTypeError(f"no dtype rule for operation {op!r}")
    return rows[op][list(LETTERS.values()).index(dtype)]


def _fits(value: int, dtype: DType) -> bool:
    low, high = (0, 2**dtype.bits - 1) if dtype.is_unsigned else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
    return low <= value <= high


def _check_values(semantics: str, op: str, operands: Sequence[Operand], plan: Plan) -> None:
    """Python ints that are known: NumPy refuses one that does not fit the dtype, torch mostly wraps it."""
    last = operands[-1] if operands else None
    if op == "power" and plan.result.is_integer and last.weak == "int" and (last.value or 0) < 0:
        raise KernelValueError(
            f"{plan.result} to the negative integer power {last.value} is no integer",
            help="use a float exponent, or cast the base to a float",
        )
    divides = op in ("floor_divide", "remainder") and plan.result.is_integer
    if semantics == "torch" and divides and last.weak == "int" and last.value == 0:
        raise KernelDivisionError(f"{op} of {plan.result} by zero, which torch raises ZeroDivisionError for")
    checked = op != "where" if semantics == "numpy" else op in ("where", "power", "clip")
    for operand, dtype in zip(operands, plan.compute, strict=True):
        if operand.weak != "int" or operand.value is None:
            continue
        outside_all = semantics == "torch" and not -(2**63) <= operand.value < 2**64
        if outside_all or (checked and dtype.is_integer and not _fits(operand.value, dtype)):
            raise KernelValueError(
                f"Python int {operand.value} does not fit {dtype}",
                help=f"cast the tensor to a wider dtype, or write a value that {dtype} holds",
            )


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


def _listed(operands: Sequence[Operand]) -> str:
    return " and ".join(str(operand) for operand in operands)


def _refuse(semantics: str, op: str, operands: Sequence[Operand], hint: str | None = None) -> None:
    library = {"numpy": "NumPy", "torch": "torch"}[semantics]
    raise KernelTypeError(
        f"{op} of {_listed(operands)} is refused, as {library} does",
        help=hint or _HINTS.get(op, "cast the operands to a dtype that it takes, for example float32"),
    )
