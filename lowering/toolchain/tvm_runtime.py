"""The part of TVM that runs compiled code, without its compiler: `tvm_ffi` and the runtime library.

The compiler's library takes a second to load, and what runs compiled kernels needs none of it. `tvm_names` loads both.
Refuses versions of apache-tvm and apache-tvm-ffi other than those the package pins: a newer apache-tvm-ffi crashes the
process (`tvm.ir.save_json` of any TIR node) instead of raising.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlirtri.errors import CodegenError

PINNED = {"apache-tvm": ("0.27.0.post1",), "apache-tvm-ffi": ("0.1.14.post1", "0.1.14.post0")}
_WITHOUT_TORCH = "TVM_FFI_DISABLE_TORCH_C_DLPACK"
"""The variable that keeps `tvm_ffi` from importing torch, whose tensors bring what it needs along."""
CPU, POOLED = 1, 2
"""DLPack's number of the CPU; the virtual machine's number of the allocator that keeps memory."""


def installed_version(package: str) -> str | None:
    """Return the version of a package, as pip names it; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def check_versions() -> None:
    """Raise `CodegenError` with the pip command unless the installed TVM packages are those that are known to work."""
    found = {name: installed_version(name) for name in PINNED}
    wrong = {name: installed for name, installed in found.items() if installed not in PINNED[name]}
    if not wrong:
        return
    installed = ", ".join(f"{name} {installed or 'is not installed'}" for name, installed in wrong.items())
    pinned = " ".join(f'"{name}=={versions[0]}"' for name, versions in PINNED.items())
    raise CodegenError(f"TVM's packages do not fit: {installed}", help=f"pip install {pinned}")


@cache
def runtime() -> Any:
    """Return the module `tvm_ffi`, with TVM's runtime loaded for all compiled code; raises `CodegenError`."""
    check_versions()
    if "torch" not in sys.modules:
        os.environ.setdefault(_WITHOUT_TORCH, "1")
    with without_torch():
        import tvm_ffi  # loads its library

    runtime_library()
    return tvm_ffi


@contextlib.contextmanager
def without_torch() -> Iterator[None]:
    """Let no import of this thread load torch, which `tvm_ffi` tries to load first and can do without."""
    thread = threading.get_ident()

    class Refusing:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name == "torch" and threading.get_ident() == thread:
                raise ModuleNotFoundError("torch is not loaded yet", name=name)

    sys.meta_path.insert(0, Refusing)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.meta_path.remove(Refusing)  # type: ignore[arg-type]


@cache
def runtime_library() -> ctypes.CDLL:
    """Load TVM's runtime, whose functions compiled code finds by name."""
    return _loaded("tvm_runtime")


@cache
def machine_library() -> ctypes.CDLL:
    """Return the library with Relax's virtual machine, which is loaded at the first call."""
    runtime()
    return _loaded("tvm_runtime_extra")


def core_library() -> ctypes.CDLL:
    """Return the library of `tvm_ffi`."""
    return runtime().LIB


def _loaded(name: str) -> ctypes.CDLL:
    spec = find_spec("tvm")
    if spec is None or not spec.submodule_search_locations:
        raise CodegenError("TVM's runtime is not installed", help="pip install apache-tvm")
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    return ctypes.CDLL(str(Path(spec.submodule_search_locations[0], "lib", f"lib{name}{suffix}")), ctypes.RTLD_GLOBAL)


def load_library(path: Path) -> Any:
    """Return the runtime module of a shared library that `export_library` or our linker made."""
    return runtime().load_module(str(path))


def start_machine(module: Any) -> Any:
    """Return a virtual machine for a module with Relax functions, on the CPU; it is not thread-safe."""
    machine_library()
    machine = module["vm_load_executable"]()
    machine["vm_initialization"](CPU, 0, POOLED)
    return machine


def why_no_cuda() -> str | None:
    """Load TVM's runtime for CUDA, unless TVM has done so; return why there is none, or None."""
    if _has_cuda():
        return None
    try:
        _loaded("tvm_runtime_cuda")
    except OSError as problem:
        return str(problem)
    return None if _has_cuda() else "it has no device"


def _has_cuda() -> bool:
    return runtime().get_global_func("device_api.cuda", allow_missing=True) is not None
