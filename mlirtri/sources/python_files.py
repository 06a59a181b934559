"""Load the kernel or graph that ``FILE.py::name`` names.

A Python file is imported, so its top level runs; its prints go to stderr.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import (
    ArgumentMismatchError,
    KernelError,
    SourceNotAvailableError,
    Span,
    UnknownNameError,
    did_you_mean,
)
from mlirtri.kernels.argument_text import random_array
from mlirtri.kernels.graph import Graph
from mlirtri.kernels.jit import JitFunction, jit
from mlirtri.language.names import Tensor
from mlirtri.language.signature import Signature


def load_kernel(spec: str) -> JitFunction:
    """Return the kernel that ``FILE.py`` or ``FILE.py::name`` names; a plain function is jitted."""
    file, _, name = spec.partition("::")
    path = Path(file)
    module = import_file(path)
    return _named(module, path, name) if name else _only_one(module, path)


def each_kernel(spec: str) -> list[str]:
    """Split ``FILE.py::a,b``, or ``FILE.py::*`` for all kernels of the file, into one spec per kernel."""
    file, _, names = spec.partition("::")
    if names == "*":
        path = Path(file)
        return [f"{file}::{name}" for name in _kernels(import_file(path), path)]
    return [f"{file}::{name}" for name in names.split(",")] if names else [spec]


def import_file(path: Path) -> ModuleType:
    """Import a Python file, once, as a module of its own name, with its folder first on the import path."""
    if not path.is_file():
        raise SourceNotAvailableError(f"there is no file {path}")
    # A relative path names another file in another folder.
    return _import_once(path.resolve())


@cache
def _import_once(path: Path) -> ModuleType:
    is_free = path.stem.isidentifier() and path.stem not in sys.modules
    name = path.stem if is_free else f"_mlirtri_file_{len(sys.modules)}"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
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
    file = str(path.resolve())
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == file:
        span = Span(file, error.lineno or 1, error.offset or 1)
        return SourceNotAvailableError(f"{path.name} is not valid Python: {error.msg}", span)
    if isinstance(error, (SyntaxError, ValueError)) and (before := _text_before_null(path)) is not None:
        # Python says no position of these, and 3.10 raises a ValueError.
        span = Span(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        return SourceNotAvailableError(f"{path.name} is not valid Python: a null character", span)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    span = Span(file, lines[-1] or 1, 1) if lines else None
    return SourceNotAvailableError(f"{path.name} does not import: {message}", span)


def _text_before_null(path: Path) -> str | None:
    text, null, _ = path.read_bytes().decode("utf-8", "replace").partition("\0")
    return text if null else None


def _named(module: ModuleType, path: Path, name: str) -> JitFunction:
    try:
        value: Any = reduce(getattr, name.split("."), module)
    except AttributeError:
        kernels = _kernels(module, path)
        hint = f"{did_you_mean(name, kernels)}its kernels are {', '.join(kernels) or 'none'}"
        raise UnknownNameError(f"{path} has no {name!r}", help=hint) from None
    if isinstance(value, JitFunction):
        return value
    if isinstance(value, FunctionType):
        return jit(value)
    raise UnknownNameError(f"{name!r} in {path} is a {type(value).__name__}, not a function", help="name a function")


def _only_one(module: ModuleType, path: Path) -> JitFunction:
    kernels = _kernels(module, path)
    if len(kernels) == 1:
        return next(iter(kernels.values()))
    if not kernels:
        raise UnknownNameError(f"{path} has no function decorated with @mlirtri.jit", help=f"name one: {path}::NAME")
    raise UnknownNameError(f"{path} has {len(kernels)} kernels", help=f"name one: {path}::{'|'.join(kernels)}")


def _kernels(module: ModuleType, path: Path) -> dict[str, JitFunction]:
    file = str(path.resolve())
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, JitFunction) and value.__mlirtri_function__.__code__.co_filename == file
    }


def load_graph(spec: str) -> Graph | None:
    """Return the graph that ``FILE.py::name`` names, or the only one of a file without kernels; else None."""
    file, _, name = spec.partition("::")
    named = vars(import_file(Path(file)))
    if name:
        return named[name] if isinstance(named.get(name), Graph) else None
    graphs = [value for value in named.values() if isinstance(value, Graph)]
    return graphs[0] if len(graphs) == 1 and not _kernels(import_file(Path(file)), Path(file)) else None


def arguments_of_each(subjects: Sequence[object], arguments: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return each kernel's part of shared arguments: ``KERNEL.NAME`` is one kernel's, ``NAME`` is of all that have it.

    What is no kernel takes all without a kernel's name. A single kernel takes them, too, so that `checked_arguments`
    says what it lacks. Raises `ArgumentMismatchError` for an argument that none of several kernels takes.
    """
    kernels = [subject for subject in subjects if isinstance(subject, JitFunction)]
    if len(kernels) == len(subjects) > 1:
        _check_that_one_takes(kernels, arguments)
    of_kernels = tuple(f"{kernel.__name__}." for kernel in kernels)
    # The inputs of a model may have dots in their names.
    of_others = {name: value for name, value in arguments.items() if not name.startswith(of_kernels)}
    return [
        _taken(subject, arguments, len(subjects) > 1) if isinstance(subject, JitFunction) else of_others
        for subject in subjects
    ]


def _check_that_one_takes(kernels: Sequence[JitFunction], arguments: Mapping[str, Any]) -> None:
    takes_any = any(
        parameter.kind is parameter.VAR_KEYWORD
        for kernel in kernels
        for parameter in kernel.signature.parameters.values()
    )
    of_all = [*dict.fromkeys(name for kernel in kernels for name in kernel.signature.parameters)]
    of_one = [f"{kernel.__name__}.{name}" for kernel in kernels for name in kernel.signature.parameters]
    for name in arguments:
        known = of_one if "." in name else of_all
        if name not in known and not takes_any:
            hint = f"{did_you_mean(name, known)}their parameters are {', '.join(known) or 'none'}"
            raise ArgumentMismatchError(f"no kernel has a parameter {name!r}", help=hint)


def _taken(subject: JitFunction, arguments: Mapping[str, Any], is_shared: bool) -> dict[str, Any]:
    shared = {name: value for name, value in arguments.items() if "." not in name}
    if is_shared:
        parameters = subject.signature.parameters
        shared = {name: value for name, value in shared.items() if name in parameters}
    own = f"{subject.__name__}."
    named = {name.removeprefix(own): value for name, value in arguments.items() if name.startswith(own)}
    others = {} if is_shared else {n: v for n, v in arguments.items() if "." in n and not n.startswith(own)}
    return {**shared, **others, **named}


def checked_arguments(function: JitFunction, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, numbers for parameters annotated with a dtype; raises `ArgumentMismatchError`."""
    _check_names(function, arguments)
    annotations = function.signature.annotations
    given = {name: of for name, of in annotations.items() if isinstance(of, DType) and _is_required(function, name)}
    return {name: _number(name, value, annotations.get(name)) for name, value in {**given, **arguments}.items()}


def _is_required(function: JitFunction, name: str) -> bool:
    return function.signature.parameters[name].default is inspect.Parameter.empty


def _number(name: str, value: Any, annotation: Any) -> Any:
    if not isinstance(annotation, DType):
        return value
    abstract = Tensor((), value) if isinstance(value, DType) else value
    if not isinstance(abstract, Tensor) or abstract.type != TensorType((), annotation):
        return abstract
    return random_array(name, abstract.type, abstract.bounds).item()


def _check_names(function: JitFunction, arguments: dict[str, Any]) -> None:
    signature = function.signature
    name, parameters = function.__name__, signature.parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for argument in arguments:
        if argument not in parameters:
            known_names = f"its parameters are {', '.join(parameters)}" if parameters else "it has no parameters"
            hint = f"{did_you_mean(argument, parameters)}{known_names}"
            raise ArgumentMismatchError(f"{name}() has no parameter {argument!r}", signature.span, help=hint)
    open_ = [argument for argument, parameter in parameters.items() if _has_to_be_said(signature, parameter)]
    missing = [argument for argument in open_ if argument not in arguments]
    if missing:
        shown = " ".join(f"--arg {argument}=f32[2,3]" for argument in missing)
        raise ArgumentMismatchError(
            f"{name}() misses --arg for {', '.join(missing)}", signature.span,
            help=f"write {shown} with their dtypes and shapes, or a value: --arg {missing[0]}=3",
        )  # fmt: skip


def _has_to_be_said(signature: Signature, parameter: Any) -> bool:
    annotated = signature.annotations.get(parameter.name)
    is_known = isinstance(annotated, DType) or (isinstance(annotated, Tensor) and annotated.type is not None)
    return not is_known and parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
