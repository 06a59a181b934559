"""Reads and writes at the elements of tensors, and views through them, against eager."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

import mlirtri as mt


def check(function, *arguments, pipeline: str):
    kernel = mt.from_torch(function, arguments).compile(pipeline=pipeline)
    compare(kernel(*arguments), function(*arguments))
    return kernel


def compare(results, wanted):
    for result, eager in zip(pytree.tree_leaves(results), pytree.tree_leaves(wanted), strict=True):
        torch.testing.assert_close(result, eager)


def writes_to_booleans(x, index, values, mask):
    at = index[:1]
    added = x.index_put((index,), values, accumulate=True), x.put(index, values[0, :3], accumulate=True)
    masked = x.index_put((mask,), values[0, :1], accumulate=True), x.index_put((at, at), values[:1, 0], accumulate=True)
    return added, masked, x.index_put((index[:2],), values[:2])


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_accumulated_booleans_are_joined_by_or(pipeline):
    index = torch.tensor([2, 2, 1])
    values = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    x = torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    check(writes_to_booleans, x, index, values, x, pipeline=pipeline)


def test_take_at_an_index_of_rank_0():
    x = torch.arange(6.0).view(2, 3)
    check(lambda x, i, j: (torch.take(x, i), x.take(j)), x, torch.tensor(4), torch.tensor([[-1, 0]]), pipeline="linalg")


def parts_of_indices(x):
    indices = torch.nonzero(x)
    return indices[:, 1], indices.flatten(), torch.nonzero(x[0] > 1, as_tuple=True), torch.where(x)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_views_of_as_many_indices_as_there_are(pipeline):
    x = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    kernel = check(parts_of_indices, x, pipeline=pipeline)
    compare(kernel(x * 0), parts_of_indices(x * 0))


def joined_selections(x, rows):
    both = torch.cat([x[x > 0], x[x <= 0]])
    return both, torch.cat([x, x[x > 0], x[x > 1]]) + 1, torch.cat([rows[x > 0], rows[x > 5], rows]), both.flip(0)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_concatenations_of_as_many_elements_as_there_are(pipeline):
    x, rows = torch.tensor([1.0, 0.0, 2.0, 0.0, 3.0]), torch.arange(10.0).view(5, 2)
    kernel = check(joined_selections, x, rows, pipeline=pipeline)
    for other in (x * 0, x + 9):
        compare(kernel(other, rows), joined_selections(other, rows))


def adapted_rows(x, mask, weight):
    written = torch.zeros_like(x)
    written[mask] = torch.relu(torch.nn.functional.linear(x[mask], weight))
    return written + x


def test_products_of_as_many_rows_as_are_selected():
    """Two products of one size, one from a reshape and one from a view, are the same size."""
    x, weight = torch.randn(2, 3, 4), torch.randn(4, 4)
    kernel = check(adapted_rows, x, torch.tensor([True, False]), weight, pipeline="linalg")
    for rows in ([False, False], [True, True]):
        mask = torch.tensor(rows)
        compare(kernel(x, mask, weight), adapted_rows(x, mask, weight))


def split_at(x, y, places):
    return [part + 1 for part in torch.tensor_split(x, places, dim=1)], y.tensor_split(places + 1)


def test_joined_parts_are_permuted_axes():
    def function(x):
        nested = torch.cat(torch.cat(x.split(1, 1), 3).split(2, 2), 0)
        in_place = torch.cat(x.chunk(2, 1), 1), torch.cat([x[:, :2], x[:, 2:]], -1), torch.cat([x[:, 2:], x[:, :2]], 0)
        others = torch.cat(x.split([1, 3], 1), 1), torch.cat([x[:, 0:1], x[:, 1:2]], 2), torch.cat(x.split(3, 1), 1)
        return nested, in_place, others

    x = torch.randn(3, 4, 4, 5)
    program = mt.from_torch(function, (x,))
    torch.testing.assert_close(program.compile(pipeline="mlir")(x), function(x), rtol=0, atol=0)


def test_scattered_rows_may_be_none():
    def function(x, mask):
        return x.masked_scatter(mask.unsqueeze(-1), x[mask] * 2)

    x, mask = torch.randn(2, 3, 4), torch.tensor([[True, False, True], [False, False, True]])
    kernel = mt.from_torch(function, (x, mask)).compile()
    for each in (mask, torch.zeros_like(mask), torch.ones_like(mask)):
        assert torch.equal(kernel(x, each), function(x, each))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_tensor_split_at_elements(pipeline):
    x, y = torch.arange(24.0).view(3, 8), torch.arange(5)
    kernel = check(split_at, x, y, torch.tensor([2, 5]), pipeline=pipeline)
    for places in ([5, 2], [-3, 7], [0, 100], [-100, 0]):
        compare(kernel(x, y, torch.tensor(places)), split_at(x, y, torch.tensor(places)))


def test_a_number_of_parts_that_is_an_element():
    with pytest.raises(mt.KernelError, match="the number of results of tensor_split is an element"):
        mt.from_torch(torch.tensor_split, (torch.arange(5), torch.tensor(2)))


def in_other_shapes(x, y):
    same = x.clone().resize_as_(y), x.clone().resize_(3, 2)
    permuted, strided = torch.empty_permuted((2, 3), (1, 0)), y.new_empty_strided((2, 3), (7, 8))
    return same, permuted.copy_(x), strided.copy_(x), strided.new_empty_strided((2,), (4,), dtype=torch.int8).fill_(3)


def test_resized_and_empty_tensors():
    check(in_other_shapes, torch.arange(6.0).view(2, 3), torch.zeros(2, 3, dtype=torch.float64), pipeline="linalg")
