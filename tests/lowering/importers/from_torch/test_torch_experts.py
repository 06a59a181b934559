"""Products of groups of rows with a matrix each."""

from __future__ import annotations

import pytest
import torch
from tolerances import within
from torch import nn

import mlirtri as mt


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrices = nn.Parameter(torch.randn(4, 16, 8))

    def forward(self, rows, ends):
        return torch._grouped_mm(rows.bfloat16(), self.matrices.bfloat16(), ends).float()


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_each_row_is_multiplied_with_the_matrix_of_its_group(pipeline):
    torch.manual_seed(0)
    module, rows = Grouped(), torch.randn(11, 16)
    ends = torch.tensor([3, 3, 7, 11], dtype=torch.int32)
    kernel = mt.from_torch(module, (rows, ends)).compile(pipeline=pipeline)
    for last in (ends, torch.tensor([0, 5, 5, 11], dtype=torch.int32)):
        groups = torch.bucketize(torch.arange(11), last, right=True)
        halves = rows.bfloat16().float(), module.matrices.detach().bfloat16().float()[groups]
        wanted = torch.einsum("rk,rkn->rn", *halves).bfloat16()
        torch.testing.assert_close(kernel(rows, last).bfloat16(), wanted, **within(wanted.dtype, 16))


def test_a_mixture_of_experts_is_one_graph_of_dynamo():
    torch._dynamo.reset()
    module, rows, ends = Grouped(), torch.randn(11, 16), torch.tensor([3, 3, 7, 11], dtype=torch.int32)
    compiled = torch.compile(module, backend="mlirtri", fullgraph=True, options={"pipeline": "mlir"})
    with torch.no_grad():
        wanted = module(rows, ends)
        torch.testing.assert_close(compiled(rows, ends), wanted, **within(torch.bfloat16, 16))


class Ordered(nn.Module):
    """A view of attention's result that its order in memory allows in eager."""

    def forward(self, query, key, value):
        result = nn.functional.scaled_dot_product_attention(query.transpose(1, 2), key, value)
        return result.transpose(1, 2).view(1, 16, 32)


def test_views_of_attentions_result():
    query, (key, value) = torch.randn(1, 16, 4, 8), torch.randn(2, 1, 4, 16, 8)
    kernel = mt.from_torch(Ordered(), (query, key, value)).compile(pipeline="mlir")
    torch.testing.assert_close(kernel(query, key, value), Ordered()(query, key, value))
