"""Language functions, each ``name(b, …)``: reductions, normalisations, contractions, convolutions, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.builder import TensorLike, TriValue
from mlirtri.dialect.promotion import dtype_rules as promotion
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.frontend.semantics.axes import AxesLike, axes_of, axis_of, integer, integers
from mlirtri.lowering.frontend.semantics.builder import Language, dtype_or_none, language
from mlirtri.lowering.frontend.semantics.complex_numbers import integer_power, known_exponent
from mlirtri.lowering.frontend.semantics.dynamic_sizes import common_size, cut
from mlirtri.lowering.frontend.semantics.index_checks import check_integer
from mlirtri.lowering.frontend.semantics.shapes import full, reshape


@language
def cast(b: Language, x: TensorLike, dtype: object) -> TriValue:
    """Return x cast to a dtype. Complex to real is refused here: `spellings.base.helpers.converted` does that."""
    dtype = as_dtype(dtype)
    if isinstance(x, TriValue) and x.type.dtype.is_complex and not (dtype.is_complex or dtype.is_bool):
        b.fail(f"this does not take complex numbers: got {x.type}", help="take the real part first, with x.real")
    return b.tensor(x, dtype)


@language
def gelu(b: Language, x: TensorLike, approximate: str = "none") -> TriValue:
    if approximate not in ("none", "tanh"):
        b.fail(f'gelu approximates by "none" or "tanh", not {approximate!r}')
    plan = promotion.result_dtypes(b.semantics, "gelu", [b.operand(x)])
    name = "gelu" if approximate == "none" else "gelu_tanh"
    return b.tri.cast(b.tri.emit(name, b.tensor(x, plan.compute[0])), plan.result)


@language
def softplus(b: Language, x: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> TriValue:
    return b.elementwise("softplus", x, beta=float(beta), threshold=float(threshold))


@language
def clip(b: Language, x: TensorLike, low: TensorLike, high: TensorLike) -> TriValue:
    """Return x, or the bound where it is past one, in the common dtype of the given operands."""
    operands = [bound for bound in (x, low, high) if bound is not None]
    if len(operands) < 2:
        b.fail("clip needs a lower or an upper bound")
    plan = promotion.result_dtypes(b.semantics, "clip", [b.operand(operand) for operand in operands])
    dtypes = iter(plan.compute)
    result = b.tensor(x, next(dtypes))
    if low is not None:
        result = _bounded(b, "maximum", result, low, next(dtypes))
    if high is not None:
        result = _bounded(b, "minimum", result, high, next(dtypes))
    return b.tri.cast(result, plan.result)


def _bounded(b: Language, name: str, x: TriValue, bound: TensorLike, dtype: DType) -> TriValue:
    """Return the maximum or minimum of x and a bound; of floats x where it equals a known one, so that -0.0 stays."""
    if isinstance(bound, TriValue) and bound.weak and bound.type.dtype.is_integer and dtype.is_integer:
        # A Python int past the dtype bounds nothing, as in NumPy, or raises.
        check_integer(b, bound, dtype, name)
        return b.tri.cast(b.tri.emit(name, b.tri.cast(x, DTYPES["int64"]), b.tri.cast(bound, DTYPES["int64"])), dtype)
    limit = b.tensor(bound, dtype)
    if isinstance(bound, TriValue) or bound != bound or not x.type.dtype.is_float:
        return b.tri.emit(name, x, limit)
    is_past = b.tri.less(x, limit) if name == "maximum" else b.tri.greater(x, limit)
    return b.tri.where(is_past, limit, x)


@language
def sign(b: Language, x: TensorLike) -> TriValue:
    """Return the sign; NumPy's sign of NaN is NaN, torch's is 0."""
    result = b.elementwise("sign", x)
    if b.semantics == "numpy" or not result.type.dtype.is_float:
        return result
    return b.tri.where(b.tri.isnan(result), b.tri.constant(0, result.type.dtype), result)


@language
def power(b: Language, x: TensorLike, y: TensorLike) -> TriValue:
    """Return x to the y; small constant exponents become squares, roots or reciprocals, as in the libraries."""
    result = promotion.result_dtypes(b.semantics, "power", [b.operand(x), b.operand(y)]).result
    if not isinstance(y, TriValue) and isinstance(x, TriValue):
        base = b.tensor(x, result)
        if result.is_complex and (exponent := known_exponent(y)) is not None:
            return integer_power(b, base, exponent)
        if y == 1:
            return base
        if y == 2:
            return b.tri.square(base)
        if y == 3:
            return b.tri.multiply(b.tri.square(base), base)
        if result.is_inexact and y == 0.5 and b.semantics == "torch" and result.name != "float16":
            return b.tri.sqrt(base)
        if result.is_float and y == -1:
            return b.tri.reciprocal(base)
    return b.elementwise("power", x, y)


def _reduction(name: str):
    def reduce(b: Language, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> TriValue:
        return _reduced(b, name, x, axis, keepdims, dtype)

    reduce.__name__ = name
    return language(reduce)


def _reduced(
    b: Language, name: str, x: Any, axis: Any, keepdims: Any, dtype: Any = None, **attributes: Any
) -> TriValue:
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x)], dtype_or_none(dtype))
    operand = b.tensor(x, plan.compute[0])
    axes = axes_of(axis, operand.type.rank)
    if name in _WITHOUT_IDENTITY:
        _require_elements(b, operand, axes)
    return b.tri.cast(b.tri.emit(name, operand, axes=axes, keepdims=bool(keepdims), **attributes), plan.result)


_WITHOUT_IDENTITY = ("max", "min", "argmax", "argmin")
"""Reductions that have no value for no elements."""


def _require_elements(b: Language, x: TriValue, axes: Sequence[int]) -> None:
    """Raise if a reduced axis of a size known at run time only is empty: at the call, where arguments' sizes decide."""
    for axis in axes:
        size = x.type.shape[axis]
        if is_dynamic(size) and not (size.least() or 0) > 0:
            message = f"a reduction of {x.type} over axis {axis} has no elements and no identity"
            b.check(b.tri.equal(b.tri.index(size), b.tri.index(0)), KernelValueError, message)


for _name in ("sum", "prod", "max", "min", "mean", "any", "all", "argmax", "argmin"):
    _reduction(_name)


@language
def var(b: Language, x: TensorLike, axis: AxesLike = None, keepdims: bool = False, correction: int = 0) -> TriValue:
    return _reduced(b, "var", x, axis, keepdims, correction=integer(correction, "correction"))


@language
def std(b: Language, x: TensorLike, axis: AxesLike = None, keepdims: bool = False, correction: int = 0) -> TriValue:
    return _reduced(b, "std", x, axis, keepdims, correction=integer(correction, "correction"))


def _over_axis(b: Language, name: str, x: Any, axis: Any) -> TriValue:
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x)])
    operand = b.tensor(x, plan.compute[0])
    axis = axis_of(axis, max(1, operand.type.rank))
    return b.tri.cast(b.tri.emit(name, operand, axis=axis), plan.result)


@language
def softmax(b: Language, x: TensorLike, axis: int) -> TriValue:
    return _over_axis(b, "softmax", x, axis)


@language
def log_softmax(b: Language, x: TensorLike, axis: int) -> TriValue:
    return _over_axis(b, "log_softmax", x, axis)


def _normalized(b: Language, name: str, x: Any, count: Any, parameters: Sequence[Any], eps: Any) -> TriValue:
    operands = [x, *parameters]
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(operand) for operand in operands])
    tensors = [b.tensor(operand, dtype) for operand, dtype in zip(operands, plan.compute, strict=True)]
    if isinstance(eps, TriValue):
        b.fail("eps has to be a number known at compile time")
    count = integer(count, "the number of normalised axes")
    return b.tri.cast(b.tri.emit(name, *tensors, normalized=count, eps=float(eps)), plan.result)


@language
def layer_norm(
    b: Language,
    x: TensorLike,
    normalized_axes: int = 1,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> TriValue:
    if weight is None and bias is not None:
        shape = b.type_of(bias).shape
        weight = full(b, shape, 1.0, b.type_of(bias).dtype)
    parameters = [parameter for parameter in (weight, bias) if parameter is not None]
    return _normalized(b, "layer_norm", x, normalized_axes, parameters, eps)


@language
def rms_norm(
    b: Language, x: TensorLike, normalized_axes: int = 1, weight: TensorLike | None = None, eps: float | None = None
) -> TriValue:
    if eps is None:
        # torch's default: the machine epsilon of the input's dtype.
        tensor_type = b.type_of(x)
        eps = (tensor_type.dtype if tensor_type and tensor_type.dtype.is_float else DTYPES["float32"]).epsilon
    return _normalized(b, "rms_norm", x, normalized_axes, [] if weight is None else [weight], eps)


@language
def matmul(b: Language, x: TensorLike, y: TensorLike) -> TriValue:
    """Return `numpy.matmul`: a vector is a row on the left and a column on the right; that axis is dropped again."""
    return _product(b, "matmul", x, y)


def _product(b: Language, name: str, x: Any, y: Any) -> TriValue:
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x), b.operand(y)])
    x, y = (b.tensor(operand, dtype) for operand, dtype in zip((x, y), plan.compute, strict=True))
    if x.type.rank == 0 or y.type.rank == 0:
        raise KernelTypeError(f"matmul takes no scalars: got {x.type} and {y.type}", help="use * to scale")
    left = x if x.type.rank > 1 else reshape(b, x, (1, *x.type.shape))
    right = y if y.type.rank > 1 else reshape(b, y, (*y.type.shape, 1))
    inner = [left.type.shape[-1], right.type.shape[-2]]
    if any(map(is_dynamic, inner)) and inner[0] != inner[1]:
        common = common_size(b, inner)
        left, right = cut(b, left, left.type.rank - 1, common), cut(b, right, right.type.rank - 2, common)
    elif inner[0] != inner[1]:
        raise KernelTypeError(f"matmul of {x.type} and {y.type}: the inner sizes {inner[0]} and {inner[1]} differ")
    product = _boolean_product(b, left, right) if left.type.dtype.is_bool else b.tri.matmul(left, right)
    shape = list(product.type.shape)
    if y.type.rank == 1:
        del shape[-1]
    if x.type.rank == 1:
        del shape[-1 if y.type.rank == 1 else -2]
    return b.tri.cast(reshape(b, product, shape), plan.result)


def _boolean_product(b: Language, x: TriValue, y: TriValue) -> TriValue:
    wide = DTYPES["int64"]
    return b.tri.cast(b.tri.matmul(b.tri.cast(x, wide), b.tri.cast(y, wide)), DTYPES["bool"])


@language
def dot(b: Language, x: TensorLike, y: TensorLike) -> TriValue:
    """Return `numpy.dot`: multiply by a scalar, else contract x's last axis with y's second-last (or only) axis."""
    ranks = [b.type_of(operand).rank if b.type_of(operand) else 0 for operand in (x, y)]
    if 0 in ranks:
        return b.multiply(x, y)
    if ranks[1] <= 2 or b.semantics == "torch":
        return _product(b, "dot", x, y)
    # y's batch axes do not pair with x's: they come after x's axes in the result.
    rows, inner = b.type_of(x).shape[:-1], b.type_of(x).shape[-1]
    last = b.type_of(y)
    moved = b.tri.transpose(y, permutation=(last.rank - 2, *range(last.rank - 2), last.rank - 1))
    if moved.type.shape[0] != inner:
        raise KernelTypeError(
            f"dot of {b.type_of(x)} and {last}: the inner sizes {inner} and {moved.type.shape[0]} differ"
        )
    flat = _product(
        b, "dot", reshape(b, x, (prod(rows), inner)), reshape(b, moved, (inner, prod(moved.type.shape[1:])))
    )
    return reshape(b, flat, (*rows, *moved.type.shape[1:]))


@language
def convolution(
    b: Language, x: TensorLike, w: TensorLike, strides: Sequence[int], dilations: Sequence[int], low: Sequence[int],
    high: Sequence[int], spread: Sequence[int], groups: int,
) -> TriValue:  # fmt: skip
    """Return the sums of products of `w` with windows of `x`, padded and with ``spread - 1`` zeros between elements."""
    plan = promotion.result_dtypes(b.semantics, "matmul", [b.operand(x), b.operand(w)])
    x, w = (b.tensor(operand, dtype) for operand, dtype in zip((x, w), plan.compute, strict=True))
    numbers = {"strides": strides, "dilations": dilations, "low": low, "high": high, "spread": spread}
    numbers = {name: integers(tuple(value), name) for name, value in numbers.items()}
    return b.tri.cast(b.tri.convolution(x, w, **numbers, groups=integer(groups, "groups")), plan.result)


@language
def pool(
    b: Language, x: TensorLike, kind: str, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> TriValue:
    """Return the maxima, minima or sums of windows along the last axes, in the tensor's own dtype."""
    numbers = {"window": window, "strides": strides, "dilations": dilations}
    return b.tri.pool(b.tensor(x), kind=kind, **{name: integers(tuple(value), name) for name, value in numbers.items()})
