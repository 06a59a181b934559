"""What generated code depends on beside IR and options: versions of the compilers, and our own source files."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("mlirtri", "dialect", "lowering")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of the libraries that determine the generated code."""
    return {name: _version(name) for name in ("mlirtri", "apache-tvm", "apache-tvm-ffi", "torch-mlir")}


def _version(package: str) -> str:
    """Return the version of an installed package, from the line that has it: the whole of it is parsed as an e-mail."""
    metadata = distribution(package)
    line = re.search(r"^Version: *(\S+)", metadata.read_text("METADATA") or "", re.MULTILINE)
    return line[1] if line else metadata.version


@lru_cache(maxsize=1)
def sources_digest() -> str:
    """Return a digest of our own source files: two checkouts of one version may differ.

    An installed package lists the digests of its files in its ``RECORD``; the files of a checkout are read.
    """
    digest = blake2b(digest_size=16)
    if (_ROOT / "pyproject.toml").is_file() and all((_ROOT / folder).is_dir() for folder in _FOLDERS):
        for folder in _FOLDERS:
            _update(digest, os.path.join(_ROOT, folder), folder)
        return digest.hexdigest()
    try:
        record = distribution("mlirtri").read_text("RECORD") or ""
    except PackageNotFoundError:
        record = ""
    # Byte code is listed by some installers, and differs between them.
    lines = sorted(line for line in record.splitlines() if "__pycache__" not in line)
    digest.update("\n".join(lines).encode())
    return digest.hexdigest()


def _update(digest: Any, folder: str, name: str) -> None:
    """Add the names and contents of the source files below `folder`, in the order of their names."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith((".py", ".mlir")):
            digest.update(f"{name}/{entry.name}\0".encode())
            with open(entry.path, "rb", buffering=0) as file:
                digest.update(file.read())
        elif entry.is_dir() and entry.name != "__pycache__":
            _update(digest, entry.path, f"{name}/{entry.name}")
