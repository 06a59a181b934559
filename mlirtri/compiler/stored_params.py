"""The tensors that a dumped kernel is bound to, in a file beside its stages: ``params.npz``, in the manifest's order.

Takes tensors by name, and the bound parameters of an interface. Every dtype keeps its bits: those that NumPy's format
lacks are stored as integers, and the manifest knows better. Refuses a file that does not have what the manifest says.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlirtri.errors import ParseError, Span
from mlirtri.lowering.core.interface import TensorParameter

FILE = "params.npz"


def write_params(folder: Path, bound: Sequence[TensorParameter], params: Mapping[str, Any]) -> None:
    """Write the tensors of a kernel; nothing where it has none, or not all."""
    if bound and all(each.name in params for each in bound):
        np.savez(folder / FILE, *(_bits(params[each.name]) for each in bound))


def read_params(folder: Path, bound: Sequence[TensorParameter]) -> dict[str, Any]:
    """The tensors of the kernel dumped in `folder`; none where there is no file. Raises `ParseError`."""
    path = folder / FILE
    if not bound or not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[f"arr_{at}"] for at in range(len(bound))]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise ParseError(f"these parameters cannot be read: {problem}", Span(str(path), 1, 1)) from None
    return {each.name: _tensor(array, each, path) for each, array in zip(bound, arrays, strict=True)}


def _bits(value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        import torch

        tensor = value.detach().cpu().contiguous()
        as_bits = {1: torch.uint8, 2: torch.int16}.get(tensor.itemsize)
        has_array = not tensor.is_floating_point() or tensor.dtype == torch.float16 or as_bits is None
        return (tensor if has_array else tensor.view(as_bits)).numpy()
    array = np.ascontiguousarray(value).reshape(value.shape)
    return array if array.dtype.isbuiltin != 2 else array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _tensor(array: np.ndarray, parameter: TensorParameter, path: Path) -> np.ndarray:
    wanted, shape = parameter.type.dtype.numpy, tuple(parameter.type.shape)
    if array.shape != shape or array.dtype.itemsize != wanted.itemsize:
        found = f"{array.dtype}{list(array.shape)}"
        raise ParseError(f"{parameter.name!r} is a {parameter.type}, this file has {found}", Span(str(path), 1, 1))
    return array if array.dtype == wanted else array.view(wanted)
