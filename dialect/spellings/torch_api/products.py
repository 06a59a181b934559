"""The functions of `torch` and `torch.linalg` for products and norms, and those composed of elementwise ones."""

from __future__ import annotations

from math import pi

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.dialect.spellings.base import contraction, helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, register, spelling, unsupported
from mlirtri.dialect.spellings.base.tensor_products import cross, einsum, kron, subscripts_of, tensordot
from mlirtri.dialect.spellings.numpy_api.composed_functions import numbers_of, within
from mlirtri.dialect.spellings.numpy_api.linear_algebra import vector_norm


@spelling("torch.einsum", ops=contraction.OPS)
def _(b, equation, *operands):
    if isinstance(equation, str):
        return einsum(b, equation, list(helpers.sizes(operands)))
    return einsum(b, *subscripts_of(b, (equation, *operands)))


@spelling("torch.tensordot", ops=contraction.OPS)
def _(builder, a, b, dims=2, out=unsupported()):
    return tensordot(builder, a, b, dims)


register("torch.kron", lambda b, input, other, *, out=unsupported(): kron(b, input, other), "multiply reshape")


@spelling("torch.linalg.cross", ops="cut squeeze multiply subtract stack")
def _(b, input, other, *, dim=-1, out=unsupported()):
    return _space_cross(b, input, other, dim)


@spelling("torch.cross", ops="cut squeeze multiply subtract stack")
def _(b, input, other, dim=None, *, out=unsupported()):
    if dim is None:
        shape = helpers.shape_of(b, input)
        if 3 not in shape:
            b.fail(f"torch.cross needs a dimension of size 3, and {b.type_of(input)} has none")
        dim = shape.index(3)
    return _space_cross(b, input, other, dim)


def _space_cross(b: Builder, x: Value, y: Value, dim: Argument) -> Value:
    parts = []
    for vector in (x, y):
        axis = helpers.one_axis(b, dim, helpers.rank_of(b, vector))
        if helpers.shape_of(b, vector)[axis] != 3:
            b.fail(f"a cross product is of vectors of 3 numbers: dimension {dim} of {b.type_of(vector)}")
        parts.append([b.squeeze(b.cut(vector, axis, slice(index, index + 1)), axis) for index in range(3)])
    return cross(b, parts[0], parts[1], helpers.one_axis(b, dim, helpers.rank_of(b, x)))


# --- norms ---------------------------------------------------------------------------------------------------------

NORM = "abs square sum sqrt max min not_equal power cast"


def _norm(b: Builder, x: Value, order: Argument, dim: Argument, keepdim: Argument, dtype: Argument) -> Value:
    x = x if dtype is None else b.cast(x, as_dtype(dtype))
    if not (kind := helpers.dtype_of(b, "a norm", x)).is_float and kind.kind != "c":
        b.fail(f"a norm is of floats, not {kind}", help="cast with .to(dtype)")
    rank = helpers.rank_of(b, x)
    axes = None if dim is None else helpers.many_axes(b, dim, max(rank, 1))
    axis = axes if rank else None
    # torch adds the powers of halves in fp32 and rounds once.
    size = b.abs(b.cast(x, as_dtype("float32")) if kind.is_float and kind.is_half else x)
    norm = vector_norm(b, size, order, axis, keepdim)
    return b.cast(norm, kind) if kind.is_float and kind.is_half else norm


@spelling("torch.linalg.vector_norm", ops=NORM)
def _(b, x, ord=2, dim=None, keepdim=False, *, dtype=None, out=unsupported()):
    return _norm(b, x, ord, dim, keepdim, dtype)


@spelling("torch.norm Tensor.norm", ops=NORM)
def _(b, input, p="fro", dim=None, keepdim=False, out=unsupported(), dtype=None):
    if isinstance(p, str) and p != "fro":
        b.fail(f"torch.norm of order {p!r} needs singular values", help="orders that are numbers, and 'fro'")
    return _norm(b, input, 2 if p in ("fro", None) else p, dim, keepdim, dtype)


@spelling("torch.linalg.norm", ops=NORM)
def _(b, A, ord=None, dim=None, keepdim=False, *, out=unsupported(), dtype=None):
    axes = helpers.rank_of(b, A) if dim is None else len(helpers.as_tuple(dim))
    if ord is not None and axes != 1 and ord != "fro":
        b.fail(f"torch.linalg.norm of order {ord!r} of matrices is not supported", help="torch.linalg.vector_norm")
    return _norm(b, A, 2 if ord in (None, "fro") else ord, dim, keepdim, dtype)


# --- elementwise ---------------------------------------------------------------------------------------------------


def _scaled(factor: float):
    def function(b, input, *, out=unsupported()):
        kind = helpers.dtype_of(b, "an angle", input)
        kind = kind if kind.is_float else as_dtype("float32")
        # The factor is no half: torch multiplies in fp32 and rounds once.
        wide = as_dtype("float32") if kind.is_half else kind
        return b.cast(b.multiply(b.cast(input, wide), factor), kind)

    return function


register("torch.deg2rad Tensor.deg2rad", _scaled(pi / 180), "multiply cast")
register("torch.rad2deg Tensor.rad2deg", _scaled(180 / pi), "multiply cast")


@spelling("torch.nan_to_num Tensor.nan_to_num", ops="isnan equal where cast")
def _(b, input, nan=0.0, posinf=None, neginf=None, *, out=unsupported()):
    return numbers_of(b, input, nan, posinf, neginf)


CLOSE = "subtract abs multiply add less_equal isfinite logical_and logical_or equal isnan"


def _close(b: Builder, x: Value, y: Value, rtol: Value, atol: Value, equal_nan: Argument) -> Value:
    if helpers.dtype_of(b, "torch.isclose", x) != helpers.dtype_of(b, "torch.isclose", y):
        b.fail(f"torch.isclose takes tensors of one dtype, not {b.type_of(x)} and {b.type_of(y)}")
    return within(b, x, y, b.add(b.abs(b.multiply(y, rtol)), atol), equal_nan)


@spelling("torch.isclose Tensor.isclose", ops=CLOSE)
def _(b, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return _close(b, input, other, rtol, atol, equal_nan)


@spelling("torch.allclose Tensor.allclose", ops=f"all {CLOSE}")
def _(b, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return b.python_scalar(b.all(_close(b, input, other, rtol, atol, equal_nan), axis=None, keepdims=False))


@spelling("torch.nansum Tensor.nansum", ops="sum isnan where cast")
def _(b, input, dim=None, keepdim=False, *, dtype=None):
    return b.sum(_without_nan(b, input), axis=dim, keepdims=keepdim, dtype=None if dtype is None else as_dtype(dtype))


def _without_nan(b: Builder, x: Value) -> Value:
    kind = helpers.dtype_of(b, "a sum without NaN", x)
    return b.where(b.isnan(x), b.cast(0, kind), x) if kind.is_float else x


@spelling("torch.nanmean Tensor.nanmean", ops="sum isnan where cast divide logical_not")
def _(b, input, dim=None, keepdim=False, *, dtype=None, out=unsupported()):
    x = input if dtype is None else b.cast(input, as_dtype(dtype))
    count = b.sum(b.logical_not(b.isnan(x)), axis=dim, keepdims=keepdim)
    return b.divide(b.sum(_without_nan(b, x), axis=dim, keepdims=keepdim), b.cast(count, b.type_of(x).dtype))
