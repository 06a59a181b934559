"""Compile emulated kernels with the machine's C++ compiler, and load the library."""

from __future__ import annotations

import ctypes
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from weakref import finalize

from mlirtri.errors import CodegenError, DeviceError
from mlirtri.lowering.cuda_emulation.reports import Report
from mlirtri.lowering.runtime.linking import compiler
from mlirtri.lowering.toolchain import tvm_runtime

DEVICE = Path(__file__).with_name("device")
_COMPILERS = ("c++", "g++", "clang++")
# Threads of a block change stacks with longjmp. That of libc's fortified functions, which some systems turn on, aborts.
_OPTIONS = ("-std=c++17", "-g", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-U_FORTIFY_SOURCE", "-w")
_KERNEL_OPTIONS = (
    # Loads and stores call the checks; each operation of floats rounds, and integers wrap.
    "-O1", "-fsanitize=thread", "-fsanitize=bounds,alignment", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing",
)  # fmt: skip


def cxx_compiler() -> list[str]:
    """Return the command of the C++ compiler: the one that ``CXX`` names, or the system's; raises `DeviceError`."""
    if (command := compiler("CXX", _COMPILERS)) is not None:
        return command
    raise DeviceError(
        "CUDA is emulated by a C++ compiler, and there is none on PATH",
        help="install g++ or clang++, or name a compiler in CXX",
    )


class EmulatedLibrary:
    """The kernels of one CUDA source, compiled for the emulated device."""

    def __init__(self, cxx: str):
        folder = tempfile.mkdtemp(prefix="mlirtri-emulated-")
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder, "kernels.so")
        self.source = Path(folder, "kernels.cpp")
        self.source.write_text(cxx, encoding="utf-8")
        kernels = Path(folder, "kernels.o")
        _run([*_OPTIONS, *_KERNEL_OPTIONS, f"-I{DEVICE}", "-c", str(self.source), "-o", str(kernels)], "CUDA source")
        _run(["-shared", "-o", str(self.path), str(kernels), *map(str, _runtime_objects())], "emulated kernels")
        self.module = tvm_runtime.load_library(self.path)
        """A runtime module of TVM, whose functions launch the kernels."""
        self._library = ctypes.CDLL(str(self.path))
        self._library.emulated_report.restype = ctypes.POINTER(Report)
        self._library.emulated_track.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def begin_call(self, unwritten: Iterable[tuple[int, int]]) -> None:
        """Begin a call of the kernels; addresses and bytes of `unwritten` have no value until a kernel writes it."""
        self._library.emulated_begin_call()
        for address, size in unwritten:
            self._library.emulated_track(address, size)

    def taken_report(self) -> Report | None:
        """Return what the first failure was since the last call; None if there was none."""
        report = self._library.emulated_report().contents
        if not report.failure:
            return None
        copy = Report.from_buffer_copy(report)
        self._library.emulated_forget()
        return copy

    def line_of(self, place: int) -> int | None:
        """Return the CUDA source line of an instruction of the library; None without line information."""
        if (tool := shutil.which("addr2line") or shutil.which("llvm-addr2line")) is None:
            return None
        # The address is the one that a call returns to: the instruction is before it.
        command = [tool, "-i", "-e", str(self.path), hex(place - 1)]
        frames = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        own = [frame.rpartition(":") for frame in frames if frame.startswith(f"{self.source}:")]
        # The outermost frame: a function that is inlined into a kernel is none of the kernel's lines.
        return int(own[-1][2].split()[0]) if own else None


@cache
def _runtime_objects() -> tuple[Path, ...]:
    """Compile the emulated device, once per process."""
    folder = Path(tempfile.mkdtemp(prefix="mlirtri-device-"))
    finalize(_runtime_objects, shutil.rmtree, folder, ignore_errors=True)
    objects = []
    for source in sorted(DEVICE.glob("*.cpp")):
        objects.append(folder / f"{source.stem}.o")
        _run([*_OPTIONS, "-O2", "-c", str(source), "-o", str(objects[-1])], source.name)
    return tuple(objects)


def _run(arguments: list[str], what: str) -> None:
    command = [*cxx_compiler(), *arguments]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise DeviceError(f"the C++ compiler does not run: {problem}", help="name another one in CXX") from None
    if finished.returncode == 0:
        return
    lines = [line for line in finished.stderr.splitlines() if "error" in line]
    reason = (lines or finished.stderr.splitlines() or ["no reason given"])[0]
    raise CodegenError(f"the C++ compiler made no {what}: {reason}", help=f"the command was {shlex.join(command)}")
