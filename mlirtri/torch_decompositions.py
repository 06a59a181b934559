"""The operators that torch takes apart before torch-mlir sees them: torch-mlir's own table, and what it gets wrong.

Each function of ours computes what eager computes, with operators that torch-mlir lowers rightly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from mlirtri.dialect.mlir import torch_decompositions

aten = torch.ops.aten


def reciprocal(x: torch.Tensor) -> torch.Tensor:
    """torch-mlir asserts that no element is zero; eager gives infinity."""
    result = torch.result_type(x, 1.0)
    return torch.ones((), dtype=result, device=x.device) / x


def gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """torch-mlir has four digits of the constant of the approximation."""
    if approximate == "none":
        return NotImplemented
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)


OURS: dict[Any, Callable[..., Any]] = {
    aten.reciprocal.default: reciprocal,
    aten.gelu.default: gelu,
}


@cache
def decompositions() -> dict[Any, Any]:
    """For `ExportedProgram.run_decompositions` and AOTAutograd."""
    return {**torch_decompositions(), **OURS}
