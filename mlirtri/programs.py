"""From ``FILE.py::name`` on the command line to the kernel that it names.

Takes a path and, when the file holds more than one kernel, a name (dots reach into classes).
Gives a `JitFunction`. The file is imported, so its top level runs; what that prints goes to stderr.
Refuses files that do not import, at the line that fails, and names that are not there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from functools import reduce
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mlirtri.errors import KernelError, SourceNotAvailableError, Span, UnknownNameError, did_you_mean
from mlirtri.jit import JitFunction, jit


def load_kernel(spec: str) -> JitFunction:
    """The kernel that ``FILE.py`` or ``FILE.py::name`` names; a plain function counts as decorated with `jit`."""
    file, _, name = spec.partition("::")
    path = Path(file)
    if not path.is_file():
        raise SourceNotAvailableError(f"there is no file {file}")
    module = import_file(path)
    return _named(module, path, name) if name else _only_one(module, path)


def import_file(path: Path) -> ModuleType:
    """Import a Python file as a module of its own name, with its folder first on the import path."""
    name = (
        path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_mlirtri_file_{len(sys.modules)}"
    )
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise SourceNotAvailableError(f"{path} is not a Python file", help="kernels live in .py files")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except KernelError:
        raise
    except (Exception, SystemExit) as error:
        raise _import_error(path, error) from None
    return module


def _import_error(path: Path, error: BaseException) -> SourceNotAvailableError:
    """The error at the last line of the file itself that took part in it."""
    file = str(path.resolve())
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == file:
        span = Span(file, error.lineno or 1, error.offset or 1)
        return SourceNotAvailableError(f"{path.name} is not valid Python: {error.msg}", span)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    span = Span(file, lines[-1] or 1, 1) if lines else None
    return SourceNotAvailableError(f"{path.name} does not import: {what}", span)


def _named(module: ModuleType, path: Path, name: str) -> JitFunction:
    try:
        found: Any = reduce(getattr, name.split("."), module)
    except AttributeError:
        kernels = _kernels(module, path)
        hint = f"{did_you_mean(name, kernels)}its kernels are {', '.join(kernels) or 'none'}"
        raise UnknownNameError(f"{path} has no {name!r}", help=hint) from None
    if isinstance(found, JitFunction):
        return found
    if isinstance(found, FunctionType):
        return jit(found)
    raise UnknownNameError(f"{name!r} in {path} is a {type(found).__name__}, not a function", help="name a function")


def _only_one(module: ModuleType, path: Path) -> JitFunction:
    kernels = _kernels(module, path)
    if len(kernels) == 1:
        return next(iter(kernels.values()))
    if not kernels:
        raise UnknownNameError(f"{path} has no function decorated with @mlirtri.jit", help=f"name one: {path}::NAME")
    raise UnknownNameError(f"{path} has {len(kernels)} kernels", help=f"name one: {path}::{{{','.join(kernels)}}}")


def _kernels(module: ModuleType, path: Path) -> dict[str, JitFunction]:
    """The kernels of the file itself; those it imported are somebody else's."""
    file = str(path.resolve())
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, JitFunction) and value.__mlirtri_function__.__code__.co_filename == file
    }
