"""Folders of files that are as they were written: with digests of all files, replaced at once, packed into bytes.

manifest.json    facts, the digest of each other file, and the digest of itself
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlirtri.errors import ArtifactError

MANIFEST = "manifest.json"
_DIGEST = "digest"
_FORMAT = "mlirtri saved kernel"
_ATTEMPTS = 20
Facts = dict[str, Any]


def write_folder(folder: Path, fill: Callable[[Path], Facts]) -> None:
    """Write the files that `fill` puts into a folder, with the facts that it returns, as `folder`, all at once.

    Replaces an empty folder, and one that this function wrote; raises `ArtifactError` for another.
    """
    folder = folder.resolve()
    _refuse_foreign(folder)
    temporary = folder.parent / f".{folder.name}-{os.getpid()}-{threading.get_ident()}"
    try:
        temporary.mkdir(parents=True)
        facts = fill(temporary)
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        facts = {
            "format": _FORMAT,
            **facts,
            "files": {str(path.relative_to(temporary)): _digest(path) for path in files},
        }
        text = json.dumps({**facts, _DIGEST: _digest_of(facts)}, indent=2) + "\n"
        (temporary / MANIFEST).write_text(text, encoding="utf-8")
        _put_in_place(temporary, folder)
    except OSError as problem:
        raise ArtifactError(f"the kernel could not be written to {folder}: {problem}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _refuse_foreign(folder: Path) -> None:
    try:
        is_free = not folder.exists() or (folder.is_dir() and (_is_ours(folder) or not any(folder.iterdir())))
    except OSError as problem:
        raise ArtifactError(f"the kernel could not be written to {folder}: {problem}") from None
    if not is_free:
        kind = "holds other files" if folder.is_dir() else "is a file"
        raise ArtifactError(f"{folder} {kind}, which a saved kernel would replace", help="name another folder")


def _is_ours(folder: Path) -> bool:
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("format") == _FORMAT
    except (OSError, ValueError, AttributeError):
        return False


def _put_in_place(temporary: Path, folder: Path) -> None:
    old = temporary.with_name(f"{temporary.name}-old")
    for attempt in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            # Libraries of the old files stay where processes have loaded them.
            folder.rename(old)
        try:
            temporary.rename(folder)
            return
        except OSError:
            # Another process has written its kernel there meanwhile.
            if attempt == _ATTEMPTS - 1:
                raise
        finally:
            shutil.rmtree(old, ignore_errors=True)


def read_folder(folder: Path) -> Facts:
    """Return the facts of a folder that `write_folder` wrote; raises `ArtifactError` if anything in it has changed."""
    facts = _read_manifest(folder)
    for name, digest in facts["files"].items():
        path = folder / name
        try:
            is_same = _digest(path) == digest
        except OSError as problem:
            raise ArtifactError(f"{path} cannot be read: {problem.strerror or problem}", help=_AGAIN) from None
        if not is_same:
            raise ArtifactError(f"{path} is not as it was saved: its SHA-256 differs from the manifest's", help=_AGAIN)
    return facts


_AGAIN = "save the kernel again"


def _read_manifest(folder: Path) -> Facts:
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ArtifactError(
            f"there is no saved kernel in {folder}: "
            + (f"the folder has no {MANIFEST}" if folder.is_dir() else problem.strerror or str(problem)),
            help=f"name the folder that kernel.save or `mlirtri build` wrote, which has a {MANIFEST}",
        ) from None
    except ValueError as problem:
        raise ArtifactError(f"{path} is not JSON: {problem}", help=_AGAIN) from None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise ArtifactError(f"{path} is not the manifest of a saved kernel", help="`kernel.save` writes such folders")
    digest = facts.pop(_DIGEST, None)
    if digest != _digest_of(facts) or not isinstance(facts.get("files"), dict):
        raise ArtifactError(f"{path} is not as it was saved: its own digest differs", help=_AGAIN)
    return facts


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digest_of(facts: Facts) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def packed(folder: Path) -> bytes:
    """Return the files of a folder as one string of bytes: a ZIP archive without compression."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


class OwnFolder:
    """A new temporary folder, which is removed with the object, or when Python ends.

    `tempfile.TemporaryDirectory` warns where nobody removes it before.
    """

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="mlirtri-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def unpacked(data: bytes) -> OwnFolder:
    """Return a new folder with the files that `packed` packed; raises `ArtifactError`."""
    try:
        folder = OwnFolder()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(folder.name)
    except (OSError, zipfile.BadZipFile) as problem:
        raise ArtifactError(f"the bytes of a kernel cannot be unpacked: {problem}") from None
    return folder
