"""What the irregular language functions mean: reductions, shapes, contractions, normalisations, creation.

Each is ``name(b, …)`` with the Python signature that the frontend and the spellings call; `b` is the `Language`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import ceil, prod
from typing import Any

from mlirtri.dialect import promotion
from mlirtri.dialect.dtypes import DTYPES, DType, as_dtype
from mlirtri.errors import KernelTypeError, KernelValueError
from mlirtri.lowering.language import (
    Language,
    axes_of,
    axis_of,
    dtype_or_none,
    integer,
    integers,
    language,
)  # fmt: skip
from mlirtri.lowering.tri_builder import Tensor


def load() -> None:
    """Importing this module registers everything."""


# --- elementwise with a shape of their own -------------------------------------------------------------------------


@language
def cast(b: Language, x: Any, dtype: Any) -> Tensor:
    return b.tensor(x, as_dtype(dtype))


@language
def gelu(b: Language, x: Any, approximate: str = "none") -> Tensor:
    if approximate not in ("none", "tanh"):
        b.fail(f'gelu approximates by "none" or "tanh", not {approximate!r}')
    plan = promotion.result_dtypes(b.semantics, "gelu", [b.operand(x)])
    name = "gelu" if approximate == "none" else "gelu_tanh"
    return b.tri.cast(b.tri.emit(name, b.tensor(x, plan.compute[0])), plan.result)


@language
def softplus(b: Language, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return b.elementwise("softplus", x, beta=float(beta), threshold=float(threshold))


@language
def clip(b: Language, x: Any, low: Any, high: Any) -> Tensor:
    """minimum(maximum(x, low), high), in one dtype for all that are given."""
    given = [bound for bound in (x, low, high) if bound is not None]
    if len(given) < 2:
        b.fail("clip needs a lower or an upper bound")
    plan = promotion.result_dtypes(b.semantics, "clip", [b.operand(each) for each in given])
    dtypes = iter(plan.compute)
    result = b.tensor(x, next(dtypes))
    if low is not None:
        result = b.tri.maximum(result, b.tensor(low, next(dtypes)))
    if high is not None:
        result = b.tri.minimum(result, b.tensor(high, next(dtypes)))
    return b.tri.cast(result, plan.result)


@language
def sign(b: Language, x: Any) -> Tensor:
    """NumPy's sign of NaN is NaN, torch's is 0."""
    result = b.elementwise("sign", x)
    if b.semantics == "numpy" or not result.type.dtype.is_float:
        return result
    return b.tri.where(b.tri.isnan(result), b.tri.constant(0, result.type.dtype), result)


@language
def power(b: Language, x: Any, y: Any) -> Tensor:
    """Small constant exponents are what the libraries make of them: squares, roots, reciprocals."""
    result = promotion.result_dtypes(b.semantics, "power", [b.operand(x), b.operand(y)]).result
    if not isinstance(y, Tensor) and isinstance(x, Tensor):
        base = b.tensor(x, result)
        if y == 1:
            return base
        if y == 2:
            return b.tri.square(base)
        if y == 3:
            return b.tri.multiply(b.tri.square(base), base)
        if result.is_float and y == 0.5 and b.semantics == "torch" and result.name != "float16":
            return b.tri.sqrt(base)
        if result.is_float and y == -1:
            return b.tri.reciprocal(base)
    return b.elementwise("power", x, y)


# --- reductions ----------------------------------------------------------------------------------------------------


def _reduction(name: str):
    def reduce(b: Language, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
        return _reduced(b, name, x, axis, keepdims, dtype)

    reduce.__name__ = name
    return language(reduce)


def _reduced(b: Language, name: str, x: Any, axis: Any, keepdims: Any, dtype: Any = None, **attributes: Any) -> Tensor:
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x)], dtype_or_none(dtype))
    operand = b.tensor(x, plan.compute[0])
    axes = axes_of(axis, operand.type.rank)
    return b.tri.cast(b.tri.emit(name, operand, axes=axes, keepdims=bool(keepdims), **attributes), plan.result)


for _name in ("sum", "prod", "max", "min", "mean", "any", "all"):
    _reduction(_name)


@language
def var(b: Language, x: Any, axis: Any = None, keepdims: bool = False, correction: int = 0) -> Tensor:
    return _reduced(b, "var", x, axis, keepdims, correction=integer(correction, "correction"))


@language
def std(b: Language, x: Any, axis: Any = None, keepdims: bool = False, correction: int = 0) -> Tensor:
    return _reduced(b, "std", x, axis, keepdims, correction=integer(correction, "correction"))


@language
def argmax(b: Language, x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return _reduced(b, "argmax", x, axis, keepdims)


@language
def argmin(b: Language, x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return _reduced(b, "argmin", x, axis, keepdims)


# --- normalisations ------------------------------------------------------------------------------------------------


def _over_axis(b: Language, name: str, x: Any, axis: Any) -> Tensor:
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x)])
    operand = b.tensor(x, plan.compute[0])
    axis = axis_of(axis, max(1, operand.type.rank))
    return b.tri.cast(b.tri.emit(name, operand, axis=axis), plan.result)


@language
def softmax(b: Language, x: Any, axis: Any) -> Tensor:
    return _over_axis(b, "softmax", x, axis)


@language
def log_softmax(b: Language, x: Any, axis: Any) -> Tensor:
    return _over_axis(b, "log_softmax", x, axis)


def _normalized(b: Language, name: str, x: Any, count: Any, parameters: Sequence[Any], eps: Any) -> Tensor:
    operands = [x, *parameters]
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(each) for each in operands])
    tensors = [b.tensor(each, dtype) for each, dtype in zip(operands, plan.compute, strict=True)]
    if isinstance(eps, Tensor):
        b.fail("eps has to be a number known at compile time")
    count = integer(count, "the number of normalised axes")
    return b.tri.cast(b.tri.emit(name, *tensors, normalized=count, eps=float(eps)), plan.result)


@language
def layer_norm(b, x, normalized_axes=1, weight=None, bias=None, eps=1e-5) -> Tensor:
    if weight is None and bias is not None:
        shape = b.type_of(bias).shape
        weight = full(b, shape, 1.0, b.type_of(bias).dtype)
    parameters = [each for each in (weight, bias) if each is not None]
    return _normalized(b, "layer_norm", x, normalized_axes, parameters, eps)


@language
def rms_norm(b, x, normalized_axes=1, weight=None, eps=None) -> Tensor:
    if eps is None:
        # torch's default: the smallest increment at 1 of the input's dtype.
        bits = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
        eps = 2.0 ** -bits.get(b.type_of(x).dtype.name if b.type_of(x) else "float32", 23)
    return _normalized(b, "rms_norm", x, normalized_axes, [] if weight is None else [weight], eps)


# --- contractions --------------------------------------------------------------------------------------------------


@language
def matmul(b: Language, x: Any, y: Any) -> Tensor:
    """`numpy.matmul`: a vector is a row on the left and a column on the right, and that axis is dropped again."""
    return _product(b, "matmul", x, y)


def _product(b: Language, name: str, x: Any, y: Any) -> Tensor:
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x), b.operand(y)])
    x, y = (b.tensor(each, dtype) for each, dtype in zip((x, y), plan.compute, strict=True))
    if x.type.rank == 0 or y.type.rank == 0:
        raise KernelTypeError(f"matmul takes no scalars: got {x.type} and {y.type}", help="use * to scale")
    left = x if x.type.rank > 1 else reshape(b, x, (1, *x.type.shape))
    right = y if y.type.rank > 1 else reshape(b, y, (*y.type.shape, 1))
    if left.type.shape[-1] != right.type.shape[-2]:
        raise KernelTypeError(
            f"matmul of {x.type} and {y.type}: the inner sizes {left.type.shape[-1]} and {right.type.shape[-2]} differ"
        )
    product = _truth(b, left, right) if left.type.dtype.is_bool else b.tri.matmul(left, right)
    shape = list(product.type.shape)
    if y.type.rank == 1:
        del shape[-1]
    if x.type.rank == 1:
        del shape[-1 if y.type.rank == 1 else -2]
    return b.tri.cast(reshape(b, product, shape), plan.result)


def _truth(b: Language, x: Tensor, y: Tensor) -> Tensor:
    """NumPy's matmul of bools: whether any pair is true, counted in int64."""
    wide = DTYPES["int64"]
    return b.tri.cast(b.tri.matmul(b.tri.cast(x, wide), b.tri.cast(y, wide)), DTYPES["bool"])


@language
def dot(b: Language, x: Any, y: Any) -> Tensor:
    """`numpy.dot`: multiplies by a scalar, else contracts x's last axis with y's last but one (or only) axis."""
    ranks = [b.type_of(each).rank if b.type_of(each) else 0 for each in (x, y)]
    if 0 in ranks:
        return b.multiply(x, y)
    if ranks[1] <= 2 or b.semantics == "torch":
        return _product(b, "dot", x, y)
    # y's batch axes do not pair with x's: they come after x's axes in the result.
    rows, inner = b.type_of(x).shape[:-1], b.type_of(x).shape[-1]
    last = b.type_of(y)
    moved = b.tri.transpose(y, permutation=(last.rank - 2, *range(last.rank - 2), last.rank - 1))
    if moved.type.shape[0] != inner:
        raise KernelTypeError(f"dot of {b.type_of(x)} and {last}: the inner sizes {inner} and {moved.type.shape[0]} differ")
    flat = _product(b, "dot", reshape(b, x, (prod(rows), inner)), reshape(b, moved, (inner, prod(moved.type.shape[1:]))))
    return reshape(b, flat, (*rows, *moved.type.shape[1:]))


# --- shapes --------------------------------------------------------------------------------------------------------


@language
def reshape(b: Language, x: Any, shape: Any) -> Tensor:
    x, shape = b.tensor(x), list(integers(shape, "a size"))
    if shape.count(-1) > 1:
        raise KernelValueError(f"only one size of {tuple(shape)} can be -1")
    if -1 in shape:
        known = prod(size for size in shape if size != -1)
        if known == 0 or x.type.size % known:
            raise KernelValueError(f"{x.type} with {x.type.size} elements does not reshape to {tuple(shape)}")
        shape[shape.index(-1)] = x.type.size // known
    return x if tuple(shape) == x.type.shape else b.tri.reshape(x, shape=tuple(shape))


@language
def transpose(b: Language, x: Any, axes: Any = None) -> Tensor:
    x = b.tensor(x)
    rank = x.type.rank
    if axes is None:
        permutation = tuple(reversed(range(rank)))
    else:
        permutation = tuple(axis_of(axis, rank) for axis in integers(axes, "axis"))
    if sorted(permutation) != list(range(rank)):
        raise KernelValueError(f"axes {axes} are not a permutation of the {rank} axes of {x.type}")
    return x if permutation == tuple(range(rank)) else b.tri.transpose(x, permutation=permutation)


@language
def broadcast_to(b: Language, x: Any, shape: Any) -> Tensor:
    x, shape = b.tensor(x), integers(shape, "a size")
    return x if shape == x.type.shape else b.tri.broadcast_to(x, shape=shape)


@language
def squeeze(b: Language, x: Any, axis: Any = None) -> Tensor:
    x = b.tensor(x)
    shape = x.type.shape
    axes = [i for i, size in enumerate(shape) if size == 1] if axis is None else axes_of(axis, len(shape))
    wrong = [i for i in axes if shape[i] != 1]
    if wrong and b.semantics == "numpy":
        raise KernelValueError(f"axis {wrong[0]} of {x.type} has size {shape[wrong[0]]}, not 1, and cannot be squeezed")
    return reshape(b, x, [size for i, size in enumerate(shape) if i not in axes or size != 1])


@language
def unsqueeze(b: Language, x: Any, axis: Any) -> Tensor:
    """A new axis (or several) of size 1, counted in the result."""
    x = b.tensor(x)
    axes = integers(axis, "axis")
    rank = x.type.rank + len(axes)
    new = sorted(axis_of(each, rank) for each in axes)
    if len(set(new)) != len(new):
        raise KernelValueError(f"an axis stands twice in {axis}")
    sizes = iter(x.type.shape)
    return reshape(b, x, [1 if i in new else next(sizes) for i in range(rank)])


def _common(b: Language, name: str, xs: Any) -> list[Tensor]:
    if not isinstance(xs, (tuple, list)) or not xs:
        b.fail(f"{name} takes a tuple or list of at least one tensor")
    plan = promotion.result_dtypes(b.semantics, name, [b.operand(x) for x in xs])
    return [b.tensor(x, plan.result) for x in xs]


@language
def concatenate(b: Language, xs: Any, axis: Any = 0) -> Tensor:
    tensors = _common(b, "concatenate", xs)
    if axis is None:
        tensors, axis = [reshape(b, x, (-1,) if x.type.size else (0,)) for x in tensors], 0
    if tensors[0].type.rank == 0:
        raise KernelTypeError("scalars do not concatenate", help="use stack")
    axis = axis_of(axis, tensors[0].type.rank)
    return reduce(lambda joined, part: b.tri.concatenate(joined, part, axis=axis), tensors)


@language
def stack(b: Language, xs: Any, axis: Any = 0) -> Tensor:
    tensors = _common(b, "stack", xs)
    shapes = {x.type.shape for x in tensors}
    if len(shapes) > 1:
        raise KernelTypeError(f"stack takes tensors of one shape, got {', '.join(str(x.type) for x in tensors)}")
    axis = axis_of(axis, tensors[0].type.rank + 1)
    return concatenate(b, [unsqueeze(b, x, axis) for x in tensors], axis)


@language
def split(b: Language, x: Any, sections_or_indices: Any, axis: Any = 0) -> tuple[Tensor, ...]:
    """`numpy.split`: a number of equal parts, or the positions to cut at."""
    x = b.tensor(x)
    axis = axis_of(axis, x.type.rank)
    size = x.type.shape[axis]
    if isinstance(sections_or_indices, (tuple, list)):
        cuts = [min(max(cut + size if cut < 0 else cut, 0), size) for cut in integers(sections_or_indices, "a cut")]
    else:
        parts = integer(sections_or_indices, "the number of parts")
        if parts < 1 or size % parts:
            raise KernelValueError(f"axis {axis} of {x.type} does not split into {parts} equal parts")
        cuts = [size // parts * i for i in range(1, parts)]
    return tuple(
        slice_axis(b, x, axis, start, max(start, stop)) for start, stop in zip([0, *cuts], [*cuts, size], strict=True)
    )


def slice_axis(b: Language, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """x[..., start:stop, ...] along one axis."""
    return strided(b, x, [range(start, stop) if i == axis else range(n) for i, n in enumerate(x.type.shape)])


def strided(b: Language, x: Tensor, ranges: Sequence[range]) -> Tensor:
    """The elements at these positions of each axis; a negative step is a slice that is flipped."""
    backwards = tuple(axis for axis, r in enumerate(ranges) if r.step < 0 and len(r))
    forward = [r[::-1] if axis in backwards else r for axis, r in enumerate(ranges)]
    if any(tuple(r) != tuple(range(n)) for r, n in zip(forward, x.type.shape, strict=True)):
        x = b.tri.slice(
            x,
            offsets=tuple(r[0] if len(r) else 0 for r in forward),
            sizes=tuple(len(r) for r in forward),
            strides=tuple(abs(r.step) if len(r) > 1 else 1 for r in forward),
        )
    return b.tri.flip(x, axes=backwards) if backwards else x


@language
def flip(b: Language, x: Any, axis: Any = None) -> Tensor:
    x = b.tensor(x)
    axes = axes_of(axis, x.type.rank)
    return b.tri.flip(x, axes=axes) if axes else x


# --- creation ------------------------------------------------------------------------------------------------------


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = integers(shape, "a size")
    if any(size < 0 for size in sizes):
        raise KernelValueError(f"negative size in shape {sizes}")
    return sizes


@language
def full(b: Language, shape: Any, value: Any, dtype: Any = None) -> Tensor:
    sizes, dtype = _sizes(shape), dtype_or_none(dtype)
    if isinstance(value, Tensor):
        return broadcast_to(b, b.tensor(value, dtype), sizes)
    dtype = dtype or promotion.default_dtype(b.semantics, b.operand(value).weak)
    return b.tri.constant(int(value) if dtype.is_integer else value, dtype, sizes)


@language
def empty(b: Language, shape: Any, dtype: Any) -> Tensor:
    return full(b, shape, 0, as_dtype(dtype))


@language
def arange(b: Language, start: Any, stop: Any, step: Any, dtype: Any) -> Tensor:
    for each in (start, stop, step):
        if isinstance(each, Tensor):
            b.fail("arange takes numbers known at compile time, since they decide its size")
    if step == 0:
        raise KernelValueError("the step of arange is 0")
    return b.tri.arange(start=start, step=step, size=max(0, ceil((stop - start) / step)), dtype=_name(dtype))


def _name(dtype: Any) -> str:
    found: DType = as_dtype(dtype)
    return found.name


@language
def eye(b: Language, n: Any, m: Any, k: Any, dtype: Any) -> Tensor:
    rows = integer(n, "a size")
    return b.tri.eye(
        rows=rows, columns=rows if m is None else integer(m, "a size"), diagonal=integer(k, "k"), dtype=_name(dtype)
    )
