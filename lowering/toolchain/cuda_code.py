"""Answer TVM's runtime when it asks for the machine code of a CUDA source.

Where there is a CUDA driver, TVM hands the source of each CUDA module that it makes to a global function. TVM's own one
compiles it at once, even if only the text is wanted, and before we mend that text. So modules are made inside of one of
these blocks, which put a function of ours in its place for as long.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlirtri.lowering.toolchain import tvm_runtime
from mlirtri.lowering.toolchain.nvcc import run_nvcc

_CALLBACK = "tvm_callback_cuda_compile"
_ANSWERING = threading.RLock()
Answer = Callable[[str], bytes]


@contextmanager
def without_code() -> Iterator[None]:
    """Let TVM make CUDA modules of which only the text is read: nothing is compiled inside of the block."""
    with _answering(lambda previous: lambda source: b""):
        yield


@contextmanager
def code_of(source: str, architecture: str, code: bytes | None = None) -> Iterator[None]:
    """Let every CUDA module that TVM makes or loads inside of the block run `source`, for an architecture, ``sm_90``.

    It is compiled by nvcc, or where nvcc is not on PATH by NVRTC, as TVM calls it; `code` is what nvcc once made of it.
    Inside of the block, `DeviceError` is raised where neither is there, `CodegenError` with nvcc's message.
    """

    def compiled(previous: Answer | None) -> Answer:
        # NVRTC needs the headers of a toolkit and the package cuda-bindings; the callback of TVM's compiler knows both.
        if code is None and shutil.which("nvcc") is None and previous is not None:
            return lambda own: previous(source)
        return lambda own: code if code is not None else run_nvcc(source, architecture, "-fatbin")

    with _answering(compiled):
        yield


@contextmanager
def _answering(make: Callable[[Answer | None], Answer]) -> Iterator[None]:
    runtime = tvm_runtime.runtime()
    with _ANSWERING:
        previous = runtime.get_global_func(_CALLBACK, allow_missing=True)
        answer = make(previous)
        runtime.register_global_func(_CALLBACK, lambda own: answer(str(own)), override=True)
        try:
            yield
        finally:
            # TVM's compiler registers its callback when it is loaded, and fails where there is one: leave none of ours.
            runtime.remove_global_func(_CALLBACK)
            if previous is not None:
                runtime.register_global_func(_CALLBACK, previous)
