"""Link object files of compiled kernels to shared libraries with the machine's C compiler, and look functions up.

Linking is for artifacts: kernels that run in the process that compiled them are never linked.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from mlirtri.errors import CodegenError

_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-Wl,--build-id=none")
"""A library calls its own functions, whatever else is loaded; those that nothing defines are an error here."""


class SharedLibrary:
    """A shared library of code that MLIR compiled."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._library = ctypes.CDLL(str(path))

    def raw_lookup(self, symbol: str) -> int | None:
        """Return the address of the function for `symbol` that takes a table of addresses, as MLIR's engine does."""
        function = getattr(self._library, f"_mlir_{symbol}", None)
        return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def linker() -> list[str]:
    """Return the command that links; raises `CodegenError` if there is none."""
    if compiler := os.environ.get("CC"):
        return shlex.split(compiler)
    if found := next((path for name in _COMPILERS if (path := shutil.which(name))), None):
        return [found]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CodegenError(
        "compiled kernels cannot be written to files without a C compiler, which links them",
        help="install one (gcc or clang), name it in CC, or `pip install ziglang`",
    )


def link(objects: Sequence[Path], library: Path, libraries: Sequence[str] = ()) -> None:
    """Link `objects` to a shared library that needs `libraries` besides C's; raises `CodegenError`."""
    command = [*linker(), *_OPTIONS, "-o", str(library), *map(str, objects), *libraries, "-lm"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        # The last line of ld's own; gcc's after it says only that ld failed.
        lines = [line for line in finished.stderr.strip().splitlines() if not line.startswith("collect2")]
        reason = (lines or ["no reason given"])[-1]
        raise CodegenError(
            f"the linker made no shared library: {reason}", help=f"the command was {shlex.join(command)}"
        )


def written(write: Callable[[str], None]) -> bytes:
    """Return what `write` puts into the file of a name: in memory, since LLVM ends the process where a disk is full."""
    with os.fdopen(os.memfd_create("kernel.o"), "rb") as file:
        write(f"/proc/self/fd/{file.fileno()}")
        file.seek(0)
        return file.read()
