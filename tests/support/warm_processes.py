"""Processes that begin with everything imported: files and command lines do in them what they do by themselves.

A process imports torch, TVM and MLIR for two seconds, each file of the compiler for half of one and what exports
torch's modules for three. Those here are forked from one that has done so.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

from shared_device import share_device

COMPILER = ("dialect", "lowering", "compiler", "kernels", "calls", "programs", "measure")
"""Packages of which each file is imported."""


def _files_of(package: str) -> list[str]:
    found = importlib.util.find_spec(f"mlirtri.{package}")
    folder = Path(found.submodule_search_locations[0])
    files = (file.relative_to(folder).with_suffix("") for file in sorted(folder.rglob("*.py")))
    return [".".join(("mlirtri", package, *file.parts)) for file in files if file.name != "__init__"]


_SERVER = multiprocessing.get_context("forkserver")
_FILES = [name for package in COMPILER for name in _files_of(package)]
_SERVER.set_forkserver_preload(["torch", "torch.export", "onnx", "mlirtri.cli.main", *_FILES])


def run_warm(arguments: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess:
    """Run ``file.py arguments…`` or ``mlirtri arguments…`` in a folder, with what is added to the environment."""
    with tempfile.TemporaryDirectory() as where:
        streams = [Path(where, name) for name in ("out", "err")]
        process = _SERVER.Process(target=_become, args=(arguments, str(folder), environment, streams))
        process.start()
        process.join()
        return subprocess.CompletedProcess(arguments, process.exitcode, *(stream.read_text() for stream in streams))


def _become(arguments: list[str], folder: str, environment: dict[str, str], streams: list[Path]) -> None:
    for number, file in enumerate(streams, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = arguments
    share_device()
    if arguments[0] == "mlirtri":
        from mlirtri.cli.entry import main

        sys.exit(main())
    sys.path.insert(0, folder)
    runpy.run_path(arguments[0], run_name="__main__")
