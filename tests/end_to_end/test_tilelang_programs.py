"""Programs of TileLang's users compute what torch does, in two pipelines on the CPU and as emulated CUDA source."""

from __future__ import annotations

import pytest
import torch
from combinations import in_turn
from tilelang_programs import PROGRAMS

import mlirtri.tile as T

WAYS = {"linalg": {}, "mlir": {"pipeline": "mlir"}, "cuda": {"target": "cuda:emulated"}}


@pytest.mark.parametrize(("name", "way"), in_turn(PROGRAMS, WAYS))
def test_a_program_computes_what_torch_does(name, way):
    make, inputs, reference = PROGRAMS[name]
    torch.manual_seed(0)
    arguments = inputs()
    kernel = make()
    got = T.compile(kernel.function, kernel.results, **WAYS[way])(*arguments)
    expected = reference(*arguments)
    for result, right in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)], strict=True):
        tolerance = 2e-3 * float(right.abs().max()) if result.dtype == torch.float16 else 1e-4
        torch.testing.assert_close(result.double(), right.double(), rtol=2e-3, atol=tolerance)
