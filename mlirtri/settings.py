"""Every ``MLIRTRI_*`` environment variable: its name, type, default and meaning, in one table.

A setting that changes the code of a kernel also stands in `DECIDE_CODE`, below the table. Imports only
`mlirtri.errors`, so every package may import it. A warm kernel call reads no settings.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from mlirtri.errors import UnknownOptionError, did_you_mean

PREFIX = "MLIRTRI_"


@dataclass(frozen=True)
class Setting:
    """One environment variable."""

    name: str
    parse: Callable[[str], Any]
    """Makes the value from the variable's text; raises `ValueError` when it cannot."""
    kind: str
    """What a value looks like, in words; part of the message for a bad one."""
    default: Any
    meaning: str


def _switch(text: str) -> bool:
    values = {"1": True, "on": True, "true": True, "0": False, "off": False, "false": False}
    if text.lower() not in values:
        raise ValueError(text)
    return values[text.lower()]


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


_LEAST_PASS_BYTES = 1 << 29


def _pass_bytes(text: str) -> int:
    if (number := _count(text)) < _LEAST_PASS_BYTES:
        raise ValueError(text)
    return number


def _threads(text: str) -> int:
    # Each thread takes a few bytes of the caller's stack.
    if (number := _count(text)) > 4096:
        raise ValueError(text)
    return number


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as problem:  # there is no such user, or no home
        raise ValueError(text) from problem


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _topics(text: str) -> tuple[str, ...]:
    if unknown := {*_names(text)} - {"recompiles", "cache"}:
        raise ValueError(unknown)
    return _names(text)


_SWITCH = (_switch, "1, 0, on, off, true or false")
_PASS_BYTES = (_pass_bytes, f"a number of bytes from {_LEAST_PASS_BYTES}, below which MLIR's libraries do not load")
_COUNT = (_count, "a whole number from 1")
_THREADS = (_threads, "a whole number from 1 to 4096")
_FILE = (_path, "a file")
_FOLDER = (_path, "a folder")
_NAMES = (_names, 'stage names with commas between them, or "all"')
_TOPICS = (_topics, '"recompiles", "cache", or both with a comma between them')
_WORD = (str, "a name")

SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("MLIRTRI_TARGET", *_WORD, "cpu", 'target where none is named: "cpu", "cuda:sm_90", "cuda:emulated", …'),
        Setting("MLIRTRI_PIPELINE", *_WORD, "linalg", "pipeline where none is named: linalg, relax, mlir, poly, …"),
        Setting("MLIRTRI_INTERPRET", *_SWITCH, False, "run kernels op by op on NumPy, for debuggers"),
        Setting("MLIRTRI_NUM_THREADS", *_THREADS, None, "CPU threads; default torch's to run, all CPUs to compile for"),
        Setting("MLIRTRI_MAX_TENSOR_BYTES", *_COUNT, None, "largest tensor compiled; by default this memory's size"),
        Setting("MLIRTRI_MAX_PASS_BYTES", *_PASS_BYTES, None, "memory of a process for passes; by default from 4 GiB"),
        Setting("MLIRTRI_PRINT_IR", *_NAMES, (), "print the IR after each pass of these stages to stderr"),
        Setting("MLIRTRI_CACHE", *_SWITCH, True, "keep compiled kernels on disk, for other processes"),
        Setting("MLIRTRI_CACHE_DIR", *_FOLDER, None, "folder of compiled kernels; by default in the user's cache"),
        Setting("MLIRTRI_CACHE_BYTES", *_COUNT, 1 << 30, "size of that folder; the least recently used kernels go"),
        Setting("MLIRTRI_SERVE", *_SWITCH, False, "have commands run by `mlirtri serve`, where there is a server"),
        Setting("MLIRTRI_ASSERT_CACHE_HIT", *_SWITCH, False, "a kernel that has to be compiled is an error"),
        Setting("MLIRTRI_TUNING_FILE", *_FILE, None, "file of measured schedules; by default in the user's cache"),
        Setting("MLIRTRI_PRINT_AUTOTUNING", *_SWITCH, False, "print what `autotune` chooses to stderr"),
        Setting("MLIRTRI_LOG", *_TOPICS, (), 'say on stderr why functions compile again: "recompiles", "cache"'),
        Setting("MLIRTRI_MAX_KERNELS", *_COUNT, 256, "kernels that a function keeps; the least recently used go"),
        Setting("MLIRTRI_DUMP_DIR", *_FOLDER, None, "write the complete IR of each stage into this folder"),
        Setting("MLIRTRI_TRACE", *_FOLDER, None, "write a page per kernel with its stages and passes into this folder"),
        Setting("MLIRTRI_OVERRIDE_DIR", *_FOLDER, None, "take edited stages from this folder"),
        Setting("MLIRTRI_REPRODUCER_DIR", *_FOLDER, None, "folder for inputs of failed passes; else a temporary one"),
        Setting("MLIRTRI_ROW_TILE", *_COUNT, None, "rows that a softmax does at once; fuses it however long they are"),
        Setting("MLIRTRI_FORCE_SCHEDULES", *_SWITCH, False, "for tests: schedule rules wherever they fit"),
        Setting("MLIRTRI_STRICT", *_SWITCH, False, "for tests: a schedule rule or pass that fails is an error"),
        Setting("MLIRTRI_RED_ZONES", *_SWITCH, False, "for tests: check at each call that code stays in its buffers"),
        Setting("MLIRTRI_VERIFY", *_SWITCH, False, "check after each stage that it holds only operations it may hold"),
        Setting("MLIRTRI_DEBUG", *_SWITCH, False, "show the compiler's own frames in errors; `debug` of kernels"),
    )
}  # fmt: skip
DECIDE_CODE = (
    "MLIRTRI_NUM_THREADS", "MLIRTRI_MAX_TENSOR_BYTES", "MLIRTRI_ROW_TILE", "MLIRTRI_FORCE_SCHEDULES", "MLIRTRI_STRICT",
    "MLIRTRI_VERIFY", "MLIRTRI_DEBUG",
)  # fmt: skip
"""Settings that change the code of a kernel or how it is checked, and that no option of `jit` says: part of the key of
the disk cache. A new setting that is missing here would be served code of its old value."""

_warned: set[str] = set()
_looked_at = [-1]
"""How many variables there were when their names were last read."""


def get(name: str, argument: object = None) -> Any:
    """Return `argument` unless it is None, else the variable's parsed value, else its default.

    An empty variable counts as unset. Raises `UnknownOptionError` for a value that does not parse.
    """
    _warn_about_unknown_names()
    setting = SETTINGS[name]
    if argument is not None:
        return argument
    text = os.environ.get(name, "").strip()
    if not text:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError:
        raise UnknownOptionError(f"{name}={text} is not {setting.kind}", help=f"{name}: {setting.meaning}") from None


def is_set(name: str) -> bool:
    """Return whether the variable has a value."""
    return bool(os.environ.get(name, "").strip())


def cache_folder() -> Path:
    """Return the user's cache folder of mlirtri; it may not exist yet. Raises `OSError` for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mlirtri")
    except RuntimeError as problem:
        raise FileNotFoundError(f"{problem} XDG_CACHE_HOME names another folder") from None


def _warn_about_unknown_names() -> None:
    # Reading all names takes 25 microseconds, and a compilation asks for a dozen settings.
    if len(os.environ) == _looked_at[0]:
        return
    _looked_at[0] = len(os.environ)
    unknown = {name for name in os.environ if name.startswith(PREFIX)} - SETTINGS.keys() - _warned
    for name in sorted(unknown):
        _warned.add(name)
        hint = did_you_mean(name, SETTINGS).rstrip() or "`mlirtri env` lists them"
        warnings.warn(f"{name} is not a setting of mlirtri: {hint}", stacklevel=users_stacklevel())


_OURS = tuple(str(Path(__file__).parent.parent / name) + os.sep for name in ("mlirtri", "dialect", "lowering"))
_PYTHON = os.path.dirname(os.__file__) + os.sep


def users_stacklevel() -> int:
    """Return the `stacklevel` of the user's line for a warning raised by the caller."""
    return _users_frame()[1] - 1


def users_frame() -> FrameType:
    """Return the frame of the user's line that led to the caller."""
    return _users_frame()[0]


def _users_frame() -> tuple[FrameType, int]:
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return frame, level


def is_users(file: str) -> bool:
    """Return whether a file is neither Python's nor ours."""
    is_python = file.startswith(("<frozen", _PYTHON)) and "site-packages" not in file
    return not is_python and not file.startswith(_OURS)
