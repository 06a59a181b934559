"""Write tensors to ``.npz`` files bit by bit: dtypes that NumPy's format lacks (bfloat16, 8-bit floats) as integers."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import as_dtype, find_stored
from mlirtri.errors import ArtifactError


def storable(value: object) -> np.ndarray:
    """Return a tensor or an array as an array of a dtype that NumPy's format has, with the same bits."""
    if not isinstance(value, np.ndarray):
        import torch  # a tensor is there, so it is loaded

        tensor = torch.from_dlpack(value) if not isinstance(value, torch.Tensor) else value
        tensor = tensor.detach().cpu().contiguous()
        as_bits = {1: torch.uint8, 2: torch.int16}.get(tensor.itemsize)
        has_array = not tensor.is_floating_point() or tensor.dtype == torch.float16
        return (tensor if has_array or as_bits is None else tensor.view(as_bits)).numpy()
    array = np.ascontiguousarray(value).reshape(value.shape)
    return array if array.dtype.isbuiltin != 2 else array.view(np.dtype(f"u{array.dtype.itemsize}"))


def restored(array: np.ndarray, dtype: str) -> Any:
    """Return a stored array as a torch tensor of its dtype, over the same memory."""
    import torch  # late: kernels without constants need none

    tensor, torch_dtype = torch.from_numpy(array), (find_stored(dtype) or as_dtype(dtype)).torch
    return tensor if tensor.dtype == torch_dtype else tensor.view(torch_dtype)


def write_tensors(path: Path, tensors: Mapping[int, Any]) -> None:
    """Write tensors under their numbers."""
    np.savez(path, **{str(number): storable(tensor) for number, tensor in tensors.items()})  # type: ignore[arg-type]


def read_tensors(path: Path) -> dict[int, np.ndarray]:
    """Return the arrays of a file by number; raises `ArtifactError`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {int(name): file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise ArtifactError(f"the tensors in {path} cannot be read: {problem}") from None
