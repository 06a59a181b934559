"""The OpenMP runtime that pipeline `mlir` has its threads from, if there is one.

Takes nothing. Gives the path of a library with LLVM's interface (``libiomp5``, ``libomp``): the one that this process
has loaded already, since two of them in one process end it; else that of the package `intel-openmp`, or the system's.
None where there is none, and code of this pipeline runs on one thread.
"""

from __future__ import annotations

import ctypes.util
import os
import sys
from functools import lru_cache
from pathlib import Path

_NAMES = ("libiomp5", "libomp")
ENTRY = "__kmpc_fork_call"
"""What code calls to start threads; GNU's runtime does not have it."""


INSTALL = "pip install 'mlirtri[openmp]'"


@lru_cache(maxsize=1)
def runtime_library() -> str | None:
    """The path of the runtime, which is loaded then."""
    found = _loaded() or _installed()
    if found is None or not _works(found):
        return None
    return found


def _loaded() -> str | None:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and "/" in line)
    return next((path for path in paths if Path(path).name.startswith(_NAMES)), None)


def _installed() -> str | None:
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    folders = (Path(prefix) / "lib" for prefix in (sys.prefix, sys.base_prefix))
    packaged = (folder / f"{name}{suffix}" for folder in folders for name in _NAMES)
    own = next((str(path) for path in packaged if path.is_file()), None)
    return own or ctypes.util.find_library("iomp5") or ctypes.util.find_library("omp")


def _works(path: str) -> bool:
    # If not told, threads that wait for work burn the CPUs that torch's and TVM's need for a fifth of a second.
    os.environ.setdefault("KMP_BLOCKTIME", "1")
    try:
        return hasattr(ctypes.CDLL(path), ENTRY)
    except OSError:
        return False
