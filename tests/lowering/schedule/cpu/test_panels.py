"""Panels of a right operand, for products with rows of run-time size; test_cpu_matmul has those of known sizes."""

from __future__ import annotations

import pytest
import torch
from tolerances import within
from tvm_stage_helpers import random

import mlirtri as mt
from mlirtri.lowering.schedule.cpu.matmul import nest, panels, rule


@pytest.mark.parametrize(("threads", "turns"), [(1, False), (2, True)])
def test_columns_are_copied_for_each_chunk_of_rows_of_run_time(threads, turns, monkeypatch):
    for each in (rule, nest, panels):
        monkeypatch.setattr(each, "cache_bytes", lambda: (0, 4096, 1 << 16, 1 << 20))
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(threads))

    @mt.jit
    def product(a: mt.Tensor[[mt.dyn, 300], mt.float32], b, turns):
        return a @ b.T if turns else a @ b

    b = random(70, 300) if turns else random(300, 70)
    for rows in (0, 1, 50, 700):
        a = random(rows, 300)
        expected = a.double() @ (b.T if turns else b).double()
        torch.testing.assert_close(product(a, b, turns), expected.float(), **within("float32", 300))
    assert "panel = " in product.compile(a, b, turns).ir["scheduled"]
