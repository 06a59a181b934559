"""Files that `mlirtri repro` writes: beside a kernel's text they hold the user's modules, arrays, or a binary program.

Modules are a call of `unpack` in the file, in front of the kernel. Arrays and programs are lines that read as an
assignment, so that `mlirtri reduce` keeps them, or as a comment of MLIR.
"""

from __future__ import annotations

import ast
import atexit
import base64
import importlib.util
import io
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np

INPUTS, EXPECTED = "__mlirtri_inputs__", "__mlirtri_expected__"
"""The names of arrays: arguments of the call, and what it should give."""
PROGRAM = "__mlirtri_program__"
"""The name of a model's bytes, with the name of its file before a colon."""
FIRST_LINE = "mlirtri repro"
"""What the first line says behind the sign of a comment."""
_INSTALLED = ("site-packages", "dist-packages")


def unpack(modules: Mapping[str, str]) -> None:
    """Make modules importable: their texts by file, relative to a folder of the import path."""
    holder = _holder()
    for file, text in modules.items():
        target = holder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    sys.path.insert(0, str(holder))
    importlib.invalidate_caches()


def _holder() -> Path:
    """Return a folder that is there until this process ends."""
    holder = tempfile.TemporaryDirectory(prefix="mlirtri-repro-")
    atexit.register(holder.cleanup)
    return Path(holder.name)


def with_modules(text: str, modules: Mapping[str, str]) -> str:
    """Return a Python file's text with the call that makes the modules importable, below its ``__future__`` imports."""
    if not modules:
        return text
    entries = [f"    {file!r}: {_literal(source)}," for file, source in modules.items()]
    call = ["from mlirtri.sources.packed_files import unpack as _unpack", "", "_unpack({", *entries, "})", ""]
    lines = text.split("\n")
    first = next((line for line in map(_line_of, ast.parse(text).body) if line), len(lines) + 1)
    return "\n".join([*lines[: first - 1], *call, *lines[first - 1 :]])


def _line_of(statement: ast.stmt) -> int | None:
    """Return the line that a statement begins on; None for a docstring and for what has to be first in a file."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if is_text or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
        return None
    decorators = getattr(statement, "decorator_list", [])
    return min(each.lineno for each in [statement, *decorators])


def _literal(text: str) -> str:
    """Return a literal of Python's that keeps the lines of a text, where it can."""
    if "'''" in text or "\\" in text or text.endswith("'"):
        return repr(text)
    return f"'''{text}'''"


def user_modules(file: Path) -> dict[str, str]:
    """Return the texts of the modules that a Python file imports and nobody installed, and of those that they import.

    The keys are files, as the names of the modules have them: ``helpers.py``, ``package/__init__.py``.
    """
    found: dict[str, str] = {}
    waiting = [(file, "")]
    while waiting:
        source, package = waiting.pop()
        for name in _imported(source.read_text(errors="replace"), package):
            spec = _spec(name)
            if spec is None or not _is_users(spec):
                continue
            origin, is_package = Path(str(spec.origin)), spec.submodule_search_locations is not None
            key = f"{name.replace('.', '/')}{'/__init__' if is_package else ''}.py"
            if key not in found and origin != file:
                found[key] = origin.read_text(errors="replace")
                waiting.append((origin, name if is_package else name.rpartition(".")[0]))
    return dict(sorted(found.items()))


def _imported(text: str, package: str) -> Iterator[str]:
    """Yield the names of modules that a text may import, those of packages around them included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)] if base else []
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    return importlib.util.resolve_name("." * node.level + (node.module or ""), package) if package else ""


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except Exception:  # a package around it that does not import, or a name that is no module
        return None


def _is_users(spec: ModuleSpec) -> bool:
    """Return whether a module is a Python file that came with no installation, and is no part of mlirtri."""
    name = spec.name.partition(".")[0]
    if name in sys.stdlib_module_names or name == "mlirtri" or not spec.has_location or not spec.origin:
        return False
    origin = Path(spec.origin)
    if origin.suffix != ".py" or {*origin.parts} & {*_INSTALLED}:
        return False
    return not any(origin.is_relative_to(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib"))


def line_of_arrays(name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the line that holds arrays; `arrays_in` reads it."""
    buffer = io.BytesIO()
    named: dict[str, np.ndarray] = dict(arrays)
    np.savez_compressed(buffer, **named)  # pyright: ignore[reportArgumentType]
    return f'{name} = "{base64.b64encode(buffer.getvalue()).decode()}"'


def arrays_in(text: str, name: str) -> dict[str, np.ndarray] | None:
    """Return the arrays of a packed file's text, by their names; None where it holds none of this name."""
    match = re.search(rf"^(?:// )?{name} = [\"']([A-Za-z0-9+/=]*)[\"']$", text, re.MULTILINE)
    if match is None:
        return None
    with np.load(io.BytesIO(base64.b64decode(match[1])), allow_pickle=False) as loaded:
        return {each: loaded[each] for each in loaded.files}


def is_binary(file: Path) -> bool:
    """Return whether a file is no Python and no text."""
    if file.suffix == ".py":
        return False
    data = file.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in data


def line_of_program(file: Path) -> str:
    """Return the line that holds a binary program; `unpacked` reads it."""
    return f'{PROGRAM} = "{file.name}:{base64.b64encode(file.read_bytes()).decode()}"'


def unpacked(file: Path) -> Path | None:
    """Return the file, under its own name, of the binary program that a packed file holds; None for another file."""
    if file.suffix != ".py" or not file.is_file():
        return None
    return _unpacked_once(file.resolve(), file.stat().st_mtime_ns)


@cache
def _unpacked_once(file: Path, changed: int) -> Path | None:
    with file.open(errors="replace") as opened:
        if opened.readline().rstrip() != f"# {FIRST_LINE}":
            return None
        text = opened.read()
    match = re.search(rf"^{PROGRAM} = [\"']([^\"':/]+):([A-Za-z0-9+/=]*)[\"']$", text, re.MULTILINE)
    if match is None:
        return None
    program = _holder() / match[1]
    program.write_bytes(base64.b64decode(match[2]))
    return program
