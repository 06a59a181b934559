"""Elements of tensors by positions and masks, as torch has them, in the kernel language: reads, copies with writes.

`_places` numbers the elements that an index of `scatter` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import axis_of, refuse, size_of
from mlirtri.lowering.frontend.library_functions.random_generator import require_value


def one_hot(tensor, num_classes=-1):
    if num_classes < 0:
        refuse("the number of classes is num_classes=, which has to be known while compiling")
    require_value(np.all((tensor >= 0) & (tensor < num_classes)), "a class of one_hot is not among num_classes")
    return (tensor[..., None] == np.arange(num_classes)).astype(np.int64)


def masked_select(input, mask):
    x, chosen = np.broadcast_arrays(input, mask)
    return x[chosen]


def take_along_dim(input, indices, dim=None):
    if dim is None:
        return np.take(input.reshape(-1), indices.reshape(-1))
    return np.take_along_axis(input, indices, axis=dim)


def index_fill(input, dim, index, value):
    if input.ndim == 0:
        return index_fill(input.reshape(1), dim, index.reshape(-1), value).reshape(())
    result = np.moveaxis(input.copy(), dim, 0)
    result[index] = value
    return np.moveaxis(result, 0, dim)


def index_copy(input, dim, index, source):
    if input.ndim == 0:
        return index_copy(input.reshape(1), dim, index.reshape(-1), source.reshape(1)).reshape(())
    result = np.moveaxis(input.copy(), dim, 0)
    result[index] = np.moveaxis(source, dim, 0)
    return np.moveaxis(result, 0, dim)


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    if reduce not in ("prod", "mean", "amax", "amin"):
        refuse("index_reduce has the reductions prod, mean, amax and amin")
    result, parts = np.moveaxis(input.copy(), dim, 0), np.moveaxis(source, dim, 0)
    counts = np.zeros(result.shape[0], np.int64)
    for k in range(index.shape[0]):
        place = index[k]
        is_first = (not include_self) & (counts[place] == 0)
        old, new = result[place], parts[k]
        if reduce == "prod":
            both = old * new
        elif reduce == "mean":
            both = old + new
        else:
            both = np.maximum(old, new) if reduce == "amax" else np.minimum(old, new)
        result[place] = np.where(is_first, new, both)
        counts[place] += 1
    if reduce == "mean":
        divisor = np.maximum(counts + 1 if include_self else counts, 1).reshape([-1] + [1] * (result.ndim - 1))
        result = result / divisor if input.dtype.is_float else result // divisor
    return np.moveaxis(result, 0, dim).astype(input.dtype)


def index_put(input, indices, values, accumulate=False):
    result = input.copy()
    if accumulate:
        np.add.at(result, tuple(indices), values)
    else:
        result[tuple(indices)] = values
    return result


def select(input, dim, index):
    at = axis_of(dim, input.ndim)
    places = [index if axis == at else slice(None) for axis in range(input.ndim)]
    return input[tuple(places)]


def masked_scatter(input, mask, source):
    x, chosen = np.broadcast_arrays(input, mask)
    values, flat = source.reshape(-1), chosen.reshape(-1)
    require_value(
        np.sum(flat) <= values.shape[0], "the source of masked_scatter has fewer elements than the mask takes"
    )
    places = np.clip(np.cumsum(flat) - 1, 0, max(values.shape[0] - 1, 0))
    return np.where(chosen, values[places].reshape(chosen.shape), x)


def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    if reduce is not None:
        refuse("reduce= is not supported: use scatter_reduce")
    if input.ndim == 0:
        one = src if value is not None or not hasattr(src, "ndim") else src.reshape(-1)
        return scatter(input.reshape(1), dim, index.reshape(-1), one, value=value).reshape(())
    flat = input.reshape(-1).copy()
    number = src if value is None else value
    places = _places(input, dim, index)
    if number.ndim if hasattr(number, "ndim") else 0:
        flat[places] = number[tuple([slice(0, extent) for extent in index.shape])].reshape(-1)
    else:
        flat[places] = number
    return flat.reshape(input.shape)


def select_scatter(input, src, dim, index):
    result = np.moveaxis(input.copy(), dim, 0)
    result[index] = src
    return np.moveaxis(result, 0, dim)


def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    result = np.moveaxis(input.copy(), dim, 0)
    result[start:end:step] = np.moveaxis(src, dim, 0)
    return np.moveaxis(result, 0, dim)


def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    if reduce not in ("sum", "mean", "prod", "amax", "amin"):
        refuse("reduce= is 'sum', 'prod', 'mean', 'amax' or 'amin'")
    if input.ndim == 0:
        one = scatter_reduce(
            input.reshape(1), dim, index.reshape(-1), src.reshape(-1), reduce, include_self=include_self
        )
        return one.reshape(())
    positions = _places(input, dim, index)
    values = src[tuple([slice(0, extent) for extent in index.shape])].reshape(-1)
    flat = input.reshape(-1).copy()
    if not include_self:
        # Largest and smallest elements may count twice.
        flat[positions] = values if reduce in ("amax", "amin") else 1 if reduce == "prod" else 0
    if reduce == "prod":
        np.multiply.at(flat, positions, values)
    elif reduce == "amax":
        np.maximum.at(flat, positions, values)
    elif reduce == "amin":
        np.minimum.at(flat, positions, values)
    else:
        np.add.at(flat, positions, values)
    if reduce == "mean":
        counts = np.zeros(size_of(input.shape), np.int64)
        np.add.at(counts, positions, 1)
        divisor = np.maximum(counts + 1 if include_self else counts, 1).astype(input.dtype)
        flat = flat // divisor if input.dtype.is_integer else flat / divisor
    return flat.reshape(input.shape)


def _places(input, dim, index):
    """Return the positions, in row-major order, of the elements that `index` names along `dim`."""
    axis, rank = axis_of(dim, input.ndim), input.ndim
    numbers = np.arange(size_of(input.shape)).reshape(input.shape)
    parts = [
        index if k == axis else np.arange(index.shape[k]).reshape([-1 if m == k else 1 for m in range(rank)])
        for k in range(rank)
    ]
    return numbers[tuple(parts)].reshape(-1)


def nonzero(input, *, as_tuple=False):
    return np.nonzero(input) if as_tuple else np.argwhere(input)


def argwhere(input):
    return np.argwhere(input)


_INDEXING: tuple[Callable[..., Any], ...] = (
    masked_select, take_along_dim, index_fill, index_copy, index_put, index_reduce, select, masked_scatter, scatter,
    select_scatter, slice_scatter, scatter_reduce, nonzero, argwhere,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{function.__name__}": function for function in _INDEXING},
    "torch.nn.functional.one_hot": one_hot,
}
"""Inlined functions of torch by qualified name."""
METHODS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _INDEXING}
"""Inlined methods of tensors by name; each takes the tensor first."""
