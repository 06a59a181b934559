"""Facts about this CPU, from which schedules choose tile sizes: caches, vector registers, what a thread costs."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlirtri import settings

PARALLEL_ITERATIONS = 32768
"""Loop bodies below which a second thread costs more than it saves: a launch takes about 3 µs."""
PARALLEL_VECTORS = 65536
"""The same in vector operations of tiles: some ten microseconds."""
PARALLEL_STEPS = 65536
"""The same in steps of loops that a user wrote, of which a plain statement is one."""
PARALLEL_ELEMENTS = 1 << 16
"""The same in elements of a structured operation, on OpenMP's threads."""
PARALLEL_MULTIPLICATIONS = 1 << 18
"""The same in multiplications of a contraction, on OpenMP's threads."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_COMMON = {1: 32 * 1024, 2: 512 * 1024, 3: 8 * 1024 * 1024}
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux's system call on x86-64, its request for a component of the registers' state, and AMX's component."""
_UNITS = {"K": 1024, "M": 1024 * 1024}


def profitable(condition: bool) -> bool:
    """Return whether a profitability condition holds: always, where ``MLIRTRI_FORCE_SCHEDULES`` is set."""
    return condition or settings.get("MLIRTRI_FORCE_SCHEDULES")


@lru_cache(maxsize=1)
def cache_bytes() -> dict[int, int]:
    """Return the bytes of the data cache of each level, 1 to 3."""
    return {**_COMMON, **_reported_sizes()}


def _reported_sizes() -> dict[int, int]:
    sizes: dict[int, int] = {}
    for cache in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = ((cache / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size[:-1]) * _UNITS[size[-1]]
        except (OSError, ValueError, KeyError):  # not every system reports all levels
            continue
    return sizes


def has_matrix_registers() -> bool:
    """Return whether this CPU has AMX for bf16, and the system lets this process use it."""
    return {"amx_tile", "amx_bf16"} <= cpu_flags()


@lru_cache(maxsize=1)
def cpu_facts() -> tuple[str, ...]:
    """Return the lines by which Linux describes this machine's CPUs; empty elsewhere."""
    try:
        return tuple(Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        return ()


@dataclass(frozen=True)
class Registers:
    """The vector registers of a CPU: their width in bits, and how many there are."""

    bits: int
    count: int


@lru_cache(maxsize=1)
def cpu_flags() -> frozenset[str]:
    """Return the feature flags of an x86 CPU that Linux reports, like ``avx2``; empty elsewhere.

    Those of AMX are left out where Linux does not let this process use it, which has to be asked for.
    """
    line = next((line for line in cpu_facts() if line.startswith("flags")), "")
    flags = frozenset(line.partition(":")[2].split())
    if "amx_tile" in flags and not _may_use_matrix_registers():
        return frozenset(flag for flag in flags if not flag.startswith("amx"))
    return flags


def _may_use_matrix_registers() -> bool:
    """Ask Linux for the state of AMX's registers in this process, all its threads and its children."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0


@lru_cache(maxsize=1)
def simd_registers() -> Registers:
    """Return this CPU's vector registers: by x86's flags, else 16 or 32 of 128 bits, which every 64-bit CPU has."""
    flags = cpu_flags()
    if "avx512f" in flags:
        return Registers(512, 32)
    if "avx2" in flags:
        return Registers(256, 16)
    return Registers(128, 16 if platform.machine() in ("x86_64", "AMD64") else 32)
