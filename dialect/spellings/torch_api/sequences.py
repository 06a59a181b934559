"""The functions of `torch` for scans, sorts, searches and counting, with torch's signatures."""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.positions import elements_along
from mlirtri.dialect.spellings.numpy_api.sequences import BINCOUNT, counted, differences
from mlirtri.dialect.spellings.torch_api.elementwise import ValuesAndIndices

FLOAT64, INT32, INT64 = DTYPES["float64"], DTYPES["int32"], DTYPES["int64"]


def _dimension(b: Builder, x: Value, dim: Argument) -> int:
    """Return a dimension counted from the front: a rank-0 tensor has one, as if it were a vector of one element."""
    return helpers.one_axis(b, dim, max(helpers.rank_of(b, x), 1))


def _as_vector(b: Builder, x: Value) -> Value:
    return x if helpers.rank_of(b, x) else b.reshape(x, (1,))


def _running(kind: str):
    def function(b, input, dim, *, dtype=None, out=unsupported()):
        helpers.require_tensor(b, f"torch.cum{kind}", input)
        dtype = None if dtype is None else as_dtype(dtype)
        axis = _dimension(b, input, dim)
        if not helpers.rank_of(b, input):
            return getattr(b, kind)(input, axis=None, dtype=dtype)
        return b.scan(input, kind, axis, dtype)

    return function


spelling("torch.cumsum", ops="scan sum")(_running("sum"))
spelling("torch.cumprod", ops="scan prod")(_running("prod"))


@spelling("torch.diff", ops="cut subtract not_equal concatenate")
def _(b, input, n=1, dim=-1, prepend=None, append=None, *, out=unsupported()):
    axis = helpers.one_axis(b, dim, helpers.rank_of(b, input))
    parts = tuple(part for part in (prepend, input, append) if part is not None)
    x = parts[0] if len(parts) == 1 else b.concatenate(parts, axis)
    return differences(b, x, n, axis)


# --- sorting -------------------------------------------------------------------------------------------------------


def _order(b: Builder, x: Value, axis: int, descending: bool) -> Value:
    """Return the indices that sort, stable in both directions; NaN is the greatest."""
    if not descending:
        return b.argsort(x, axis)
    # Flip twice, so that equal elements keep their order.
    backwards = b.flip(b.argsort(b.flip(x, axis), axis), axis)
    return b.subtract(helpers.shape_of(b, x)[axis] - 1, backwards)


def _sorted(b: Builder, x: Value, dim: Argument, descending: bool) -> ValuesAndIndices:
    helpers.require_tensor(b, "torch.sort", x)
    axis = _dimension(b, x, dim)
    if not helpers.rank_of(b, x):
        return ValuesAndIndices(x, b.full((), 0, INT64))
    values = b.sort(x, axis)
    return ValuesAndIndices(b.flip(values, axis) if descending else values, _order(b, x, axis, descending))


SORTING = "sort argsort flip subtract full"


@spelling("torch.sort", ops=SORTING)
def _(b, input, dim=-1, descending=False, stable=False, *, out=unsupported()):
    return _sorted(b, input, dim, descending)


@spelling("torch.argsort", ops=SORTING)
def _(b, input, dim=-1, descending=False, stable=False):
    axis = _dimension(b, input, dim)
    if not helpers.rank_of(b, input):
        return b.full((), 0, INT64)
    return _order(b, input, axis, descending)


@spelling("torch.topk", ops=f"{SORTING} cut")
def _(b, input, k, dim=-1, largest=True, sorted=True, *, out=unsupported()):
    axis, rank = _dimension(b, input, dim), helpers.rank_of(b, input)
    # Of a rank-0 tensor there is one element, and torch takes a k of 1.
    lowest, highest = (0, helpers.shape_of(b, input)[axis]) if rank else (1, 1)
    if not helpers.is_integer(k) or not lowest <= k <= highest:
        b.fail(f"k of torch.topk is known at compile time and at most the size of dimension {dim}, not {k!r}")
    if not rank:
        return _sorted(b, input, axis, largest)
    return ValuesAndIndices(*(b.cut(tensor, axis, slice(0, k)) for tensor in _sorted(b, input, axis, largest)))


@spelling("torch.median", ops="sort reshape cut isnan any where cast")
def _(b, input, dim=None, keepdim=False, *, out=unsupported()):
    if dim is not None:
        b.fail("torch.median(dim=…) is not supported", help="torch.sort gives values and positions")
    helpers.require_tensor(b, "torch.median", input)
    size = helpers.size_of(b, input)
    ordered = b.sort(b.reshape(input, (-1,)), 0)
    middle = b.reshape(b.cut(ordered, 0, slice((size - 1) // 2, (size + 1) // 2)), ())
    dtype = b.type_of(input).dtype
    if not dtype.is_float:
        return middle
    return b.where(b.any(b.isnan(input), axis=None), b.cast(float("nan"), dtype), middle)


# --- searching -----------------------------------------------------------------------------------------------------


def _looked_up(b: Builder, x: Value, values: Value, right: bool, narrow: bool) -> Value:
    helpers.require_rank(b, "what is searched", x, (1,))
    indices = b.searchsorted(x, values, right)
    return b.cast(indices, INT32) if narrow else indices


@spelling("torch.searchsorted", ops="searchsorted cast")
def _(
    b, sorted_sequence, input, *, out_int32=False, right=False, side=None, out=unsupported(), sorter=unsupported()
):  # fmt: skip
    return _looked_up(b, sorted_sequence, input, right or side == "right", out_int32)


@spelling("torch.bucketize", ops="searchsorted cast")
def _(b, input, boundaries, *, out_int32=False, right=False, out=unsupported()):
    return _looked_up(b, boundaries, input, right, out_int32)


def _along(b: Builder, input: Value, dim: Argument, index: Value) -> Value:
    helpers.require_rank(b, "the positions", index, (1,))
    axis = helpers.one_axis(b, dim, helpers.rank_of(b, input))
    others = tuple(other for other in range(helpers.rank_of(b, input)) if other != axis)
    b.require_inside(index, helpers.shape_of(b, input)[axis], wraps=False)
    elements = b.pick(b.transpose(input, (axis, *others)), index)
    return helpers.moved(b, elements, 0, axis)


@spelling("torch.index_select", ops="pick transpose reshape")
def _(b, input, dim, index, *, out=unsupported()):
    if helpers.rank_of(b, input):
        return _along(b, input, dim, index)
    if helpers.shape_of(b, index) not in ((), (1,)):
        b.fail(f"index_select of a tensor of rank 0 takes one position, not {b.type_of(index)}")
    return b.reshape(_along(b, _as_vector(b, input), dim, _as_vector(b, index)), ())


@spelling("torch.take", ops="pick reshape")
def _(b, input, index, *, out=unsupported()):
    flat = b.reshape(input, (-1,))
    b.require_inside(index, helpers.shape_of(b, flat)[0])
    return b.pick(flat, index)


@spelling("torch.gather", ops="pick reshape arange add multiply cast")
def _(b, input, dim, index, *, sparse_grad=unsupported(False), out=unsupported()):
    wanted = helpers.shape_of(b, index)
    if not helpers.rank_of(b, input) or not wanted:
        input, index = _as_vector(b, input), _as_vector(b, index)
    shape, index_shape = helpers.shape_of(b, input), helpers.shape_of(b, index)
    axis = helpers.one_axis(b, dim, len(shape))
    if len(shape) != len(index_shape):
        b.fail(f"the positions have rank {len(index_shape)}, the tensor has rank {len(shape)}")
    b.require_inside(index, shape[axis], wraps=False)
    elements = elements_along(b, input, b.cast(index, INT64), axis, index_shape)
    return elements if wanted else b.reshape(elements, ())


# --- counting ------------------------------------------------------------------------------------------------------


@spelling("torch.bincount", ops=BINCOUNT)
def _(b, input, weights=None, minlength=0):
    dtype = INT64 if weights is None else b.type_of(weights).dtype
    dtype = dtype if weights is None or dtype.name == "float32" else FLOAT64
    return counted(b, input, weights, minlength, dtype, "torch.bincount")


@spelling("torch.count_nonzero", ops="not_equal sum cast")
def _(b, input, dim=None):
    is_nonzero = input if helpers.dtype_of(b, "torch.count_nonzero", input).is_bool else b.not_equal(input, 0)
    return b.sum(b.cast(is_nonzero, INT64), axis=dim)
