"""The compilation target: a host CPU, a CUDA architecture, or SPIR-V for Vulkan. Knows neither TVM nor MLIR."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

from mlirtri import settings
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.core.cpu import cpu_facts

DEFAULT_CUDA_ARCHITECTURE = "sm_80"


@dataclass(frozen=True)
class Target:
    """A target: `kind` is ``"cpu"``, ``"cuda"`` or ``"spirv"``; `architecture` is ``sm_NN`` for CUDA, a version of
    Vulkan for SPIR-V, the CPU's digest otherwise."""

    kind: str
    architecture: str
    threads: int = 1
    row_tile: int | None = None
    """Rows that a row kernel (softmax, layer norm) computes at once; None lets its schedule choose.

    With a number it is one kernel, however long its rows are."""
    is_emulated: bool = False
    """Whether CUDA kernels run on a device that is emulated on the CPU."""

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    @property
    def device(self) -> str:
        """Return torch's name of the device whose tensors kernels take: ``"cuda"`` or ``"cpu"``."""
        return "cuda" if self.is_cuda and not self.is_emulated else "cpu"

    def __str__(self) -> str:
        if not self.is_cuda:
            return self.kind
        return f"cuda:emulated:{self.architecture}" if self.is_emulated else f"cuda:{self.architecture}"

    def emulated(self) -> Target:
        """Return the target with an emulated device; raises `UnknownOptionError` for a CPU."""
        if not self.is_cuda:
            raise UnknownOptionError("the CPU is not emulated", help='use target="cuda:emulated"')
        return replace(self, is_emulated=True)


@lru_cache(maxsize=1)
def host_cpu_digest() -> str:
    """Return a short hash of this CPU's model and feature flags, so that cache keys differ between CPUs."""
    facts = sorted({line for line in cpu_facts() if line.startswith(("flags", "model name", "Features"))})
    return blake2b("\n".join([platform.machine(), *facts]).encode(), digest_size=6).hexdigest()


@lru_cache(maxsize=1)
def host_cpu_name() -> str:
    """Return this CPU's name as its maker gives it, else its architecture."""
    names = (line.partition(":")[2].strip() for line in cpu_facts() if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def host_threads() -> int:
    """Return the number of threads that code is scheduled for: CPUs this process may use, or ``MLIRTRI_NUM_THREADS``.

    `runtime.torch_threads` decides at each call how many run.
    """
    if (setting := settings.get("MLIRTRI_NUM_THREADS")) is not None:
        return setting
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_target(target: str | Target) -> Target:
    """Return the target that `target` names; raises `UnknownOptionError` otherwise."""
    if isinstance(target, Target):
        return target
    if target == "cpu":
        return Target("cpu", host_cpu_digest(), host_threads(), settings.get("MLIRTRI_ROW_TILE"))
    if target == "spirv":
        return Target("spirv", "vulkan1.1")
    if isinstance(target, str) and (match := re.fullmatch(r"(cuda|gpu):emulated(:.+)?", target)):
        return as_target(match.group(1) + (match.group(2) or "")).emulated()
    if target in ("gpu", "cuda"):
        return as_target(f"cuda:{DEFAULT_CUDA_ARCHITECTURE}")
    # Volta or newer: older architectures lack instructions that the schedules use.
    if isinstance(target, str) and (match := re.fullmatch(r"(?:cuda|gpu):(sm_(?:[7-9]\d|1[0-2]\d)a?)", target)):
        return Target("cuda", match.group(1), row_tile=settings.get("MLIRTRI_ROW_TILE"))
    raise UnknownOptionError(
        f"unknown target {target!r}",
        help='use "cpu", "gpu", "cuda", "cuda:sm_90" (or another), "cuda:emulated" without a GPU, or "spirv"',
    )
