"""Functions of `torch` that tell the types of tensors, and second names of its functions. Does not import torch."""

from __future__ import annotations

from typing import Any, NamedTuple

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.promotion.dtype_rules import Operand, common_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import SPELLINGS, Builder, Value, register, spelling, unsupported

_NAMES = {
    "torch.ger": "torch.outer", "Tensor.ger": "torch.outer", "torch.broadcast_shapes": "numpy.broadcast_shapes",
    "torch.iinfo": "numpy.iinfo", "Tensor.nelement": "torch.numel", "torch.detach": "Tensor.detach",
    "torch.unsafe_chunk": "torch.chunk", "torch.unsafe_split": "torch.split", "torch.narrow_copy": "torch.narrow",
}  # fmt: skip
for _name, _same in _NAMES.items():
    register(_name, SPELLINGS[_same].function, " ".join(SPELLINGS[_same].ops))


class FloatInfo(NamedTuple):
    """The fields of `torch.finfo`, as Python floats."""

    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    bits: int
    dtype: DType


@spelling("torch.finfo", ops="")
def _(b, type=None):  # noqa: A002 - torch's name
    import ml_dtypes

    dtype = DTYPES["float32"] if type is None else as_dtype(type)
    if not dtype.is_float:
        b.fail(f"torch.finfo is of floats, not {dtype}", help="torch.iinfo")
    info = ml_dtypes.finfo(dtype.numpy)
    return FloatInfo(*(float(getattr(info, name)) for name in FloatInfo._fields[:-2]), bits=dtype.bits, dtype=dtype)


def _operand(b: Builder, x: Value) -> Operand:
    weak, kind = b.weak_kind(x), b.type_of(x)
    return Operand(None, weak) if weak else Operand(kind.dtype, rank=kind.rank)


@spelling("torch.result_type", ops="")
def _(b, tensor1, tensor2):
    return common_dtype("torch", [_operand(b, tensor1), _operand(b, tensor2)])


@spelling("torch.promote_types", ops="")
def _(b, type1, type2):
    return common_dtype("torch", [Operand(as_dtype(dtype), rank=1) for dtype in (type1, type2)])


def _as_tensor(b: Builder, data: Value, dtype: Any) -> Value:
    if helpers.is_tensor(b, data) and dtype is None:
        return data
    return SPELLINGS["torch.tensor"].call(b, data, dtype=dtype)


@spelling("torch.as_tensor", ops="literal cast")
def _(b, data, dtype=None, device=unsupported()):
    return _as_tensor(b, data, dtype)


@spelling("torch.asarray", ops="literal cast")
def _(b, obj, *, dtype=None, device=unsupported(), copy=unsupported(), requires_grad=unsupported(False)):
    return _as_tensor(b, obj, dtype)


@spelling("torch.scalar_tensor", ops="literal cast")
def _(b, s, *, dtype=None, device=unsupported()):
    return SPELLINGS["torch.tensor"].call(b, s, dtype="float32" if dtype is None else dtype)


@spelling("Tensor.new_tensor", ops="literal cast")
def _(b, input, data, *, dtype=None, device=unsupported(), requires_grad=unsupported(False)):
    return SPELLINGS["torch.tensor"].call(b, data, dtype=b.type_of(input).dtype if dtype is None else dtype)


@spelling("torch.constant_pad_nd", ops="pad")
def _(b, input, pad, value=0):
    return SPELLINGS["torch.nn.functional.pad"].call(b, input, pad, value=value)


register("torch.is_tensor", lambda b, obj: helpers.is_tensor(b, obj), "")
register("Tensor.element_size", lambda b, input: b.type_of(input).dtype.bytes, "")


@spelling("torch.is_signed Tensor.is_signed", ops="")
def _(b, input):
    return not (b.type_of(input).dtype.is_unsigned or b.type_of(input).dtype.is_bool)
