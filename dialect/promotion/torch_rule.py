"""torch's rule: operands have one common dtype, by rank and category; each op has its result dtype for it.

It checks no values: `dtype_rules.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.promotion.plan import BOOL, FLOAT32, Operand, Plan, listed, plan, refuse, row
from mlirtri.dialect.promotion.tables import LETTER_OF, LETTERS, TORCH_PROMOTION, TORCH_ROWS
from mlirtri.errors import KernelTypeError

UINT8 = DTYPES["uint8"]
_SCALARS_OF_FLOAT32 = ("multiply", "divide", "floor_divide")
"""Operations in which torch takes a Python scalar beside fp16 or bf16 in fp32, unrounded: ``h * 70000.0``."""


def torch_plan(op: str, operands: Sequence[Operand]) -> Plan:
    """Return the plan of a table op in torch's semantics."""
    if op in ("layer_norm", "rms_norm"):
        return _normalization(op, operands)
    if op == "where" and operands[0].own not in (BOOL, UINT8):
        raise KernelTypeError(f"torch.where takes a bool condition, not {operands[0]}", help="compare with 0 first")
    if op == "subtract" and any(x.dtype == BOOL or x.weak == "bool" for x in operands):
        refuse("torch", op, operands)
    if op in ("matmul", "dot") and len({x.dtype for x in operands}) > 1:
        raise KernelTypeError(
            f"torch's {op} takes operands of one dtype, not {listed(operands)}", help="cast one of them with .to(dtype)"
        )
    common = torch_common_dtype(op, operands[1:] if op == "where" else operands)
    if (letter := row(TORCH_ROWS, op, common)) == "-":
        refuse("torch", op, operands)
    dtype = LETTERS[letter]
    if dtype.is_half and op in _SCALARS_OF_FLOAT32 and (operands[1].weak or (operands[0].weak and op == "multiply")):
        return Plan((FLOAT32, FLOAT32), dtype)
    return plan(op, dtype, operands)


def torch_common_dtype(op: str, operands: Sequence[Operand]) -> DType:
    """Return the dtype to which torch promotes the operands of an operation.

    Tensors of rank 1 and more come first, then rank 0, then Python scalars: a later one only adds its category.

    https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch-dtype
    """
    tiers = (
        [x for x in operands if x.weak is None and x.rank > 0],
        [x for x in operands if x.weak is None and x.rank == 0],
        [x for x in operands if x.weak is not None],
    )
    dtypes = [
        reduce(lambda left, right: _promote(op, left, right, operands), map(_own_dtype, tier)) for tier in tiers if tier
    ]
    result = dtypes[0]
    for dtype in dtypes[1:]:
        if _category(dtype) <= _category(result):
            continue
        # A later tier adds only its category: floats keep their precision.
        if dtype.is_complex:
            result = _complex_of(result, op, operands) if result.is_float else dtype
        else:
            result = _promote(op, result, dtype, operands)
    return result


def _complex_of(dtype: DType, op: str, operands: Sequence[Operand]) -> DType:
    if dtype.name == "float16":
        hint = "torch makes complex32 of float16, which kernels lack: cast to float32"
        refuse("torch", op, operands, hint, as_library=False)
    return DTYPES["complex128" if dtype.bits == 64 else "complex64"]


def _promote(op: str, left: DType, right: DType, operands: Sequence[Operand]) -> DType:
    if (letter := row(TORCH_PROMOTION, LETTER_OF[left.name], right)) == "-":
        refuse("torch", op, operands, f"torch does not promote {left} with {right}: cast one of them")
    return LETTERS[letter]


def _own_dtype(operand: Operand) -> DType:
    return {"float": FLOAT32, "complex": DTYPES["complex64"]}.get(operand.weak or "", operand.own)


def _category(dtype: DType) -> int:
    return 0 if dtype.is_bool else 3 if dtype.is_complex else 2 if dtype.is_float else 1


def _normalization(op: str, operands: Sequence[Operand]) -> Plan:
    """Plan `layer_norm` (half inputs may have float32 weights) or `rms_norm` (any weight); both give x's dtype."""
    x, *weights = operands
    weight_dtypes = {weight.own for weight in weights}
    mixes = op == "rms_norm" or weight_dtypes <= {x.own} or (x.own.is_half and weight_dtypes == {FLOAT32})
    is_real = op == "layer_norm" or not x.own.is_complex
    if not all(operand.own.is_float if is_real else operand.own.is_complex for operand in operands) or not mixes:
        refuse("torch", op, operands, f"cast weight and bias to {x.own}, the dtype of the input")
    compute = torch_common_dtype(op, [Operand(operand.own, rank=1) for operand in operands])
    return Plan((compute,) * len(operands), x.own)
