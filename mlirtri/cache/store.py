"""Folders of files on disk that several processes share: written at once or not at all, checked when they are read.

    FOLDER/KEY/ENTRY/manifest.json     what the entry is, with a digest of each of its files and of itself
    FOLDER/KEY/ENTRY/…                 its files
    FOLDER/KEY/ENTRY/used              a stamp: when the entry was last read
    FOLDER/locks/KEY                   locked by the process that compiles
    FOLDER/unfinished/…                entries that are being written; renamed when they are complete
    FOLDER/damaged/…                   entries whose files do not have their digests, moved aside
    FOLDER/refused/NAME.json           why a kernel is not kept

Nothing is synchronised to the disk: what a crash of the machine cut short does not have its digest, and is written
anew. A folder that cannot be read or written costs one warning, and the speed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mlirtri import settings
from mlirtri.cache.digests import canonical
from mlirtri.cache.writes import FileLock
from mlirtri.errors import CacheWarning, UnknownOptionError
from mlirtri.settings import is_users, users_frame

FORMAT = "1"
"""Raised when the layout of entries changes: older ones are not found any more."""
MANIFEST = "manifest.json"
USED = "used"
_LEFTOVER = 3600.0
"""Seconds after which unfinished entries are those of a process that ended."""
_warned: set[str] = set()


class DamagedError(Exception):
    """An entry's files are not those that were written."""


@dataclass(frozen=True)
class Entry:
    """One entry of the store, read and checked."""

    folder: Path
    manifest: dict[str, Any]
    files: dict[str, bytes] = field(repr=False)
    """The content of each file by its path inside of `folder`."""

    @property
    def name(self) -> str:
        """Return key and entry, as the command line shows them."""
        return f"{self.folder.parent.name[:12]}/{self.folder.name[:8]}"


@dataclass
class Store:
    """The entries below one folder."""

    root: Path
    limit: int
    """Bytes that all entries may take; the least recently used go first."""
    _size: int | None = None

    @classmethod
    def of_settings(cls) -> Store | None:
        """Return the store that the settings name; None where the disk cache is off, or there is no place for it."""
        if not settings.get("MLIRTRI_CACHE"):
            return None
        try:
            folder: Path = settings.get("MLIRTRI_CACHE_DIR") or settings.cache_folder() / "kernels"
        except OSError as problem:
            warn(str(problem))
            return None
        root = folder.absolute() / f"format-{FORMAT}"
        store = _STORES.get(root)
        if store is None:
            store = _STORES[root] = cls(root, 0)
        store.limit = settings.get("MLIRTRI_CACHE_BYTES")
        return store

    def entries(self, key: str) -> Iterator[Entry]:
        """Yield the entries under a key, checked; what is damaged is moved aside."""
        for folder in _folders(self.root / key):
            try:
                yield read(folder)
            except DamagedError:
                self.set_aside(folder)
            except OSError:  # another process removes it
                continue

    def write(self, key: str, entry: str, fill: Callable[[Path], dict[str, Any]]) -> Path | None:
        """Write an entry unless it is there; `fill` writes its files into a folder and returns its manifest.

        Returns its folder; None where the folder cannot be written.
        """
        final = self.root / key / entry
        unfinished = None
        try:
            parent = self.root / "unfinished"
            parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(dir=parent, prefix=f"{os.getpid()}-"))
            manifest = fill(unfinished)
            (unfinished / USED).touch()
            _write_manifest(unfinished, manifest)
            final.parent.mkdir(exist_ok=True)
            size = size_of(unfinished)
            _rename(unfinished, final)
            self._make_room(size)
            return final
        except OSError as problem:
            warn(f"{self.root}: {problem.strerror or problem}")
            return None
        finally:
            if unfinished is not None:
                shutil.rmtree(unfinished, ignore_errors=True)

    def lock(self, key: str) -> FileLock:
        """Return the lock of a key, which the process that compiles it holds."""
        return FileLock(self.root / "locks" / key)

    def set_aside(self, folder: Path) -> bool:
        """Move a damaged entry where no process finds it, or remove it where that fails. Return whether it is gone."""
        with contextlib.suppress(OSError):
            (self.root / "damaged").mkdir(exist_ok=True)
            target = self.root / "damaged" / f"{folder.parent.name}-{folder.name}-{time.time_ns()}"
            folder.rename(target)
            return True
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    def all_folders(self) -> list[Path]:
        """Return the folder of every entry, in the order of names."""
        keys = [path for path in _folders(self.root) if path.name not in _OWN]
        return [folder for key in keys for folder in _folders(key)]

    def prune(self, limit: int) -> list[Path]:
        """Remove the least recently used entries until the others take at most `limit` bytes; return the removed.

        What other processes left unfinished, and damaged entries, go as well.
        """
        entries = sorted((last_use(folder), folder) for folder in self.all_folders())
        sizes = {folder: size_of(folder) for _, folder in entries}
        total, removed = sum(sizes.values()), []
        for _, folder in entries:
            if total <= limit:
                break
            if self.remove(folder):
                total -= sizes[folder]
                removed.append(folder)
        self._size = total
        self._remove_leftovers()
        return removed

    def remove(self, folder: Path) -> bool:
        """Remove an entry; no process sees a part of it. Return whether it is gone."""
        with contextlib.suppress(OSError):
            parent = self.root / "unfinished"
            parent.mkdir(exist_ok=True)
            gone = parent / f"removed-{time.time_ns()}-{folder.name}"
            folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            folder.parent.rmdir()
        return not folder.exists()

    def refuse(self, name: str, reason: str) -> None:
        """Note why a kernel is not kept, for `mlirtri cache explain`."""
        with contextlib.suppress(OSError):
            target = self._refusal(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"kernel": name, "reason": reason}) + "\n"
            if target.is_file() and target.read_text(encoding="utf-8") == text:
                return
            unfinished = target.with_suffix(f".{os.getpid()}")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(target)

    def accept(self, name: str) -> None:
        """Forget why a kernel was not kept once."""
        with contextlib.suppress(OSError):
            self._refusal(name).unlink()

    def _refusal(self, name: str) -> Path:
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[-80:]
        return self.root / "refused" / f"{safe}.json"

    def refused(self) -> dict[str, str]:
        """Return the reason by the name of each kernel that is not kept."""
        refusals = {}
        for file in sorted((self.root / "refused").glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                row = json.loads(file.read_text(encoding="utf-8"))
                refusals[str(row["kernel"])] = str(row["reason"])
        return refusals

    def _make_room(self, added: int) -> None:
        if self._size is None:
            self._size = sum(map(size_of, self.all_folders()))
        else:
            self._size += added
        if self._size > self.limit:
            self.prune(self.limit)

    def _remove_leftovers(self) -> None:
        for name in ("unfinished", "damaged"):
            for folder in _folders(self.root / name):
                with contextlib.suppress(OSError):
                    if name == "damaged" or time.time() - folder.stat().st_mtime > _LEFTOVER:
                        shutil.rmtree(folder, ignore_errors=True)


_STORES: dict[Path, Store] = {}
_OWN = ("locks", "unfinished", "damaged", "refused")


def warn(problem: str) -> None:
    """Warn once per process that the disk cache does not work."""
    if problem not in _warned:
        _warned.add(problem)
        text = f"the disk cache cannot be used, kernels compile without it: {problem} (MLIRTRI_CACHE=0 turns it off)"
        frame = users_frame()
        is_known = is_users(frame.f_code.co_filename)
        # Entries are written in the background, where no line of the user's is.
        place = (frame.f_code.co_filename, frame.f_lineno) if is_known else ("mlirtri", 1)
        warnings.warn_explicit(text, CacheWarning, *place)


def read(folder: Path) -> Entry:
    """Return the entry in a folder; raises `DamagedError` where a file is not as it was written, `OSError`."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        digest = manifest.pop("digest")
        expected = dict(manifest["files"])
    except FileNotFoundError:
        raise DamagedError(f"{MANIFEST} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DamagedError(f"{MANIFEST} is damaged") from None
    if digest != _digest(canonical(manifest).encode()):
        raise DamagedError(f"{MANIFEST} is damaged")
    files = {}
    for name, file_digest in expected.items():
        try:
            files[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            raise DamagedError(f"{name} is missing") from None
        if _digest(files[name]) != file_digest:
            raise DamagedError(f"{name} is damaged")
    return Entry(folder, manifest, files)


def stamp(folder: Path) -> None:
    """Note that an entry is used now; nothing where that cannot be written."""
    with contextlib.suppress(OSError):
        os.utime(folder / USED)


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    files = {
        str(path.relative_to(folder)): _digest(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != USED
    }
    manifest = {**manifest, "files": files}
    complete = {**manifest, "digest": _digest(canonical(manifest).encode())}
    (folder / MANIFEST).write_text(json.dumps(complete, indent=1) + "\n", encoding="utf-8")


def _rename(unfinished: Path, final: Path) -> None:
    try:
        unfinished.rename(final)
    except OSError:
        # Another process has written the same entry.
        if not (final / MANIFEST).is_file():
            raise


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(parent) if entry.is_dir())
    except OSError:
        return []


def size_of(folder: Path) -> int:
    """Return the bytes of the files of an entry."""
    with contextlib.suppress(OSError):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return 0


def last_use(folder: Path) -> float:
    """Return when an entry was last read, in seconds of `time.time`."""
    with contextlib.suppress(OSError):
        return (folder / USED).stat().st_mtime
    return 0.0


def find_entries(store: Store, text: str) -> list[Entry]:
    """Return the entries whose key or entry begins with `text`, or whose kernel has that name.

    Raises `UnknownOptionError` for none.
    """
    entries = []
    for folder in store.all_folders():
        with contextlib.suppress(DamagedError, OSError):
            entry = read(folder)
            names = (entry.manifest["kernel"], entry.manifest["kernel"].rpartition(".")[2])
            key = f"{folder.parent.name}/{folder.name}"
            if text in names or key.startswith(text) or entry.name.startswith(text):
                entries.append(entry)
    if not entries:
        raise UnknownOptionError(f"the disk cache has no entry {text!r}", help="`mlirtri cache ls` lists them")
    return entries
