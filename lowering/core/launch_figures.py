"""What one launch of a CUDA kernel takes, without a device: threads, memory, barriers, registers, occupancy.

Occupancy is the share of a multiprocessor's warps that fit at the same time, by the formula of NVIDIA's occupancy
calculator. Its limits are those of "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide;
registers are allocated to warps in units of 256, warps in groups of 4, and a block reserves 1 KiB of shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.core.tracebacks import public_class


@dataclass(frozen=True)
class Multiprocessor:
    """What a multiprocessor of an architecture has."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int


ARCHITECTURES = {
    "sm_80": Multiprocessor(64, 32, 65536, 164 * 1024),
    "sm_90": Multiprocessor(64, 32, 65536, 228 * 1024),
    "sm_100": Multiprocessor(64, 32, 65536, 228 * 1024),
}
WARP = 32
_REGISTER_UNIT, _WARP_UNIT, _SHARED_UNIT, _RESERVED_SHARED = 256, 4, 128, 1024


def multiprocessor_of(architecture: str) -> Multiprocessor | None:
    """Return the limits of an architecture, ``sm_90a`` those of ``sm_90``; None where they are not known."""
    return ARCHITECTURES.get(architecture.removesuffix("a"))


def most_shared_bytes(architecture: str) -> int:
    """Return the shared memory that a block may request at launch; 99 KiB, the least since sm_80, of other devices."""
    device = multiprocessor_of(architecture)
    return device.shared_bytes - _RESERVED_SHARED if device else 99 * 1024


@dataclass(frozen=True)
class Compiled:
    """What nvcc made of a kernel."""

    registers: int
    """Of each thread."""
    spill_bytes: int
    """Written to and read from local memory by each thread because registers are too few."""


@dataclass(frozen=True)
class Resources:
    """What a launch takes of a multiprocessor of one architecture."""

    architecture: str
    registers: int | None
    """Of each thread; None without nvcc."""
    spill_bytes: int | None
    """None without nvcc."""
    blocks: int
    """Blocks that fit on a multiprocessor at the same time."""
    occupancy: float
    """The share of its warps that they are; without nvcc as if registers were no limit."""


@public_class("resources")
@dataclass(frozen=True)
class LaunchFigures:
    """One launch of a CUDA kernel."""

    kernel: str
    grid: tuple[int | None, int | None, int | None]
    """Blocks; None where a size is known at run time only."""
    block: tuple[int, int, int]
    """Threads of a block."""
    shared_bytes: int
    """Shared memory of a block."""
    barriers: int
    """Barriers that a thread meets; of loops whose length is known at run time only, those of one iteration."""
    bytes: int | None
    """The buffers that it takes, each once."""
    compiled: Callable[[str], Compiled | None] = field(repr=False, compare=False, default=lambda _architecture: None)
    """Returns what nvcc makes of it for an architecture."""

    @property
    def threads(self) -> int:
        """Return the threads of a block."""
        return prod(self.block)

    def resources(self, architecture: str = "sm_80") -> Resources:
        """Return what it takes of a multiprocessor; runs nvcc, if there is one.

        Raises `UnknownOptionError` for an architecture other than ``sm_80``, ``sm_90`` and ``sm_100``.
        """
        if (device := multiprocessor_of(architecture)) is None:
            raise UnknownOptionError(
                f"no figures of {architecture!r} are known", help=f"those of {', '.join(ARCHITECTURES)} are"
            )
        compiled = self.compiled(architecture)
        registers, spill_bytes = (compiled.registers, compiled.spill_bytes) if compiled else (None, None)
        blocks = blocks_at_once(device, self.threads, self.shared_bytes, registers)
        warps = -(-self.threads // WARP)
        return Resources(architecture, registers, spill_bytes, blocks, blocks * warps / device.warps)


def blocks_at_once(device: Multiprocessor, threads: int, shared_bytes: int, registers: int | None) -> int:
    """Return how many blocks a multiprocessor holds at the same time: 0 for a block that takes too much."""
    warps = -(-threads // WARP)
    shared = _rounded(shared_bytes, _SHARED_UNIT) + _RESERVED_SHARED
    limits = [device.blocks, device.warps // warps, device.shared_bytes // shared]
    if registers:
        of_warp = _rounded(registers * WARP, _REGISTER_UNIT)
        limits.append(device.registers // of_warp // _WARP_UNIT * _WARP_UNIT // warps)
    return min(limits)


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit
