"""Copy arguments for runs that may write them, and restore the copies between runs.

Copies have the strides and read-only flags of the originals and share memory where the originals do, so that a kernel
takes and refuses what it would of the originals.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mlirtri.calls.arrays import as_array
from mlirtri.language.arguments import is_torch

Named = Mapping[str, Any]


def copied(named: Named) -> dict[str, Any]:
    """Return the arguments in memory of their own."""
    tensors = {name: value.detach() for name, value in named.items() if is_torch(value)}
    arrays = {name: value for name, value in named.items() if isinstance(value, np.ndarray)}
    # All tensors in one call, so that those of one storage share a copy of it.
    return {**named, **copy.deepcopy(tensors), **_copied_arrays(arrays)}


def restore(values: Named, originals: Named, names: Iterable[str]) -> None:
    """Give these arguments the contents of the originals."""
    for name in names:
        values[name][...] = originals[name]


def written(values: Named, originals: Named) -> tuple[str, ...]:
    """Return the names of tensors and arrays whose bytes differ from the originals'."""
    pairs = {
        name: (host_array(value), host_array(originals[name])) for name, value in values.items() if _is_data(value)
    }
    return tuple(
        name for name, (current, original) in pairs.items() if not np.array_equal(_bytes(current), _bytes(original))
    )


def host_array(value: object) -> np.ndarray:
    """Return a tensor's or a number's value as an array on the host, without a copy where there is one."""
    if is_torch(value):
        value = as_array(value.detach().cpu().resolve_conj().resolve_neg().contiguous())
    return np.asarray(value)


def _is_data(value: Any) -> bool:
    return is_torch(value) or isinstance(value, np.ndarray)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _copied_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    blocks: list[tuple[int, int]] = []
    for start, end in sorted(_extent(array) for array in arrays.values()):
        if blocks and start <= blocks[-1][1]:
            blocks[-1] = (blocks[-1][0], max(end, blocks[-1][1]))
        else:
            blocks.append((start, end))
    memory = {block: np.empty(block[1] - block[0], np.uint8) for block in blocks}
    return {name: _copied_array(array, memory) for name, array in arrays.items()}


def _copied_array(array: np.ndarray, memory: Mapping[tuple[int, int], np.ndarray]) -> np.ndarray:
    first = _extent(array)[0]
    start, buffer = next((start, content) for (start, end), content in memory.items() if start <= first <= end)
    copied = np.ndarray(array.shape, array.dtype, buffer, array.ctypes.data - start, array.strides)
    copied[...] = array
    copied.flags.writeable = array.flags.writeable
    return copied


def _extent(array: np.ndarray) -> tuple[int, int]:
    start = array.ctypes.data
    if array.size == 0:
        return start, start
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return start + sum(min(0, step) for step in reach), start + sum(max(0, step) for step in reach) + array.itemsize
