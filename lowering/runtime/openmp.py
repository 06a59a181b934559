"""Find the OpenMP runtimes that kernels have their threads from, if there are any.

That is torch's, where it has GNU's interface, and one with LLVM's (``libiomp5``, ``libomp``) for pipeline `mlir`: the
one that this process has loaded already, since two of them in one process end it; else that of the package
`intel-openmp`, or the system's. Without one, TVM has threads of its own, and code of pipeline `mlir` runs on one.
"""

from __future__ import annotations

import ctypes.util
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_NAMES = ("libiomp5", "libomp")
ENTRY = "__kmpc_fork_call"
"""The function by which code starts threads; GNU's runtime does not have it."""
INSTALL = "pip install 'mlirtri[openmp]'"


@cache
def runtime_library() -> str | None:
    """Load the OpenMP runtime and return its path."""
    library = _loaded() or _installed()
    if library is None or not _works(library):
        return None
    return library


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
    bundled = next((str(path) for path in packaged if path.is_file()), None)
    try:
        return bundled or ctypes.util.find_library("iomp5") or ctypes.util.find_library("omp")
    except OSError:  # Python asks the C compiler, which needs a folder for temporary files
        return None


def _works(path: str) -> bool:
    # By default, waiting threads spin for a fifth of a second on CPUs that torch's and TVM's threads need.
    os.environ.setdefault("KMP_BLOCKTIME", "1")
    try:
        return hasattr(ctypes.CDLL(path), ENTRY)
    except OSError:
        return False


class _Symbol(ctypes.Structure):
    """The result of ``dladdr``: first the file that contains an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    )


@cache
def torch_runtime() -> str | None:
    """Return the path of torch's OpenMP runtime if it has GNU's interface; does not import torch's wheels."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder, suffix = Path(spec.origin).parent / "lib", ".dylib" if sys.platform == "darwin" else ".so"
    bundled = sorted(folder.glob("libgomp*"))
    if "torch" not in sys.modules and len(bundled) == 1:
        return str(bundled[0])
    import torch  # noqa: F401  late: `mlirtri doctor` and pipeline `mlir` come here without it

    try:
        # The library that torch is linked with; the process may have other runtimes.
        start = ctypes.CDLL(str(folder / f"libtorch_cpu{suffix}")).GOMP_parallel
        find = ctypes.CDLL(None).dladdr
    except (OSError, AttributeError):
        return None
    symbol = _Symbol()
    is_found = find(ctypes.cast(start, ctypes.c_void_p), ctypes.byref(symbol))
    return os.fsdecode(symbol.file) if is_found and symbol.file else None
