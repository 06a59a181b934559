"""Arguments and results of `mlirtri run` in NumPy's files: ``--input``, ``--output``, ``--check-against FILE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelTypeError, KernelValueError, SourceNotAvailableError, UnknownOptionError
from mlirtri.language.names import Tensor
from mlirtri.sources.packed_files import INPUTS, arrays_in

SUFFIXES = (".npy", ".npz")


def read_inputs(given: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the arrays of ``NAME=FILE.npy`` and ``FILE.npz``, by argument; raises `KernelError`."""
    arrays: dict[str, np.ndarray] = {}
    for text in given:
        name, equals, file = text.rpartition("=")
        whole = read_packed(Path(file), INPUTS) or read_arrays(Path(file))
        contents = {name: _only(file, whole)} if equals else whole
        if repeated := sorted(contents.keys() & arrays.keys()):
            raise UnknownOptionError(f"--input {repeated[0]} is given twice")
        arrays |= contents
    return arrays


def read_packed(file: Path, name: str) -> dict[str, np.ndarray] | None:
    """Return the arrays `name` of a file that `mlirtri repro` wrote; None for another file."""
    if file.suffix in SUFFIXES or not file.is_file():
        return None
    return arrays_in(file.read_text(errors="replace"), name)


def _only(file: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    if len(arrays) != 1:
        raise KernelValueError(f"{file} holds {', '.join(arrays)}", help=f"say --input {file} for all of them")
    return next(iter(arrays.values()))


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` by name, or the one of an ``.npy`` as ``result``; nothing is unpickled."""
    if file.suffix not in SUFFIXES:
        raise UnknownOptionError(f"{file} is no file of arrays", help="write --input NAME=FILE.npy or --input FILE.npz")
    try:
        loaded = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise SourceNotAvailableError(f"there is no file {file}") from None
    except (ValueError, OSError, EOFError) as error:
        raise SourceNotAvailableError(f"{file} does not load: {error}") from None
    return {"result": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}


def abstract(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the types of arrays, as ``--arg`` gives them; those of dtypes that NumPy's files lose are left out."""
    dtypes = {name: find_dtype(array.dtype) for name, array in arrays.items()}
    return {name: Tensor(arrays[name].shape, dtype) for name, dtype in dtypes.items() if dtype is not None}


def typed(name: str, array: np.ndarray, of: TensorType) -> np.ndarray:
    """Return an array of a file with the parameter's dtype: bfloat16 and fp8 are bare bytes in NumPy's files."""
    wanted = np.dtype(of.dtype.numpy)
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    if array.dtype != wanted:
        raise KernelTypeError(f"--input {name} is {array.dtype}, the parameter {of}", help=f"convert it to {of.dtype}")
    return array


def named_results(result: object, name: str = "result") -> dict[str, np.ndarray]:
    """Return a kernel's results by name: ``result``, or ``result0``, ``result1``… of a tuple, and so on inside."""
    if result is None:
        return {}
    if isinstance(result, (tuple, list)):
        parts = [named_results(part, f"{name}{index}") for index, part in enumerate(result)]
        return {key: value for part in parts for key, value in part.items()}
    if hasattr(result, "detach"):
        from mlirtri.calls.arrays import as_array  # loads torch

        return {name: np.asarray(as_array(result.detach().cpu().resolve_conj().resolve_neg(), True))}
    return {name: np.asarray(result)}


def check_output(file: Path | None) -> None:
    """Raise `UnknownOptionError` for a file that `write_results` does not write."""
    if file is not None and file.suffix not in SUFFIXES:
        raise UnknownOptionError(f"--output {file}: results are written as .npy or .npz")


def write_results(file: Path, results: Mapping[str, np.ndarray]) -> None:
    """Write results to an ``.npz`` by name, or the only one to an ``.npy``; raises `KernelError`."""
    if file.suffix == ".npz":
        arrays: dict[str, Any] = dict(results)
        np.savez(file, **arrays)
        return
    if len(results) != 1:
        names = ", ".join(results) or "nothing"
        raise KernelValueError(f"an .npy file holds one array; the kernel gives {names}", help="write an .npz")
    np.save(file, next(iter(results.values())))
