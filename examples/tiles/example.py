"""An example: a tile kernel, its arguments, and the same in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import mlirtri as mt


@dataclass(frozen=True)
class Example:
    """A kernel that writes its last argument."""

    name: str
    kernel: Callable[..., Any]
    """A Python function; `mlirtri.jit` compiles it."""
    make: Callable[[int], tuple[torch.Tensor, ...]]
    """From a scale, 1 for tests, to the arguments that it reads."""
    reference: Callable[..., torch.Tensor]
    """From those arguments to the result, by torch."""
    dtype: torch.dtype = torch.float32
    """Of the result."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Block sizes and other compile-time arguments of the tests."""
    tolerance: float = 1e-4

    def call(self, pipeline: str, inputs: tuple[torch.Tensor, ...], **constants: Any) -> torch.Tensor:
        """Return what the kernel computes in a pipeline."""
        expected = self.reference(*inputs)
        out = torch.zeros(expected.shape, dtype=self.dtype)
        mt.jit(self.kernel, pipeline=pipeline)(*inputs, out, **{**self.constants, **constants})
        return out

    def error(self, pipeline: str, scale: int = 1) -> float:
        """Return the largest difference to torch, in terms of its largest number."""
        torch.manual_seed(0)
        inputs = self.make(scale)
        expected = self.reference(*inputs).double()
        return float((self.call(pipeline, inputs).double() - expected).abs().max() / expected.abs().max())
