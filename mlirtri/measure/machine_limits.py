"""What this machine can do at most: arithmetic per second, and bytes per second by how much memory is touched.

Measured with torch, in a second or two, and kept in the user's cache folder; again where a kernel is faster.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlirtri.lowering.core.target import host_cpu_digest, host_threads
from mlirtri.settings import cache_folder

FOOTPRINTS = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 27)
"""Bytes that are copied: within a core's caches, within the last cache, in memory."""
_PRODUCT = 384
"""Rows and columns of the matrices whose product is timed."""
_SECONDS = 0.2
"""What timing one of them takes at least."""


@dataclass(frozen=True)
class Limits:
    """What this machine can do at most: the two limits of its roofline."""

    flops: float
    """Floating-point operations per second of a large product of fp32 matrices."""
    bytes_by_footprint: dict[int, float]
    """Bytes read and written per second by a copy, by the bytes that it touches."""

    def least_seconds(self, flops: int | None, moved: int | None) -> float:
        """Return the least time for so many operations and bytes."""
        return max((flops or 0) / self.flops, (moved or 0) / self.bandwidth(moved or 0))

    def bandwidth(self, footprint: int) -> float:
        """Return the bytes per second of a copy that touches so many bytes.

        Between two measured sizes the rate follows the logarithm of the size; outside of them it is the nearest one's.
        """
        sizes = sorted(self.bytes_by_footprint)
        rates = [self.bytes_by_footprint[size] for size in sizes]
        return float(np.interp(math.log(max(1, footprint)), [math.log(size) for size in sizes], rates))


@cache
def limits() -> Limits:
    """Return the limits of this machine with the threads that kernels may use; measured if no file has them."""
    try:
        data = json.loads(_file().read_text())
        return Limits(data["flops"], {int(size): rate for size, rate in data["bytes_by_footprint"].items()})
    except (OSError, ValueError, KeyError):
        return _kept(_measured())


@cache
def raised_limits() -> Limits:
    """Return the limits measured once more, or those before where they are higher; kept from now on.

    For kernels that are faster than the limits allow: other programs ran when those were measured.
    """
    before, now = limits(), _measured()
    rates = {size: max(rate, now.bytes_by_footprint[size]) for size, rate in before.bytes_by_footprint.items()}
    raised = _kept(Limits(max(before.flops, now.flops), rates))
    limits.cache_clear()
    return raised


def _file() -> Path:
    # The number of sizes: an earlier version measured others.
    return cache_folder() / f"roofline-{host_cpu_digest()}-{host_threads()}-{len(FOOTPRINTS)}.json"


def _kept(measured: Limits) -> Limits:
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps(asdict(measured)))
    except OSError:
        # A read-only folder: measured again by the next process.
        pass
    return measured


def _measured() -> Limits:
    # One thread times the number of threads: a barrier of threads costs as much as a small product where others run.
    before, threads = torch.get_num_threads(), host_threads()
    torch.set_num_threads(1)
    try:
        left, right = torch.randn(2, _PRODUCT, _PRODUCT)
        seconds = _least(lambda: torch.mm(left, right))
        rates = {size: size / _least(_copy_of(size)) for size in FOOTPRINTS}
        cached = {size: rate * threads for size, rate in rates.items() if size < FOOTPRINTS[-1]}
        torch.set_num_threads(threads)
        memory = max(rates[FOOTPRINTS[-1]], FOOTPRINTS[-1] / _least(_copy_of(FOOTPRINTS[-1])))
    finally:
        torch.set_num_threads(before)
    return Limits(threads * 2 * _PRODUCT**3 / seconds, {**cached, FOOTPRINTS[-1]: memory})


def _copy_of(footprint: int) -> Callable[[], Any]:
    source = torch.zeros(footprint // 8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _least(call: Callable[[], Any]) -> float:
    call()
    times, end = [], time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
