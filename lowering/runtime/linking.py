"""Link object files of compiled kernels to shared libraries, and look functions up in them.

The machine's C compiler links; where there is none, `shared_objects` does. Linking is for artifacts: kernels that run
in the process that compiled them are never linked.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from mlirtri.errors import CodegenError
from mlirtri.lowering.runtime.shared_objects import shared_object

_COMPILERS = ("cc", "gcc", "clang")
_SYSTEM = ("libm.so.6", "libc.so.6")
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


def compiler(variable: str = "CC", names: Sequence[str] = _COMPILERS) -> list[str] | None:
    """Return the command of the C compiler that links: the one that ``CC`` names, or the system's; None if none.

    With another variable and other names it is the compiler of another language.
    """
    if named := os.environ.get(variable):
        return shlex.split(named)
    return next(([path] for name in names if (path := shutil.which(name))), None)


def link(objects: Sequence[Path], library: Path, libraries: Sequence[str] = ()) -> None:
    """Link `objects` to a shared library that needs `libraries` besides C's; raises `CodegenError`."""
    if (command := compiler()) is None:
        _link_here(objects, library, libraries)
        return
    command = [*command, *_OPTIONS, "-o", str(library), *map(str, objects), *libraries, "-lm"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise CodegenError(f"the C compiler does not run: {problem}", help="name another one in CC") from None
    if finished.returncode != 0:
        # The last line of ld's own; gcc's after it says only that ld failed.
        lines = [line for line in finished.stderr.strip().splitlines() if not line.startswith("collect2")]
        reason = (lines or ["no reason given"])[-1]
        raise CodegenError(
            f"the linker made no shared library: {reason}", help=f"the command was {shlex.join(command)}"
        )


def _link_here(objects: Sequence[Path], library: Path, libraries: Sequence[str]) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise CodegenError(
            "compiled kernels cannot be written to files here without a C compiler, which links them",
            help="install one (gcc or clang), or name it in CC",
        )
    needed = [*(Path(dependency).name for dependency in libraries), *_SYSTEM]
    data, undefined = shared_object([path.read_bytes() for path in objects], needed)
    loaded = [ctypes.CDLL(name) for name in (*libraries, *_SYSTEM)]
    if missing := [name for name in undefined if not any(hasattr(handle, name) for handle in loaded)]:
        raise CodegenError(f"nothing defines {', '.join(missing)}, which the compiled code calls")
    library.write_bytes(data)


def written(write: Callable[[str], None]) -> bytes:
    """Return what `write` puts into the file of a name: in memory, since LLVM ends the process where a disk is full."""
    with os.fdopen(os.memfd_create("kernel.o"), "rb") as file:
        write(f"/proc/self/fd/{file.fileno()}")
        file.seek(0)
        return file.read()
