"""The programs that lit tests call, found beside the Python that runs and on PATH."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

from mlirtri.errors import SourceNotAvailableError


def native_filecheck() -> str | None:
    """Return LLVM's FileCheck: ``$FILECHECK``, then ``FileCheck`` on PATH, then the newest ``FileCheck-NN``."""
    if named := os.environ.get("FILECHECK") or shutil.which("FileCheck"):
        return named
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    numbered = [
        (int(match[1]), str(file))
        for folder in folders
        for file in folder.glob("FileCheck-*")
        if (match := re.fullmatch(r"FileCheck-(\d+)(?:\.exe)?", file.name))
    ]
    return max(numbered)[1] if numbered else None


def script(name: str) -> str | None:
    """Return the path of a console script of this Python's environment, on PATH or not."""
    return shutil.which(name, path=sysconfig.get_path("scripts"))


def filecheck() -> str | None:
    """Return LLVM's FileCheck, or PyPI's where there is none; None without either."""
    return native_filecheck() or script("filecheck")


def commands() -> dict[str, str]:
    """Return the path of each command that RUN lines name; raises `SourceNotAvailableError` for a missing one."""
    found = {"mlirtri-opt": script("mlirtri-opt"), "mlirtri": script("mlirtri"), "FileCheck": filecheck()}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise SourceNotAvailableError(
            f"{' and '.join(missing)}: not installed beside {sys.executable}", help='pip install "mlirtri[lit]"'
        )
    return {name: path.replace("\\", "/") for name, path in found.items() if path is not None}


def command_pattern(name: str) -> str:
    """Return the regular expression of a command's name, which leaves paths and options alone that contain it."""
    return rf"(?<![\w./%-]){re.escape(name)}(?![\w./-])"
