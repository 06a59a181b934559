"""Find out, at each call, whether a weight was written of which a kernel has a packed copy.

torch counts writes by its own operations. Writes through ``.data``, NumPy or another process change no count: some
bytes of each weight are compared as well, which finds a write of a whole tensor, and may miss one of a few elements.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

SAMPLES = 64
"""Words of four bytes that are compared of each weight, about 0.3 µs."""


class WeightWatch:
    """The state of some tensors at one moment."""

    def __init__(self, weights: Iterable[torch.Tensor]):
        self._counted = [weight for weight in weights if not weight.is_inference()]
        self._versions = [weight._version for weight in self._counted]
        self._samples = [sample for weight in weights if (sample := _sample(weight)) is not None]
        self._words = [sample.tobytes() for sample in self._samples]

    def is_changed(self) -> bool:
        """Return whether torch has counted a write since then, or a sampled element differs."""
        if [weight._version for weight in self._counted] != self._versions:
            return True
        return [sample.tobytes() for sample in self._samples] != self._words


def _sample(weight: torch.Tensor) -> np.ndarray | None:
    """Return a view of some words of a tensor's memory; None for what is not in main memory."""
    if weight.device.type != "cpu" or weight.layout != torch.strided or not weight.numel():
        return None
    storage = torch.empty(0, dtype=torch.uint8).set_(weight.detach().untyped_storage())  # type: ignore[arg-type]
    first = weight.storage_offset() * weight.element_size()
    last = first + (1 + sum((n - 1) * step for n, step in zip(weight.shape, weight.stride(), strict=True))) * (
        weight.element_size()
    )
    memory = storage.numpy()[first:last]
    words = memory[: len(memory) // 4 * 4].view(np.uint32) if len(memory) >= 4 and first % 4 == 0 else memory
    # An odd step: a power of two would look at one column of a matrix.
    step = max(1, len(words) // SAMPLES) | 1
    return words[::step][:SAMPLES]
