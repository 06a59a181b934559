"""Whole networks in every pipeline and precision against torch: a perceptron, attention, a norm, batched products.

Tolerances come from the precision: halves are rounded after every operation here and in torch, but at other places.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
import torch
import torch.nn.functional as F
from combinations import in_turn

import mlirtri as mt


def shown(value):
    """The name of a function, which is the same in each process; the text of anything else."""
    return getattr(value, "__name__", str(value))


NEAR = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def perceptron(x, w1, b1, w2, b2):
    hidden = F.gelu(x @ w1 + b1)
    return torch.softmax(hidden @ w2 + b2, -1)


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def norm(x, w, b):
    return F.layer_norm(x, (33,), w, b)


def batched(x, y):
    return x @ y, torch.bmm(x[0], y[0])


NETWORKS = {
    perceptron: [(17, 40), (40, 65), (65,), (65, 10), (10,)],
    attention: [(2, 3, 19, 16)] * 3,
    causal: [(2, 3, 19, 16)] * 3,
    norm: [(5, 7, 33), (33,), (33,)],
    batched: [(2, 3, 9, 21), (2, 3, 21, 13)],
}


def tensors(function, dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [(torch.randn(shape) / 2).to(dtype) for shape in NETWORKS[function]]


PRECISIONS = (
    *(("linalg", dtype) for dtype in NEAR), ("relax", torch.float32), ("relax", torch.float16), ("mlir", torch.float32),
    ("mlir", torch.bfloat16),
)  # fmt: skip


@pytest.mark.parametrize(("function", "precision"), in_turn(NETWORKS, PRECISIONS, of=3), ids=shown)
def test_networks_match_torch(function, precision):
    pipeline, dtype = precision
    arguments = tensors(function, dtype)
    wanted, found = function(*arguments), mt.jit(function, pipeline=pipeline)(*arguments)
    for f, w in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        torch.testing.assert_close(f, w, rtol=NEAR[dtype], atol=NEAR[dtype])


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize(
    ("function", "precision"),
    in_turn(
        [perceptron, causal, norm],
        [("linalg", torch.float32), ("linalg", torch.float16), ("relax", torch.float16)],
    ),
    ids=shown,
)
def test_cuda_sources_compile(tmp_path, function, precision):
    pipeline, dtype = precision
    file = tmp_path / "kernel.cu"
    file.write_text(mt.jit(function).compile(*tensors(function, dtype), target="cuda", pipeline=pipeline).ir["cuda"])
    command = ["nvcc", "-arch=sm_80", "-cubin", "-o", str(tmp_path / "kernel.cubin"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
