"""The functions of `torch` on elements and the reductions, each with torch's signature, defaults and result.

Uniform ones are rows of op and names. Overloads are merged into one signature where that accepts the same calls:
`torch.max(x)`, `torch.max(x, dim)` (a pair) and `torch.max(x, other)`. Does not import torch.
"""

from __future__ import annotations

from typing import NamedTuple

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import CONSTANTS, register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.selection import INDICES, indices_of

BOOL, UINT8, FLOAT64 = DTYPES["bool"], DTYPES["uint8"], DTYPES["float64"]

CONSTANTS |= {
    "torch.pi": 3.141592653589793,
    "torch.e": 2.718281828459045,
    "torch.inf": float("inf"),
    "torch.nan": float("nan"),
    "torch.newaxis": None,
}

# op: names in torch
_UNARY = {
    "negative": "neg negative", "abs": "abs absolute", "sign": "sign", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc fix", "exp": "exp", "exp2": "exp2 special.exp2", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p special.log1p", "expm1": "expm1 special.expm1", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "square": "square", "reciprocal": "reciprocal", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin arcsin",
    "acos": "acos arccos", "atan": "atan arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh arcsinh", "acosh": "acosh arccosh", "atanh": "atanh arctanh", "erf": "erf special.erf",
    "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit",
    "sigmoid": "sigmoid special.expit", "relu": "relu",
    "bitwise_not": "bitwise_not", "logical_not": "logical_not",
}  # fmt: skip
# Both operands may be Python numbers, though not at the same time.
_BINARY = {
    "multiply": "mul multiply", "floor_divide": "floor_divide", "remainder": "remainder", "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
}  # fmt: skip
_TENSOR_AND_NUMBER = {
    "equal": "eq", "not_equal": "ne not_equal", "less": "lt less", "less_equal": "le less_equal",
    "greater": "gt greater", "greater_equal": "ge greater_equal", "fmod": "fmod", "copysign": "copysign",
}  # fmt: skip
_TWO_TENSORS = {
    "minimum": "minimum", "maximum": "maximum", "atan2": "atan2 arctan2", "logical_and": "logical_and",
    "logical_or": "logical_or", "logical_xor": "logical_xor", "hypot": "hypot", "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2", "fmin": "fmin", "fmax": "fmax",
}  # fmt: skip


class ValuesAndIndices(NamedTuple):
    """The result of `torch.max(x, dim)` and `torch.min(x, dim)`."""

    values: object
    indices: object


def _unary(op: str, name: str):
    def function(b, input, *, out=unsupported()):
        helpers.require_tensor(b, name, input, "math has the same functions for Python numbers")
        return getattr(b, op)(input)

    return function


def _binary(op: str, name: str, tensors: int):
    def function(b, input, other, *, out=unsupported()):
        _require_tensors(b, name, tensors, input, other)
        return getattr(b, op)(input, other)

    return function


def _require_tensors(b, name: str, tensors: int, *operands) -> None:
    """Fail unless the first `tensors` operands are tensors; 0: any one of them."""
    if tensors == 0 and not any(helpers.is_tensor(b, x) for x in operands):
        helpers.require_tensor(b, name, operands[0], "for two Python numbers, use the operator")
    for x in operands[:tensors]:
        helpers.require_tensor(b, name, x, "torch.full makes a tensor of a number; operators take both")


def _register(table: dict[str, str], factory, *arguments) -> None:
    for op, words in table.items():
        for word in words.split():
            register(f"torch.{word}", factory(op, f"torch.{word}", *arguments), op)


_register(_UNARY, _unary)
_register(_BINARY, _binary, 0)
_register(_TENSOR_AND_NUMBER, _binary, 1)
_register(_TWO_TENSORS, _binary, 2)


# --- elementwise, irregular ----------------------------------------------------------------------------------------


def scaled(b, other, alpha):
    """Return `other` times alpha, as `torch.add` and `torch.addmm` compute it."""
    if alpha == 1 and type(alpha) is int:
        return other
    product, kind = b.multiply(other, alpha), b.type_of(other)
    # For bool tensors alpha is a bool too.
    return b.cast(product, "bool") if kind is not None and kind.dtype.is_bool and type(alpha) is not float else product


def scaled_sum(b, combine, input, other, alpha):
    """Return `input` plus or minus alpha times `other`; halves are rounded once, and alpha before."""
    dtype = b.type_of(combine(input, other)).dtype
    if not dtype.is_half or (alpha == 1 and type(alpha) is int):
        return combine(input, scaled(b, other, alpha))
    first, second, factor = (b.cast(b.cast(operand, dtype), "float32") for operand in (input, other, alpha))
    return b.cast(combine(first, b.multiply(second, factor)), dtype)


@spelling("torch.add", ops="add multiply cast")
def _(b, input, other, *, alpha=1, out=unsupported()):
    _require_tensors(b, "torch.add", 0, input, other)
    return scaled_sum(b, b.add, input, other, alpha)


@spelling("torch.sub torch.subtract", ops="subtract multiply cast")
def _(b, input, other, *, alpha=1, out=unsupported()):
    _require_tensors(b, "torch.sub", 0, input, other)
    return scaled_sum(b, b.subtract, input, other, alpha)


@spelling("torch.div torch.divide", ops="divide floor_divide trunc multiply not_equal logical_and less add where cast")
def _(b, input, other, *, rounding_mode=None, out=unsupported()):
    _require_tensors(b, "torch.div", 0, input, other)
    if rounding_mode is None:
        return b.divide(input, other)
    if rounding_mode == "floor":
        return b.floor_divide(input, other)
    if rounding_mode != "trunc":
        b.fail(f"rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    return _truncated_division(b, input, other)


def _truncated_division(b, x, y):
    quotient = b.floor_divide(x, y)
    dtype = b.type_of(quotient).dtype
    if dtype.is_half:
        # A Python number is rounded as a dividend only.
        wide, divisor = b.cast(b.cast(x, dtype), "float32"), b.cast(y, "float32")
        quotient = b.divide(wide, divisor)
        if b.rounds_quotients(y, dtype):
            quotient = b.cast(b.cast(quotient, dtype), "float32")
        return b.cast(b.trunc(quotient), dtype)
    if dtype.is_float:
        return b.trunc(b.divide(x, y))
    # The floor is one below the truncated quotient when it is negative and not exact.
    inexact = b.not_equal(b.multiply(quotient, y), x)
    return b.where(b.logical_and(inexact, b.less(quotient, 0)), b.add(quotient, 1), quotient)


@spelling("torch.true_divide", ops="divide")
def _(b, input, other, *, out=unsupported()):
    _require_tensors(b, "torch.true_divide", 0, input, other)
    return b.divide(input, other)


@spelling("torch.pow", ops="power")
def _(b, input, exponent, *, out=unsupported()):
    _require_tensors(b, "torch.pow", 0, input, exponent)
    return b.power(input, exponent)


@spelling("torch.float_power", ops="power cast")
def _(b, input, exponent, *, out=unsupported()):
    return b.power(b.cast(input, FLOAT64), b.cast(exponent, FLOAT64))


@spelling("torch.round", ops="round multiply divide")
def _(b, input, *, decimals=0, out=unsupported()):
    return rounded(b, input, decimals)


def rounded(b, input, decimals):
    """Return `torch.round`; the method takes `decimals` by position as well."""
    helpers.require_tensor(b, "torch.round", input)
    if not helpers.is_integer(decimals):
        b.fail(f"a number of decimals is an integer known at compile time, not {decimals!r}")
    if decimals == 0:
        return b.round(input)
    if not b.type_of(input).dtype.is_float:
        b.fail(f"torch.round with decimals takes a float tensor, not {b.type_of(input)}")
    first, last = (b.multiply, b.divide) if decimals > 0 else (b.divide, b.multiply)
    scale, dtype = 10.0 ** abs(decimals), b.type_of(input).dtype
    # Halves are scaled in fp32, where that cannot overflow.
    wide = b.cast(input, "float32") if dtype.is_half else input
    return b.cast(last(b.round(first(wide, scale)), scale), dtype)


@spelling("torch.frac", ops="trunc subtract")
def _(b, input, *, out=unsupported()):
    helpers.require_tensor(b, "torch.frac", input)
    if not b.type_of(input).dtype.is_float:
        b.fail(f"torch.frac takes floats, not {b.type_of(input)}")
    return b.subtract(input, b.trunc(input))


@spelling("torch.where", ops=f"where {INDICES} floor_divide remainder")
def _(b, condition, input=None, other=None, *, out=unsupported()):
    if input is None and other is None:
        return indices_of(b, condition, "torch.where")
    if input is None or other is None:
        b.fail("torch.where takes a condition, or that and two values", help="torch.where(condition, x, y)")
    helpers.require_tensor(b, "torch.where", condition)
    return b.where(condition, input, other)


@spelling("torch.clamp torch.clip", ops="clip minimum maximum")
def _(b, input, min=None, max=None, *, out=unsupported()):
    helpers.require_tensor(b, "torch.clamp", input)
    if min is None and max is None:
        b.fail("torch.clamp takes at least one of min and max")
    return b.clip(input, min, max)


register("torch.clamp_min", lambda b, input, min: b.clip(input, min, None), "clip maximum")
register("torch.clamp_max", lambda b, input, max: b.clip(input, None, max), "clip minimum")


@spelling("torch.masked_fill", ops="where cast")
def _(b, input, mask, value):
    if b.type_of(mask) is None or not b.type_of(mask).dtype.is_bool:
        b.fail("the mask of masked_fill is a bool tensor", help="compare with 0 to make one")
    return b.where(mask, b.cast(value, helpers.dtype_of(b, "torch.masked_fill", input)), input)


# --- reductions ----------------------------------------------------------------------------------------------------


def _dims(dim):
    """Treat an empty tuple as all dimensions, as torch's older reductions do."""
    return None if dim is None or dim == () or dim == [] else tuple(dim) if isinstance(dim, list) else dim


def _one_dim(b, name: str, dim):
    if dim is not None and not helpers.is_integer(dim):
        b.fail(f"{name} reduces one dimension or all, so dim is an int or None, not {dim!r}")
    return dim


@spelling("torch.sum", ops="sum")
def _(b, input, dim=None, keepdim=False, *, dtype=None, out=unsupported()):
    return b.sum(input, axis=_dims(dim), keepdims=keepdim, dtype=dtype and as_dtype(dtype))


@spelling("torch.mean", ops="mean")
def _(b, input, dim=None, keepdim=False, *, dtype=None, out=unsupported()):
    return b.mean(input, axis=_dims(dim), keepdims=keepdim, dtype=dtype and as_dtype(dtype))


@spelling("torch.prod", ops="prod")
def _(b, input, dim=None, keepdim=False, *, dtype=None, out=unsupported()):
    dim = _one_dim(b, "torch.prod", dim)
    return b.prod(input, axis=dim, keepdims=keepdim, dtype=dtype and as_dtype(dtype))


class Extrema(NamedTuple):
    """The result of `torch.aminmax`."""

    min: object
    max: object


@spelling("torch.aminmax Tensor.aminmax", ops="min max")
def _(b, input, *, dim=None, keepdim=False, out=unsupported()):
    dim = _one_dim(b, "torch.aminmax", dim)
    return Extrema(b.min(input, axis=dim, keepdims=keepdim), b.max(input, axis=dim, keepdims=keepdim))


def _extremum(word: str):
    def function(b, input, dim=None, keepdim=False, *, other=None, out=unsupported()):
        other = dim if helpers.is_tensor(b, dim) else other
        if other is not None:
            return getattr(b, f"{word}imum")(input, other)
        if _one_dim(b, f"torch.{word}", dim) is None:
            return getattr(b, word)(input, axis=None, keepdims=False)
        values = getattr(b, word)(input, axis=dim, keepdims=keepdim)
        # torch's argmax takes no bools, but its max finds their index.
        ranked = b.cast(input, UINT8) if helpers.dtype_of(b, f"torch.{word}", input).is_bool else input
        return ValuesAndIndices(values, getattr(b, f"arg{word}")(ranked, axis=dim, keepdims=keepdim))

    return function


def _extremum_only(word: str):
    def function(b, input, dim=None, keepdim=False, *, out=unsupported()):
        return getattr(b, word)(input, axis=_dims(dim), keepdims=keepdim)

    return function


def _arg_extremum(word: str):
    def function(b, input, dim=None, keepdim=False):
        return getattr(b, word)(input, axis=_one_dim(b, f"torch.{word}", dim), keepdims=keepdim)

    return function


def _test(word: str):
    def function(b, input, dim=None, keepdim=False, *, out=unsupported()):
        return getattr(b, word)(input, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)

    return function


for _word in ("max", "min"):
    register(f"torch.{_word}", _extremum(_word), f"{_word} arg{_word} {_word}imum cast")
    register(f"torch.a{_word}", _extremum_only(_word), _word)
    register(f"torch.arg{_word}", _arg_extremum(f"arg{_word}"), f"arg{_word}")
for _word in ("any", "all"):
    register(f"torch.{_word}", _test(_word), _word)


def _deviation(op: str, with_mean: bool):
    def function(b, input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=unsupported()):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if unbiased is not None:
            if not isinstance(unbiased, bool):
                b.fail(f"unbiased= is a bool known at compile time, not {unbiased!r}")
            correction = int(unbiased)
        correction = 1 if correction is None else correction
        result = getattr(b, op)(input, axis=_dims(dim), keepdims=keepdim, correction=correction)
        return (result, b.mean(input, axis=_dims(dim), keepdims=keepdim)) if with_mean else result

    return function


for _word in ("var", "std"):
    register(f"torch.{_word}", _deviation(_word, with_mean=False), _word)
    register(f"torch.{_word}_mean", _deviation(_word, with_mean=True), f"{_word} mean")


# --- gradients -----------------------------------------------------------------------------------------------------


@spelling("torch.no_grad torch.enable_grad torch.inference_mode torch.set_grad_enabled", ops="")
def _(b, mode=True):
    """Do nothing: kernels record no gradients. ``with torch.no_grad():`` is its body."""
