"""Attention is one kernel: two matrix products with the softmax between them, a block of rows at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional
from combinations import in_turn

import mlirtri as mt
from mlirtri.lowering.codegen import targets
from mlirtri.lowering.schedule.cpu.attention import rule


@mt.jit
def attention(q, k, v):
    scores = torch.matmul(q, torch.transpose(k, -2, -1)) * 0.125
    e = torch.exp(scores - torch.amax(scores, dim=-1, keepdim=True))
    p = e / torch.sum(e, dim=-1, keepdim=True)
    return torch.matmul(p, v)


@mt.jit
def masked_attention(q, k, v, mask):
    scores = torch.matmul(q, torch.transpose(k, -2, -1)) * 0.125 + mask
    e = torch.exp(scores - torch.amax(scores, dim=-1, keepdim=True))
    return torch.matmul(e / torch.sum(e, dim=-1, keepdim=True), v)


class Sdpa(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, **self.options)


def tensors(*shapes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def reference(q, k, v, mask=0.0):
    return torch.softmax(q @ k.transpose(-2, -1) * 0.125 + mask, -1) @ v


@pytest.mark.parametrize(
    ("queries", "keys", "values", "pipeline"),
    [
        ((1, 2, 64, 64), (1, 2, 64, 64), (1, 2, 64, 64), "linalg"),
        ((2, 3, 37, 16), (2, 3, 53, 16), (2, 3, 53, 21), "linalg"),
        ((2, 3, 37, 16), (2, 3, 53, 16), (2, 3, 53, 21), "relax"),
        ((3, 130, 32), (3, 200, 32), (3, 200, 40), "linalg"),
        ((70, 24), (45, 24), (45, 16), "linalg"),
        ((1, 2, 9, 7), (1, 2, 300, 7), (1, 2, 300, 33), "linalg"),
    ],
    ids=str,
)
def test_attention_is_one_kernel(queries, keys, values, pipeline):
    q, k, v = tensors(queries, keys, values)
    kernel = attention.compile(q, k, v, pipeline=pipeline)
    torch.testing.assert_close(kernel(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)
    assert kernel.stats["kernels"] == 1
    assert '"mlirtri.schedule": "Attention"' in kernel.ir["scheduled"]


def test_scaled_queries_and_blocks_that_reach_back(monkeypatch):
    @mt.jit
    def scaled(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)

    # Vectors of 16 and 32 registers: tiles of 6 rows, of which a cache for 48 rows has 8, and 2 blocks repeat a row.
    monkeypatch.setattr(targets, "vector_bits", lambda: 512)
    monkeypatch.setattr(rule, "vector_registers", lambda: 32)
    monkeypatch.setattr(rule, "cache_bytes", lambda: (0, 0, 48 * 70 * 4 * 4))
    q, k, v = tensors((1, 2, 95, 64), (1, 2, 70, 64), (1, 2, 70, 64))
    kernel = scaled.compile(q, k, v)
    torch.testing.assert_close(kernel(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)
    assert kernel.stats["kernels"] == 1
    assert "T.min(task % T.int64(2) * T.int64(48), T.int64(47))" in kernel.ir["scheduled"]


def test_masked_attention():
    q, k, v = tensors((2, 4, 50, 32), (2, 4, 70, 32), (2, 4, 70, 32))
    mask = torch.where(torch.rand(50, 70) > 0.5, 0.0, -torch.inf)
    mask[:, 0] = 0.0
    kernel = masked_attention.compile(q, k, v, mask)
    torch.testing.assert_close(kernel(q, k, v, mask), reference(q, k, v, mask), rtol=2e-5, atol=2e-5)
    assert kernel.stats["kernels"] == 1


def test_a_row_without_any_key_is_not_a_number():
    q, k, v = tensors((2, 16, 32), (2, 24, 32), (2, 24, 32))
    mask = torch.zeros(16, 24)
    mask[3] = -torch.inf
    expected = reference(q, k, v, mask)
    torch.testing.assert_close(masked_attention(q, k, v, mask), expected, equal_nan=True, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("dtype", "is_causal"), in_turn([torch.float32, torch.float64, torch.bfloat16], [False, True]), ids=str
)
def test_attention_of_torch(is_causal, dtype):
    q, k, v = tensors((1, 2, 48, 32), (1, 2, 48, 32), (1, 2, 48, 32), dtype=dtype)
    program = mt.from_torch(Sdpa(is_causal=is_causal), (q, k, v)).compile()
    close = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 3e-2}[dtype]
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    torch.testing.assert_close(program(q, k, v), expected, rtol=close, atol=close)
    if dtype is torch.float32:
        assert '"mlirtri.schedule": "Attention"' in program.ir["scheduled"]


def test_scores_that_are_a_result_stay_a_kernel_of_their_own():
    @mt.jit
    def with_weights(q, k, v):
        e = torch.exp(torch.matmul(q, torch.transpose(k, -2, -1)))
        p = e / torch.sum(e, dim=-1, keepdim=True)
        return torch.matmul(p, v), p

    q, k, v = (each * 0.2 for each in tensors((2, 20, 16), (2, 30, 16), (2, 30, 16)))
    out, p = with_weights(q, k, v)
    expected = torch.softmax(q @ k.transpose(-2, -1), -1)
    torch.testing.assert_close(p, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(out, expected @ v, rtol=1e-5, atol=1e-6)


def test_rows_too_long_for_the_cache():
    q, k, v = tensors((1, 16, 8), (1, 40000, 8), (1, 40000, 8))
    torch.testing.assert_close(attention(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)


@mt.jit
def sliding_attention(q, k, v):
    row, column = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None, :]
    scores = torch.matmul(q, torch.transpose(k, -2, -1)) * 0.125
    scores = torch.where((column <= row + 3) & (column > row - 70), scores, -torch.inf)
    return torch.matmul(torch.softmax(scores, -1), v)


@pytest.mark.parametrize(
    ("queries", "keys", "values", "dtype"),
    [
        ((2, 150, 16), (2, 300, 16), (2, 300, 21), torch.float32),
        ((1, 200, 8), (1, 130, 8), (1, 130, 16), torch.float64),
    ],
    ids=str,
)
def test_blocks_that_a_mask_hides_are_passed_over(queries, keys, values, dtype):
    """Rows from 200 on see no key at all, and are undefined; so is what a weight of 0 makes of infinity."""
    q, k, v = tensors(queries, keys, values, dtype=dtype)
    kernel = sliding_attention.compile(q, k, v)
    assert kernel.stats["kernels"] == 1
    assert "T.min(T.int64(300)" in kernel.ir["scheduled"] or "T.min(T.int64(130)" in kernel.ir["scheduled"]
    row, column = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    mask = torch.where((column <= row + 3) & (column > row - 70), 0.0, -torch.inf).to(dtype)
    infinite, undefined = v.clone(), q.clone()
    infinite[-1, -1, 3] = torch.inf
    undefined[-1, 7, 1] = torch.nan
    for given in ((q, k, v), (q, k, infinite), (undefined, k, v)):
        expected = reference(*given, mask)
        torch.testing.assert_close(kernel(*given), expected, rtol=2e-5, atol=2e-5, equal_nan=True)


@mt.jit
def attention_with_added_mask(q, k, v):
    scores = torch.matmul(q, torch.transpose(k, -2, -1)) / 8.0
    scores = scores + torch.triu(torch.full((q.shape[-2], k.shape[-2]), float("-inf")), 1)
    return torch.matmul(torch.softmax(scores, -1), v)


def test_masks_of_positions_are_no_kernels_in_relax():
    q, k, v = tensors((2, 66, 16), (2, 66, 16), (2, 66, 16))
    kernel = attention_with_added_mask.compile(q, k, v, pipeline="relax")
    assert kernel.stats["kernels"] == 1
    mask = torch.full((66, 66), -torch.inf).triu(1)
    torch.testing.assert_close(kernel(q, k, v), reference(q, k, v, mask), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("relax", marks=pytest.mark.slow)])
def test_blocks_that_an_added_mask_hides_are_passed_over(pipeline):
    """Unless a product is undefined or too large: minus infinity does not hide that."""
    q, k, v = tensors((2, 290, 16), (2, 290, 16), (2, 290, 16))
    kernel = attention_with_added_mask.compile(q, k, v, pipeline=pipeline)
    program = mt.from_torch(Sdpa(is_causal=True), (q, k, v)).compile(pipeline=pipeline)
    assert kernel.stats["kernels"] == 1
    assert "largest_keys" in kernel.ir["scheduled"]
    # Without it, TVM looks for smaller buffers for most of the time that compiling takes, and finds none.
    assert '"mlirtri.exact_buffers"' in kernel.ir["scheduled"]
    assert program.stats["kernels"] == 1
    assert "T.min(T.int64(290)" in program.ir["scheduled"]
    mask = torch.full((290, 290), -torch.inf).triu(1)
    undefined, infinite, large = k.clone(), k.clone(), k * 1e19
    undefined[1, 280, 3], infinite[0, 270, 1] = torch.nan, torch.inf
    for keys, values in ((k, v), (undefined, v), (infinite, v), (k, infinite), (large, v)):
        queries = q * 1e19 if keys is large else q
        expected = torch.softmax(queries @ keys.mT / 8.0 + mask, -1) @ values
        torch.testing.assert_close(kernel(queries, keys, values), expected, rtol=2e-5, atol=2e-5, equal_nan=True)
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(program(q, k, v), expected, rtol=2e-5, atol=2e-5)


def test_keys_that_heads_share_are_not_copied():
    q, k, v = tensors((1, 6, 1, 16), (1, 2, 70, 16), (1, 2, 70, 16))
    program = mt.from_torch(Sdpa(enable_gqa=True, scale=0.3), (q, k, v)).compile()
    for copy in ("T.int64(3), T.int64(70), T.int64(16)", "T.int64(3), T.int64(16), T.int64(70)"):
        assert copy not in program.ir["scheduled"]
    expected = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3)
    torch.testing.assert_close(program(q, k, v), expected, rtol=2e-5, atol=2e-5)


class GroupedHeads(torch.nn.Module):
    """Two heads of keys for six of queries, repeated as language models do it, with the heads merged after."""

    def forward(self, q, k, v):
        k, v = (x[:, :, None].expand(1, 2, 3, 40, 16).reshape(1, 6, 40, 16) for x in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(1, 40, 96)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_attention_of_grouped_heads_is_one_kernel(pipeline):
    q, k, v = tensors((1, 6, 40, 16), (1, 2, 40, 16), (1, 2, 40, 16))
    program = mt.from_torch(GroupedHeads(), (q, k, v)).compile(pipeline=pipeline)
    torch.testing.assert_close(program(q, k, v), GroupedHeads()(q, k, v), rtol=2e-5, atol=2e-5)
    if pipeline == "linalg":
        assert program.ir["scheduled"].count('"mlirtri.schedule": "Attention"') == 1
        assert '"mlirtri.schedule": "Rows"' not in program.ir["scheduled"]


def test_imported_attention_is_one_kernel_in_relax():
    """torch-mlir's maximum comes with an index, which nobody reads."""
    q, k, v = tensors((2, 24, 16), (2, 30, 16), (2, 30, 16))
    program = mt.from_torch(Sdpa(), (q, k, v)).compile(pipeline="relax")
    assert program.ir["scheduled"].count('"mlirtri.schedule": "Attention"') == 1
    assert '"mlirtri.schedule": "Rows"' not in program.ir["scheduled"]
    expected = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(program(q, k, v), expected, rtol=2e-5, atol=2e-5)


def test_a_mask_that_hides_by_a_number_hides_nothing():
    """A large negative number is no infinity: where all of a row has it, all weights are the same."""

    @mt.jit
    def kernel(q, k, v):
        row, column = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None, :]
        scores = torch.where(column > row, -1e9, torch.matmul(q, torch.transpose(k, -2, -1)))
        return torch.matmul(torch.softmax(scores, -1), v)

    q, k, v = tensors((130, 8), (130, 8), (130, 8))
    scores = q @ k.T - 2e9
    mask = torch.arange(130) > torch.arange(130)[:, None]
    q = torch.cat((q, torch.ones(130, 1)), 1)
    k = torch.cat((k, torch.full((130, 1), -2e9)), 1)
    expected = torch.softmax(torch.where(mask, -1e9, scores), -1) @ v
    torch.testing.assert_close(kernel(q, k, v), expected, rtol=2e-5, atol=2e-5)


def attention_with_sinks(q, k, v, sinks):
    scores = torch.cat([q @ k.transpose(1, 2), sinks.view(4, 1, 1).expand(4, 16, 1)], -1)
    return torch.softmax(scores, -1)[..., :-1] @ v


def test_the_weight_of_a_sink_is_no_weight_of_the_next_row():
    arguments = (*tensors((4, 16, 8), (4, 16, 8), (4, 16, 8)), torch.randn(4))
    kernel = mt.from_torch(attention_with_sinks, arguments).compile()
    assert '"Attention"' in str(kernel.ir["scheduled"])
    torch.testing.assert_close(kernel(*arguments), attention_with_sinks(*arguments))
