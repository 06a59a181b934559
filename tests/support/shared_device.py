"""The emulated device, compiled once for all processes of a test run instead of once in each, for two seconds."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

_FOLDER = "EMULATED_DEVICE_FOLDER"
"""The variable that names the folder of the objects; processes that tests start inherit it."""


def make_folder() -> None:
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="emulated-device-")


def remove_folder() -> None:
    if folder := os.environ.pop(_FOLDER, None):
        shutil.rmtree(folder, ignore_errors=True)


def share_device() -> None:
    """Let this process take the objects from the folder; the first one that needs them compiles them."""
    from mlirtri.lowering.cuda_emulation import library

    folder, compiled = Path(os.environ[_FOLDER]), library._runtime_objects

    @cache
    def objects() -> tuple[Path, ...]:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not list(folder.glob("*.o")):
                for each in compiled():
                    shutil.copy(each, folder)
        return tuple(sorted(folder.glob("*.o")))

    library._runtime_objects = objects
