"""Builds scheduled PrimFuncs, runs them on data of their own and takes the time: in the tuner's process only.

Takes a PrimFunc of static shapes and our target. Gives, of any schedule of it, what it computes and how long it takes.
Raises whatever TVM raises at a schedule that it cannot build; one that runs wild takes the process with it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import torch

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.lowering.codegen.build_modules import cuda_module, host_module
from mlirtri.lowering.codegen.targets import BUILD_PIPELINE, tvm_target
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, tvm

_SLOW = 4
"""How many times slower than the best a schedule may be and still be timed with care."""
_REPEATS, _MILLISECONDS = 3, 10
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far floats may be from those of the default schedule: sums in another order are no mistake, other terms are."""


class Trials:
    """The data that all schedules of one function run on."""

    def __init__(self, function: PrimFunc, target: Target):
        self.target = target
        self.device = tvm.cuda(0) if target.is_cuda else tvm.cpu(0)
        generator = torch.Generator().manual_seed(0)
        self.given = [_data(each, generator) for each in function.params]

    def build(self, function: PrimFunc) -> Built:
        """The compiled function, as the rooms after this one would compile it."""
        as_module = cuda_module if self.target.is_cuda else host_module
        module = as_module([("kernel", function)])
        return Built(self, tvm.tirx.build(module, target=tvm_target(self.target), pipeline=BUILD_PIPELINE))


class Built:
    """One schedule, compiled."""

    def __init__(self, trials: Trials, library: Any):
        self.library = library
        self.device = trials.device
        self.arguments = [tvm.runtime.from_dlpack(tensor.clone()) for tensor in trials.given]
        if trials.target.is_cuda:
            self.arguments = [each.copyto(trials.device) for each in self.arguments]

    def results(self) -> list[torch.Tensor]:
        """All arguments after one run: those that the function writes are among them."""
        self.library["kernel"](*self.arguments)
        self.device.sync()
        return [torch.from_dlpack(each.copyto(tvm.cpu(0))) for each in self.arguments]

    def seconds(self, best: float = inf) -> float:
        """Of a run: the median of a few rounds, or of one where that shows that it is far from the best."""
        once = self._timed(1, 0)[0]
        return once if once > _SLOW * best else sorted(self._timed(_REPEATS, _MILLISECONDS))[_REPEATS // 2]

    def _timed(self, repeat: int, milliseconds: int) -> list[float]:
        evaluate: Callable[..., Any] = self.library.time_evaluator(
            "kernel", self.device, number=1, repeat=repeat, min_repeat_ms=milliseconds
        )
        return [float(each) for each in evaluate(*self.arguments).results]


def agree(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Whether two schedules compute the same, up to the order of sums."""
    for got, wanted in zip(found, expected, strict=True):
        if wanted.dtype not in TOLERANCE:
            if not torch.equal(got, wanted):
                return False
            continue
        finite = wanted[wanted.isfinite()].abs().double()
        tolerance = TOLERANCE[wanted.dtype]
        scale = tolerance * float(finite.mean()) if finite.numel() else 0.0
        if not torch.allclose(got.double(), wanted.double(), rtol=tolerance, atol=scale, equal_nan=True):
            return False
    return True


def _data(buffer: Any, generator: torch.Generator) -> torch.Tensor:
    """Positive floats, so that sums do not cancel; zeros where integers may be positions."""
    shape, dtype = [int(extent) for extent in buffer.shape], DTYPES[str(buffer.dtype)].torch
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float32) + 0.5).to(dtype)
