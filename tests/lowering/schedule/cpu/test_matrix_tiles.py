"""Products of bf16 in matrix registers (AMX): sizes that end inside of them, layouts and epilogues."""

from __future__ import annotations

import copy

import pytest
import torch
from tolerances import within
from tvm_stage_helpers import random

import mlirtri as mt
from mlirtri.lowering.core import cpu
from mlirtri.lowering.schedule.cpu.matmul import matrix_tile

needs_registers = pytest.mark.skipif(not matrix_tile.has_matrix_registers(), reason="no AMX here")
CALL = "mlirtri_bfloat16_tile"


@mt.jit
def product(a, b):
    return (a @ b).float()


@mt.jit
def layer(x, w, bias):
    return torch.relu(torch.nn.functional.linear(x, w, bias))


def halves(*shape):
    return random(*shape).bfloat16()


def check(kernel, expected, reduced, *inputs):
    wide = expected(*(each.double() for each in inputs))
    # A result that is rounded to bf16 has seven bits more than its exponent.
    rounding = wide.abs().max().item() * 2**-8
    tolerance = within("float32", reduced)
    made = kernel(*inputs).double()
    torch.testing.assert_close(made, wide, rtol=tolerance["rtol"], atol=tolerance["atol"] + rounding)


@needs_registers
@pytest.mark.parametrize(
    ("pipeline", "left", "right"),
    [
        ("linalg", (64, 64), (64, 64)), ("relax", (37, 100), (100, 33)), ("linalg", (33, 31), (31, 17)),
        ("linalg", (100, 70), (70, 50)), ("relax", (16, 96), (96, 130)), ("linalg", (2, 19, 64), (64, 40)),
        ("linalg", (3, 20, 40), (3, 40, 50)), ("linalg", (40, 9000), (9000, 20)),
    ],
)  # fmt: skip
def test_sizes_that_end_anywhere(pipeline, left, right, monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    a, b = halves(*left), halves(*right)
    kernel = product.compile(a, b, pipeline=pipeline)
    assert CALL in kernel.ir["scheduled"]
    check(kernel, torch.matmul, left[-1], a, b)


@needs_registers
def test_a_layer_on_rows_of_several_axes():
    x, w, bias = halves(2, 25, 80), halves(70, 80), halves(70)
    kernel = layer.compile(x, w, bias)
    assert CALL in kernel.ir["scheduled"]
    check(kernel, lambda x, w, bias: torch.relu(x @ w.T + bias), 80, x, w, bias)


@needs_registers
def test_turned_operands_are_copied():
    kernel = mt.jit(lambda a, b: (a.T @ b.T).float())
    a, b = halves(70, 40), halves(50, 70)
    check(kernel, lambda a, b: a.T @ b.T, 70, a, b)


@needs_registers
@pytest.mark.parametrize("columns", [70, 64])
def test_bound_weights_are_packed_once(columns):
    net = torch.nn.Linear(100, columns).requires_grad_(False)
    net.weight.copy_(random(columns, 100))
    net, x = net.bfloat16(), halves(2, 19, 100)
    kernel = mt.from_torch(net, (x,)).compile()
    scheduled = kernel.ir["scheduled"]
    assert CALL in scheduled
    assert "pack_weight" in scheduled
    assert "right = T.alloc_buffer" not in scheduled
    check(kernel, copy.deepcopy(net).double(), 100, x)


def test_a_cpu_without_them_has_tiles_of_vectors(monkeypatch):
    monkeypatch.setattr(matrix_tile, "has_matrix_registers", lambda: False)
    a, b = halves(37, 100), halves(100, 33)
    kernel = mt.jit(lambda a, b: (a @ b).float()).compile(a, b)
    assert CALL not in kernel.ir["scheduled"]
    check(kernel, torch.matmul, 100, a, b)


def test_a_process_that_may_not_use_them_has_none(monkeypatch):
    monkeypatch.setattr(cpu, "_may_use_matrix_registers", lambda: False)
    assert not any(flag.startswith("amx") for flag in cpu.cpu_flags.__wrapped__())
