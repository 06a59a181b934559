"""Find writes outside of buffers, and into buffers that are only read: the test mode ``MLIRTRI_RED_ZONES=1``.

    | zone: bytes 0xFF | the tensor | zone: bytes 0xFF |

Compiled code gets each argument, result and intermediate between two such zones, and nothing may have changed in them
after the call. Arguments are copies, which are compared with the arguments. Floats of bytes 0xFF are NaN: so is what
is read outside of a buffer, and an element of a result or an intermediate that nothing was written to.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from mlirtri.errors import RedZoneError

ZONE = 4096
"""Bytes at either end; what strays further is lost."""
_BYTE = 0xFF
_LINE = 64
"""Bytes of a cache line, to which compiled code may be aligned."""
_running = threading.local()


@dataclass
class _Buffer:
    name: str
    memory: torch.Tensor
    """All bytes, with both zones."""
    start: int
    tensor: torch.Tensor
    """The view that the compiled code gets."""
    original: torch.Tensor | None = None
    """The tensor that it is a copy of."""
    is_written: bool = True

    def problem(self) -> str | None:
        end = self.start + self.tensor.nbytes
        before, after = self.memory[: self.start] != _BYTE, self.memory[end:] != _BYTE
        if bool(after.any()):
            return f"wrote behind {self.name}, up to byte {int(after.nonzero()[-1]) + 1} past its end"
        if bool(before.any()):
            return f"wrote before {self.name}, from byte {self.start - int(before.nonzero()[0])} before its start"
        if not self.is_written and self.original is not None and not _are_same(self.tensor, self.original):
            return f"wrote into {self.name}, which it only reads"
        return None


class RedZones:
    """The buffers of one call of compiled code."""

    def __init__(self) -> None:
        self._buffers: list[_Buffer] = []

    def empty(
        self, name: str, shape: Sequence[int], dtype: torch.dtype, device: Any, line_offset: int = 0
    ) -> torch.Tensor:
        """Return a tensor of bytes 0xFF between zones, which starts `line_offset` bytes into a cache line."""
        size = prod(shape) * dtype.itemsize
        memory = torch.full((2 * ZONE + 2 * _LINE + size,), _BYTE, dtype=torch.uint8, device=device)
        start = ZONE + (line_offset - memory.data_ptr() - ZONE) % _LINE
        tensor = memory[start : start + size].view(dtype).view(tuple(shape))
        self._buffers.append(_Buffer(name, memory, start, tensor))
        return tensor

    def copy(self, name: str, tensor: torch.Tensor, is_written: bool) -> torch.Tensor:
        """Return a copy between zones, with the tensor's alignment; a tensor without elements as it is."""
        if not tensor.numel():
            return tensor
        copy = self.empty(name, tuple(tensor.shape), tensor.dtype, tensor.device, tensor.data_ptr() % _LINE)
        copy.copy_(tensor.detach())
        self._buffers[-1].original, self._buffers[-1].is_written = tensor, is_written
        return copy

    def check(self, kernel: str) -> None:
        """Raise `RedZoneError` for the buffers with other bytes around them."""
        if problems := [problem for buffer in self._buffers if (problem := buffer.problem())]:
            raise RedZoneError(f"{kernel}(): the compiled code {', and '.join(problems)}")


def current() -> RedZones | None:
    """Return the zones of the call that this thread is in; None outside of such calls."""
    return getattr(_running, "zones", None)


def launch_between_zones(
    kernel: str,
    executable: object,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    names: Sequence[str],
) -> None:
    """Launch `executable` on copies of the tensors between zones, then check them; raises `RedZoneError`.

    `names` are those of the inputs. An output that is an input's memory is written in place.
    """
    zones = RedZones()
    written = {tensor.data_ptr() for tensor in outputs if tensor.numel()}
    copies = [
        zones.copy(f"the argument {name!r}", tensor, tensor.numel() > 0 and tensor.data_ptr() in written)
        for name, tensor in zip(names, inputs, strict=True)
    ]
    in_place = {t.data_ptr(): copy for t, copy in zip(inputs, copies, strict=True) if t.numel()}
    results = [
        in_place[tensor.data_ptr()].view(tensor.dtype)
        if tensor.numel() and tensor.data_ptr() in in_place
        else _result(zones, position, tensor)
        for position, tensor in enumerate(outputs)
    ]
    _running.zones = zones
    try:
        executable.launch(copies, results)
    finally:
        _running.zones = None
    zones.check(kernel)
    for output, result in zip(outputs, results, strict=True):
        if output is not result:
            output.copy_(result)


def _result(zones: RedZones, position: int, tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return tensor
    offset = tensor.data_ptr() % _LINE
    return zones.empty(f"result {position}", tuple(tensor.shape), tensor.dtype, tensor.device, offset)


def _are_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.equal(first.reshape(-1).view(torch.uint8), second.detach().reshape(-1).view(torch.uint8))
