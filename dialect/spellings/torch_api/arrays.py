"""The functions of `torch` that shape tensors or make them, with torch's signatures and defaults.

Results are values: nothing is a view. `device=` takes the device that the kernel runs on; `layout=` is refused.
"""

from __future__ import annotations

import numpy

from mlirtri.dialect.base.dtypes import DTYPES, as_dtype
from mlirtri.dialect.spellings.base import helpers
from mlirtri.dialect.spellings.base.spelling import register, spelling, unsupported
from mlirtri.dialect.spellings.numpy_api.shapes import known_ints

FLOAT32, INT64 = DTYPES["float32"], DTYPES["int64"]


register("torch.reshape", lambda b, input, shape: b.reshape(input, helpers.as_tuple(shape)), "reshape")


@spelling("torch.flatten", ops="reshape")
def _(b, input, start_dim=0, end_dim=-1):
    return helpers.flattened(b, input, start_dim, end_dim)


register("torch.ravel", lambda b, input: b.reshape(input, (-1,)), "reshape")


@spelling("torch.unflatten", ops="reshape")
def _(b, input, dim, sizes):
    shape = helpers.shape_of(b, input)
    dim = helpers.one_axis(b, dim, len(shape))
    sizes = helpers.inferred_sizes(b, helpers.as_tuple(sizes), shape[dim])
    return b.reshape(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))


@spelling("torch.transpose torch.swapdims", ops="transpose")
def _(b, input, dim0, dim1):
    return helpers.swapped(b, input, dim0, dim1)


register("torch.swapaxes", lambda b, input, axis0, axis1: helpers.swapped(b, input, axis0, axis1), "transpose")
register("torch.permute", lambda b, input, dims: b.transpose(input, helpers.as_tuple(dims)), "transpose")


@spelling("torch.movedim torch.moveaxis", ops="transpose")
def _(b, input, source, destination):
    return helpers.moved(b, input, source, destination)


@spelling("torch.t", ops="transpose")
def _(b, input):
    helpers.require_rank(b, "the operand of torch.t", input, (0, 1, 2))
    return b.transpose(input) if helpers.rank_of(b, input) == 2 else input


@spelling("torch.adjoint", ops="transpose conj")
def _(b, input):
    return b.conj(helpers.matrix_transposed(b, "torch.adjoint", input))


@spelling("torch.broadcast_to", ops="broadcast_to")
def _(b, input, size):
    return b.broadcast_to(input, helpers.expanded_shape(b, input, helpers.as_tuple(size)))


@spelling("torch.squeeze", ops="squeeze")
def _(b, input, dim=None):
    if dim is None:
        return b.squeeze(input, None)
    shape = helpers.shape_of(b, input)
    # torch ignores dimensions whose size is not 1.
    axes = tuple(axis for axis in helpers.many_axes(b, dim, max(len(shape), 1)) if shape and shape[axis] == 1)
    return b.squeeze(input, axes) if axes else input


@spelling("torch.unsqueeze", ops="unsqueeze")
def _(b, input, dim):
    return b.unsqueeze(input, helpers.one_axis(b, dim, helpers.rank_of(b, input) + 1))


register("torch.flip", lambda b, input, dims: b.flip(input, dims) if dims != () and dims != [] else input, "flip")
register("torch.flipud", lambda b, input: b.flip(input, 0), "flip")
register("torch.fliplr", lambda b, input: b.flip(input, 1), "flip")


@spelling("torch.tril", ops="where arange reshape subtract less_equal full")
def _(b, input, diagonal=0, *, out=unsupported()):
    return helpers.trimmed(b, "torch.tril", input, diagonal, lower=True)


@spelling("torch.triu", ops="where arange reshape subtract greater_equal full")
def _(b, input, diagonal=0, *, out=unsupported()):
    return helpers.trimmed(b, "torch.triu", input, diagonal, lower=False)


# --- joining and splitting -----------------------------------------------------------------------------------------


@spelling("torch.cat torch.concat", ops="concatenate")
def _(b, tensors, dim=0, *, out=unsupported()):
    return b.concatenate(tuple(tensors), dim)


@spelling("torch.concatenate", ops="concatenate")
def _(b, tensors, axis=0, out=unsupported()):
    return b.concatenate(tuple(tensors), axis)


register("torch.stack", lambda b, tensors, dim=0, *, out=unsupported(): b.stack(tuple(tensors), dim), "stack")


@spelling("torch.vstack", ops="concatenate reshape")
def _(b, tensors, *, out=unsupported()):
    return b.concatenate(tuple(helpers.at_least(b, x, 2) for x in tensors), 0)


@spelling("torch.hstack", ops="concatenate reshape")
def _(b, tensors, *, out=unsupported()):
    tensors = tuple(helpers.at_least(b, x, 1) for x in tensors)
    return b.concatenate(tensors, 0 if helpers.rank_of(b, tensors[0]) == 1 else 1)


def _split_by_size(b, tensor, size, axis):
    if size < 1:
        b.fail(f"the size of a part is at least 1, not {size}")
    return b.split(tensor, tuple(range(size, helpers.shape_of(b, tensor)[axis], size)), axis)


@spelling("torch.split", ops="split")
def _(b, tensor, split_size_or_sections, dim=0):
    axis = helpers.one_axis(b, dim, helpers.rank_of(b, tensor))
    if helpers.is_integer(split_size_or_sections):
        return _split_by_size(b, tensor, split_size_or_sections, axis)
    parts, size = known_ints(b, tuple(split_size_or_sections), "the size of a part"), helpers.shape_of(b, tensor)[axis]
    if sum(parts) != size:
        b.fail(f"the sizes {parts} add up to {sum(parts)}, and dimension {dim} has {size}")
    return b.split(tensor, tuple(sum(parts[: count + 1]) for count in range(len(parts) - 1)), axis)


@spelling("torch.chunk", ops="split")
def _(b, input, chunks, dim=0):
    axis = helpers.one_axis(b, dim, helpers.rank_of(b, input))
    if not helpers.is_integer(chunks) or chunks < 1:
        b.fail(f"the number of chunks is a positive compile-time integer, not {chunks!r}")
    return _split_by_size(b, input, max(1, -(-helpers.shape_of(b, input)[axis] // chunks)), axis)


@spelling("torch.tensor_split", ops="split")
def _(b, input, indices_or_sections, dim=0):
    axis = helpers.one_axis(b, dim, helpers.rank_of(b, input))
    if helpers.is_tensor(b, indices_or_sections):
        b.fail("the positions of tensor_split are known at compile time", help="pass a tuple of integers")
    if helpers.is_integer(indices_or_sections):
        return helpers.split_evenly(b, input, indices_or_sections, axis)
    return b.split(input, helpers.as_tuple(indices_or_sections), axis)


register("torch.unbind", lambda b, input, dim=0: helpers.unstacked(b, input, dim), "split squeeze")


@spelling("torch.narrow", ops="split")
def _(b, input, dim, start, length):
    axis = helpers.one_axis(b, dim, helpers.rank_of(b, input))
    size = helpers.shape_of(b, input)[axis]
    if helpers.is_tensor(b, start) or helpers.is_tensor(b, length):
        b.fail("the range of narrow is known at compile time", help="write a slice: x[:, start : start + length]")
    if not helpers.is_integer(start):
        b.fail(f"the start of narrow is an integer, not {start!r}")
    start = start + size if start < 0 else start
    if not 0 <= start <= start + length <= size:
        b.fail(f"the range from {start} of length {length} is not within dimension {dim} of size {size}")
    return b.split(input, (start, start + length), axis)[1]


# --- creation ------------------------------------------------------------------------------------------------------


def _dtype(dtype, default):
    return default if dtype is None else as_dtype(dtype)


@spelling("torch.full", ops="full broadcast_to cast")
def _(
    b, size, fill_value, *, out=unsupported(), dtype=None, layout=unsupported(), device=unsupported(),
    requires_grad=unsupported(False),
):  # fmt: skip
    dtype = _dtype(dtype, None)
    if dtype is None and helpers.is_tensor(b, fill_value) and b.type_of(fill_value).dtype.is_float:
        # As torch: a float tensor is read as a Python number here.
        dtype = FLOAT32
    return helpers.filled(b, size, fill_value, dtype, "torch")


def _creation(make):
    def function(
        b, *size, out=unsupported(), dtype=None, layout=unsupported(), device=unsupported(),
        requires_grad=unsupported(False),
    ):  # fmt: skip
        return make(b, helpers.sizes(size), _dtype(dtype, FLOAT32))

    return function


spelling("torch.zeros", ops="full")(_creation(lambda b, shape, dtype: b.full(shape, 0, dtype)))
spelling("torch.ones", ops="full")(_creation(lambda b, shape, dtype: b.full(shape, 1, dtype)))
spelling("torch.empty", ops="empty")(_creation(lambda b, shape, dtype: b.empty(shape, dtype)))


def _like(make):
    def function(
        b, input, *, dtype=None, layout=unsupported(), device=unsupported(), requires_grad=unsupported(False),
        memory_format=None,
    ):  # fmt: skip
        helpers.require_tensor(b, "a _like function", input)
        kind = b.type_of(input)
        return make(b, kind.shape, _dtype(dtype, kind.dtype))

    return function


spelling("torch.zeros_like", ops="full")(_like(lambda b, shape, dtype: b.full(shape, 0, dtype)))
spelling("torch.ones_like", ops="full")(_like(lambda b, shape, dtype: b.full(shape, 1, dtype)))
spelling("torch.empty_like", ops="empty")(_like(lambda b, shape, dtype: b.empty(shape, dtype)))


@spelling("torch.full_like", ops="full broadcast_to cast")
def _(
    b, input, fill_value, *, dtype=None, layout=unsupported(), device=unsupported(), requires_grad=unsupported(False),
    memory_format=None,
):  # fmt: skip
    helpers.require_tensor(b, "torch.full_like", input)
    kind = b.type_of(input)
    return helpers.filled(b, kind.shape, fill_value, _dtype(dtype, kind.dtype), "torch")


@spelling("torch.arange", ops="arange")
def _(
    b, start=0, end=None, step=1, *, out=unsupported(), dtype=None, layout=unsupported(), device=unsupported(),
    requires_grad=unsupported(False),
):  # fmt: skip
    start, end = (0, start) if end is None else (start, end)
    if all(isinstance(bound, (int, float)) for bound in (start, end, step)) and (end - start) * step < 0:
        b.fail(f"torch.arange goes from {start} to {end} by steps of the other sign, {step}")
    integers = helpers.counts_in_integers(b, start, end, step)
    return b.arange(start, end, step, _dtype(dtype, INT64 if integers else FLOAT32))


@spelling("torch.eye", ops="eye")
def _(
    b, n, m=None, *, out=unsupported(), dtype=None, layout=unsupported(), device=unsupported(),
    requires_grad=unsupported(False),
):  # fmt: skip
    return b.eye(n, n if m is None else m, 0, _dtype(dtype, FLOAT32))


register("torch.clone", lambda b, input, *, memory_format=None: input, "")
register("torch.numel", lambda b, input: helpers.size_of(b, input), "")


@spelling("torch.tensor", ops="literal cast")
def _(b, data, *, dtype=None, device=unsupported(), requires_grad=unsupported(False), pin_memory=unsupported(False)):
    if helpers.is_tensor(b, data):
        return b.cast(data, as_dtype(dtype) if dtype is not None else b.type_of(data).dtype)
    values = numpy.array(data, object)
    numbers = values.ravel().tolist()
    if not all(isinstance(number, (bool, int, float, complex)) for number in numbers):
        b.fail(
            "torch.tensor takes numbers, and lists of numbers of one length, in a kernel", help="torch.stack(tensors)"
        )
    kinds = [type(number) for number in numbers]
    order = (bool, int, float, complex)
    kind = order[max((order.index(kind) for kind in kinds), default=2)]
    inferred = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}[kind]
    return b.literal(tuple(numbers), values.shape, as_dtype(dtype if dtype is not None else inferred))
