"""Read, compile and call an input of each entry point; what comes back is an outcome, a refusal, or an exception."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 120.0
"""Wall-clock time of one input, on a machine that others use too."""
SMALL = 1 << 22
"""Bytes of arguments and results up to which a program is called."""


def _call(kernel: Any) -> None:
    from mlirtri.dialect.base.sizes import is_dynamic
    from mlirtri.kernels.argument_text import random_array

    interface = kernel.interface
    types = [parameter.type for parameter in interface.parameters]
    if any(is_dynamic(size) for type_ in types for size in type_.shape):
        types = [type_.with_shape(tuple(3 if is_dynamic(size) else size for size in type_.shape)) for type_ in types]
    sizes = [type_.size for type_ in (*types, *interface.leaves) if type_.is_static]
    if sum(size or 0 for size in sizes) > SMALL:
        return
    kernel(*[random_array(p.name, type_, None) for p, type_ in zip(interface.parameters, types, strict=True)])


def _program(program: Any, report: Any) -> None:
    for pipeline in ("mlir", "linalg"):
        report(f"compiling by {pipeline}")
        kernel = program.compile(pipeline=pipeline)
        report(f"calling by {pipeline}")
        _call(kernel)


def _by(reader: str) -> Any:
    def run(data: bytes, report: Any) -> None:
        import mlirtri as mt

        _program(getattr(mt, reader)(data), report)

    return run


def _text_by(reader: str) -> Any:
    def run(data: bytes, report: Any) -> None:
        import mlirtri as mt

        _program(getattr(mt, reader)(data.decode("utf-8", "replace") + "\n"), report)

    return run


def _archive(data: bytes, report: Any) -> None:
    from mlirtri.sources.program_files import READERS

    _program(READERS["torch"](data), report)


def _stage(data: bytes, report: Any) -> None:
    import mlirtri as mt

    stage, _, text = data.partition(b"\n")
    mt.resume("<stage>", stage.decode(errors="replace"), text=text.decode("utf-8", "replace"), pipeline="mlir")


def _tvm_stage(data: bytes, report: Any) -> None:
    import mlirtri as mt

    stage, _, text = data.partition(b"\n")
    mt.resume("<stage>", stage.decode(errors="replace"), text=text.decode("utf-8", "replace"), pipeline="linalg")


def _manifest(data: bytes, report: Any) -> None:
    import tempfile

    import mlirtri as mt

    text = "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "manifest.json").write_bytes(data)
        file = Path(folder, "01_linalg.mlir")
        file.write_text(text)
        _call(mt.resume(file, "linalg"))


def _argument(data: bytes, report: Any) -> None:
    from mlirtri.kernels.argument_text import parse_argument, random_array
    from mlirtri.language.names import Tensor

    name, value = parse_argument(data.decode("utf-8", "replace"))
    if isinstance(value, Tensor) and value.type is not None and (value.type.size or 0) < SMALL:
        random_array(name, value.type, value.bounds)


def _opt(data: bytes, report: Any) -> None:
    """A command of its own: `mlirtri-opt` is one process per file, as mlir-opt is."""
    import subprocess
    import tempfile

    options, _, text = data.partition(b"\n")
    with tempfile.NamedTemporaryFile(suffix=".mlir") as file:
        file.write(text)
        file.flush()
        words = [word for word in options.decode("utf-8", "replace").split() if "\0" not in word and ">" not in word]
        command = [sys.executable, "-m", "mlirtri.opt", *words, file.name]
        finished = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, text=True, errors="replace"
        )
    if finished.returncode not in (0, 1, 2) or "Traceback (most recent" in finished.stderr:
        raise RuntimeError(f"status {finished.returncode}: {finished.stderr[-300:]}")


def _kernel() -> Any:
    import numpy as np

    import mlirtri as mt

    def rows(a, b):
        return np.exp(a @ b).sum(axis=1) / 3

    return mt.jit(rows), (np.ones((4, 3), np.float32), np.ones((3, 5), np.float32))


def _in_folder(run: Callable[[Path], None]) -> None:
    """Call `run` in a folder of its own, which is also the disk cache's, with the environment restored afterwards."""
    import os
    import tempfile

    before, here = dict(os.environ), os.getcwd()
    # A cache is written in the background, too.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            os.chdir(folder)
            os.environ["MLIRTRI_CACHE_DIR"] = str(Path(folder, "cache"))
            run(Path(folder))
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def _override(data: bytes, report: Any) -> None:
    """An edited stage in place of a kernel's own."""
    import os

    name, _, text = data.partition(b"\n")

    def run(folder: Path) -> None:
        pipeline, _, file = name.decode("utf-8", "replace").partition(" ")
        folder.joinpath("edited").mkdir()
        folder.joinpath("edited", Path(file).name or "fused.mlir").write_bytes(text)
        os.environ["MLIRTRI_OVERRIDE_DIR"] = "edited"
        function, arguments = _kernel()
        function.compile(*arguments, pipeline=pipeline)(*arguments)

    _in_folder(run)


def _environment(data: bytes, report: Any) -> None:
    """Settings of any names and values."""
    import os

    def run(folder: Path) -> None:
        for line in data.decode("utf-8", "replace").replace("\0", "").splitlines():
            name, _, value = line.partition("=")
            # Folders are written to, and caches: none outside of this one.
            if name.startswith("MLIRTRI_") and not value.startswith(("/", "~")) and ".." not in value:
                os.environ[name] = value
        function, arguments = _kernel()
        function(*arguments)

    _in_folder(run)


def _unpacked(data: bytes, folder: Path) -> None:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)


def _saved(data: bytes, report: Any) -> None:
    """The folder of a saved kernel."""
    import mlirtri as mt

    def run(folder: Path) -> None:
        _unpacked(data, folder / "saved")
        mt.load(folder / "saved")(*_kernel()[1])

    _in_folder(run)


def _cached(data: bytes, report: Any) -> None:
    """A disk cache with a damaged entry, which another process would read: the result is right all the same."""
    import subprocess

    def run(folder: Path) -> None:
        _unpacked(data, folder / "cache")
        program = folder / "program.py"
        program.write_text(CACHED)
        command = [sys.executable, "program.py"]
        finished = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, text=True)
        if finished.returncode:
            raise RuntimeError(f"status {finished.returncode}: {finished.stderr[-300:]}")

    _in_folder(run)


CACHED = """
import numpy as np
import mlirtri as mt

@mt.jit(pipeline="mlir")
def rows(a, b):
    return np.exp(a @ b).sum(axis=1) / 3

a, b = np.ones((4, 3), np.float32), np.ones((3, 5), np.float32)
np.testing.assert_allclose(rows(a, b), np.exp(a @ b).sum(axis=1) / 3, rtol=1e-6)
"""

ENTRIES = {
    "mlir": _by("from_mlir"), "bytecode": _by("from_mlir"), "stablehlo": _by("from_stablehlo"),
    "tosa": _by("from_tosa"), "onnx": _by("from_onnx"), "onnx-fields": _by("from_onnx"), "pt2": _archive,
    "pt2-members": _archive, "relax": _text_by("from_relax"), "stages": _stage, "tvm-stages": _tvm_stage,
    "manifest": _manifest, "arguments": _argument, "opt": _opt, "overrides": _override, "environment": _environment,
    "saved-members": _saved, "cache-members": _cached,
}  # fmt: skip
