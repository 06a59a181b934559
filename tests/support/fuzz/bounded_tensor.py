"""torch tensors that carry a reference of higher precision and an error bound through a program.

As `bounded_array.Bounded` for NumPy: every function runs as eager torch does (`low`, the peer), in float64 (`high`),
and on the bounds. Functions with several roundings (softmax, layer_norm…) are written as compositions of others, and
take only dtype and shape from torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from scipy.special import erf

from fuzz import bounds
from fuzz.bounds import LONG, NoRule

NUMPY = {
    torch.float16: np.dtype(np.float16), torch.bfloat16: np.dtype(ml_dtypes.bfloat16), torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}  # fmt: skip

UNARY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "tanh", "exp", "log", "sqrt", "square", "floor", "ceil", "trunc", "sign",
                                            "exp2", "expm1", "log1p", "log2", "log10", "sinh", "cosh", "reciprocal")},
    "neg": np.negative, "abs": np.absolute, "round": np.rint, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
    "erf": lambda x: erf(np.asarray(x, np.float64)).astype(LONG), "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(np.asarray(x / np.sqrt(LONG(2)), np.float64)).astype(LONG)) / 2,
    "softplus": lambda x: np.where(x > 20, x, np.logaddexp(x, 0)), "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "leaky_relu": lambda x: np.where(x > 0, x, LONG(0.01) * x), "hardtanh": lambda x: np.clip(x, -1, 1),
    "relu6": lambda x: np.clip(x, 0, 6), "hardsigmoid": lambda x: np.clip(x / 6 + LONG(0.5), 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + LONG(0.5), 0, 1), "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "logsigmoid": lambda x: -np.logaddexp(-x, 0),
}  # fmt: skip
LIPSCHITZ = {
    "sin": 1,
    "cos": 1,
    "silu": 1.1,
    "gelu": 1.13,
    "mish": 1.1,
    "hardswish": 1.5,
    "softplus": 1,
    "sigmoid": 0.25,
}
"""Functions that are not monotone, or whose corners lose digits, by the largest derivative."""
EXACT = {"neg", "abs", "relu", "floor", "ceil", "trunc", "sign", "round", "hardtanh", "relu6", "maximum", "minimum"}
CORRECT = {"sqrt", "square", "reciprocal", "add", "sub", "mul", "div", "rsqrt"}
ABSOLUTE = {
    "gelu": 4,
    "mish": 8,
    "erf": 1,
    "logsigmoid": 4,
    "softplus": 4,
    "silu": 0,
    "hardswish": 4,
    "hardsigmoid": 1,
    "elu": 1,
    "sigmoid": 0,
}
"""Roundings of intermediate values of about 1, which a small result does not shrink: 1 + erf(x) for a negative x."""
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "true_divide": np.divide, "pow": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "atan2": np.arctan2, "fmod": np.fmod, "remainder": np.remainder, "floor_divide": np.floor_divide,
}  # fmt: skip
COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
MOVING = {
    "reshape", "view", "permute", "transpose", "t", "flip", "roll", "expand", "squeeze", "unsqueeze", "narrow", "index_select", "gather",
    "tile", "repeat", "repeat_interleave", "flatten", "tril", "triu", "contiguous", "clone", "movedim", "select", "diagonal", "swapaxes",
    "unflatten", "diag_embed", "pixel_shuffle", "detach", "broadcast_to", "take_along_dim", "fliplr", "rot90", "unfold", "embedding",
}  # fmt: skip
JOINING = {"cat", "stack", "hstack", "vstack"}
RULES: dict[str, Callable[..., Any]] = {}


def rule(function: Callable[..., Any]) -> Callable[..., Any]:
    RULES[function.__name__.rstrip("_")] = function
    return function


def bounded(value: Any, error: Any = None) -> Any:
    """Return a tensor as one that has an error, which is 0 where none is named."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return BoundedTensor(value, value, None)
    return BoundedTensor(
        value, value.double(), torch.zeros(value.shape, dtype=torch.float64) if error is None else error
    )


def over(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, BoundedTensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        return type(value)(over(each, function) for each in value)
    if isinstance(value, dict):
        return {name: over(each, function) for name, each in value.items()}
    return value


def low(value: Any) -> Any:
    return over(value, lambda each: each.low)


class BoundedTensor:
    """A tensor `low`, its reference `high` in float64, and what right results may differ by."""

    __slots__ = ("error", "high", "low")

    def __init__(self, low: Any, high: Any, error: Any):
        self.low, self.high, self.error = low, high, error

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, arguments: Any = (), named: Any = None) -> Any:
        return apply(function.__name__, function, arguments, named or {})

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "device"):
            return getattr(self.low, name)
        method = getattr(torch.Tensor, name)
        return lambda *arguments, **named: apply(name, method, (self, *arguments), named)

    @property
    def T(self) -> Any:
        return self.permute(*reversed(range(self.ndim)))

    mT = property(lambda self: self.transpose(-1, -2))

    def size(self, axis: int) -> int:
        return self.low.size(axis)

    def numel(self) -> int:
        return self.low.numel()

    def dim(self) -> int:
        return self.low.dim()

    def __getitem__(self, index: Any) -> Any:
        return apply("getitem", lambda tensor, place: tensor[place], (self, index), {})


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    function = getattr(torch, name)
    if swapped:
        return lambda self, other: apply(name, lambda a, b: function(torch.as_tensor(a), b), (other, self), {})
    return lambda self, other: apply(name, function, (self, other), {})


for _sign, _name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
                     "eq": "eq", "ne": "ne", "matmul": "matmul", "pow": "pow"}.items():  # fmt: skip
    setattr(BoundedTensor, f"__{_sign}__", _operator(_name))
BoundedTensor.__radd__ = BoundedTensor.__add__  # type: ignore[attr-defined]
BoundedTensor.__rmul__ = BoundedTensor.__mul__  # type: ignore[attr-defined]
BoundedTensor.__rsub__ = lambda self, other: -self + other  # type: ignore[attr-defined]
BoundedTensor.__neg__ = lambda self: apply("neg", torch.neg, (self,), {})  # type: ignore[attr-defined]
BoundedTensor.__invert__ = lambda self: apply("logical_not", torch.logical_not, (self,), {})  # type: ignore[attr-defined]


def apply(name: str, function: Callable[..., Any], arguments: Any, named: dict[str, Any]) -> Any:
    """Run a function of torch on bounded tensors by the rule for its name."""
    name = name.strip("_")
    if name in RULES:
        return RULES[name](*arguments, **named)
    plain = function(*low(arguments), **low(named))
    tensors = [each for each in [*arguments, *named.values()] if isinstance(each, BoundedTensor)]
    if name in MOVING or name == "getitem":
        return moved(plain, function, arguments, named)
    if name in JOINING:
        return joined(plain, function, arguments, named)
    if all(each.error is None for each in tensors) and not plain.is_floating_point():
        return bounded(plain)
    if name in COMPARE or name in ("logical_not", "logical_and", "logical_or", "isnan"):
        return compared(name, plain, arguments)
    if name in UNARY or name in BINARY:
        return elementwise(name, plain, arguments, named)
    raise NoRule(name)


def moved(plain: Any, function: Any, arguments: Any, named: Any) -> Any:
    if not plain.is_floating_point():
        return bounded(plain)
    parts = [function(*over(arguments, pick), **over(named, pick))
             for pick in (lambda each: each.low if each.error is None else each.high, lambda each: each.low if each.error is None else each.error)]  # fmt: skip
    return BoundedTensor(plain, *parts)


def joined(plain: Any, function: Any, arguments: Any, named: Any) -> Any:
    if not plain.is_floating_point():
        return bounded(plain)
    parts = [convert(each, plain.dtype) for each in arguments[0]]
    rest = arguments[1:]
    return BoundedTensor(
        plain,
        function([each.high for each in parts], *rest, **named),
        function([each.error for each in parts], *rest, **named),
    )


def convert(value: Any, dtype: torch.dtype) -> BoundedTensor:
    """Return a value cast to a dtype of floats."""
    if not isinstance(value, BoundedTensor):
        number = torch.tensor(float(value), dtype=torch.float64)
        return BoundedTensor(number.to(dtype), number, (number.to(dtype).double() - number).abs())
    cast = value.low.to(dtype)
    if value.error is None:
        return BoundedTensor(cast, cast.double(), torch.zeros(cast.shape, dtype=torch.float64))
    if cast.dtype == value.low.dtype or cast.dtype == torch.float64:
        return BoundedTensor(cast, value.high, value.error)
    error = rounded(long(value.high), long(value.error), dtype, 1)
    error = np.where(long(value.error) == 0, np.abs(long(cast) - long(value.high)), error)
    return tensor(cast, long(value.high), error)


def long(value: torch.Tensor) -> Any:
    return value.detach().double().numpy().astype(LONG)


def tensor(plain: torch.Tensor, high: Any, error: Any) -> BoundedTensor:
    """Return a bounded tensor of parts in long double, with the rounding of the reference to float64."""
    high = np.broadcast_to(high, plain.shape)
    error = np.broadcast_to(error + np.abs(high) * LONG(2.0**-53), plain.shape)
    return BoundedTensor(plain, *(torch.from_numpy(np.array(part, np.float64)) for part in (high, error)))


def rounded(high: Any, error: Any, dtype: torch.dtype, roundings: float) -> Any:
    return bounds.rounded(high, error, NUMPY[dtype], roundings)


def elementwise(name: str, plain: torch.Tensor, arguments: Any, named: dict[str, Any]) -> BoundedTensor:
    if not plain.is_floating_point() or (named and name not in ("gelu", "leaky_relu", "elu")):
        raise NoRule(f"{name} with options")
    operands = [convert(each, plain.dtype) for each in arguments[: 1 if name in UNARY else 2]]
    values, errors = [long(each.high) for each in operands], [long(each.error) for each in operands]
    function = UNARY.get(name) or BINARY[name]
    high = function(*values)
    if name in LIPSCHITZ:
        spread = LONG(LIPSCHITZ[name]) * errors[0]
    else:
        bounds.refuse_jumps({"round": "rint"}.get(name, name), function, values, errors)
        spread = bounds.propagated(function, values, errors)
    if name in ("div", "reciprocal", "remainder", "fmod", "rsqrt"):
        spread = np.where((np.abs(values[-1]) <= errors[-1]) & (errors[-1] > 0), np.inf, spread)
    roundings = 0 if name in EXACT else 2 if name in CORRECT else bounds.ELEMENTARY + 8 * (name in ABSOLUTE)
    inner = bounds.unit_roundoff(NUMPY[plain.dtype])[1]
    return tensor(plain, high, rounded(high, spread + ABSOLUTE.get(name, 0) * LONG(inner), plain.dtype, roundings))


def compared(name: str, plain: torch.Tensor, arguments: Any) -> BoundedTensor:
    dtypes = [each.dtype for each in arguments if isinstance(each, BoundedTensor) and each.error is not None]
    operands = [convert(each, dtypes[0]) for each in arguments]
    function = (
        COMPARE.get(name)
        or {
            "logical_not": np.logical_not,
            "logical_and": np.logical_and,
            "logical_or": np.logical_or,
            "isnan": np.isnan,
        }[name]
    )
    bounds.same_at_corners(function, [long(each.high) for each in operands], [long(each.error) for each in operands])
    return bounded(plain)
