"""Find the kernels in the text of a file, saved or not, and the arguments that comments give them.

A kernel whose parameters have no whole types is checked for the arguments of a comment above it, or of a lit test::

    # mlirtri: a=f32[64,64] n=3
    # RUN: mlirtri emit %s::name --arg 'a=f32[64,64]' --arg n=3
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import linecache
import re
import shlex
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mlirtri.errors import KernelError, SourceNotAvailableError, Span
from mlirtri.kernels.argument_text import parse_argument
from mlirtri.kernels.jit import JitFunction

_EXECUTED = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign,
    ast.If, ast.Try,
)  # fmt: skip
_COMMENT = re.compile(r"\s*#\s*mlirtri:\s*(?P<arguments>.*)")
_RUN = re.compile(r"\s*#\s*RUN:.*?\bmlirtri\s+\w+\s+(?P<rest>[^|>]*)")


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel of a document, and the arguments that it is checked for."""

    name: str
    function: JitFunction
    arguments: dict[str, Any]
    span: Span
    """Its name after ``def``, or the comment that the arguments are from."""


@dataclass
class Document:
    """The kernels that a text defines, and the errors of reading it."""

    kernels: list[CheckedKernel] = field(default_factory=list)
    errors: list[KernelError] = field(default_factory=list)
    """Statements that failed, and comments that are no arguments."""
    unchecked: list[tuple[Span, str]] = field(default_factory=list)
    """Kernels that nothing gives arguments: the name after ``def``, and a comment that would."""
    half_typed: set[str] = field(default_factory=set)
    """Functions that are no Python yet: what uses them is no mistake."""


def read_document(path: str, text: str) -> Document:
    """Return the kernels of a file's text; runs its imports, definitions and assignments.

    A statement of the module that is half typed is an error, and the others are read without it.
    """
    document = Document()
    text, tree = _parsed(path, text, document)
    # Error messages and the front end read the lines that the editor has, not those on the disk.
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    if tree is None:
        return document
    module = _executed(path, tree, document)
    lines = text.splitlines()
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, value in vars(module).items():
        if isinstance(value, JitFunction) and name in functions and _is_of(value, path):
            _add_kernel(document, name, value, functions[name], lines)
    return document


_ATTEMPTS = 4
"""Statements of a module that may be half typed at a time."""
_DEFINITION = re.compile(r"^(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_START = re.compile(r"[^\s#)\]}]")
"""What a line with a statement of the module begins with."""


def _parsed(path: str, text: str, document: Document) -> tuple[str, ast.Module | None]:
    """Return the text, with empty lines for statements of the module that are no Python, and its syntax tree.

    The tree is None where more is wrong. The first error becomes one of the document.
    """
    whole = text
    for _ in range(_ATTEMPTS):
        try:
            return text, ast.parse(text, path)
        except (SyntaxError, ValueError) as error:
            line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
            message = getattr(error, "msg", None) or str(error)
            if not document.errors:
                what = f"this is not valid Python: {message}"
                document.errors.append(SourceNotAvailableError(what, Span(path, line, column)))
            # A head without a body is an error of the next line that has something.
            found = _statement(text.splitlines(), line - 1 - ("expected an indented block" in message))
            if (name := _DEFINITION.search("\n".join(text.splitlines()[found]))) is None:
                break  # without an import all would be wrong
            document.half_typed.add(name[1])
            lines = text.splitlines()
            lines[found] = [""] * (found.stop - found.start)
            text = "\n".join(lines)
    return whole, None


def _statement(lines: list[str], last: int) -> slice:
    """Return the lines of the module's statement that a line, counted from 0, is in."""
    starts = [number for number, each in enumerate(lines) if _START.match(each)]
    # Decorators stand before what they decorate.
    starts = [
        number
        for before, number in zip([None, *starts], starts, strict=False)
        if before is None or not lines[before].startswith("@")
    ]
    start = max((number for number in starts if number <= last), default=0)
    return slice(start, min((number for number in starts if number > start), default=len(lines)))


def _executed(path: str, tree: ast.Module, document: Document) -> ModuleType:
    module = ModuleType(Path(path).stem)
    module.__file__ = path
    folder = str(Path(path).parent)
    statements = [statement for statement in tree.body if isinstance(statement, _EXECUTED)]
    _forget_changed_modules(folder)
    with _first_on_path(folder), contextlib.redirect_stdout(sys.stderr):
        for statement in statements:
            if _calls_kernel(statement, module):
                continue
            try:
                exec(_code(tree, statement, path), vars(module))
            except KernelError as error:
                document.errors.append(error)
            except (Exception, SystemExit) as error:
                span = _span(path, statement)
                document.errors.append(SourceNotAvailableError(f"{type(error).__name__}: {error}", span))
    _seen.update({name: time for name, time in _times_of_modules(folder).items() if name not in _seen})
    return module


_seen: dict[str, int] = {}
"""When the file of each module in the folders of documents was changed, as it was imported."""


def _forget_changed_modules(folder: str) -> None:
    """Have the modules below a folder imported anew where the file of one has changed: they import each other."""
    times = _times_of_modules(folder)
    if any(_seen.get(name, time) != time for name, time in times.items()):
        for name in times:
            del sys.modules[name]
            _seen.pop(name, None)
        importlib.invalidate_caches()


def _times_of_modules(folder: str) -> dict[str, int]:
    return {name: time for name, module in list(sys.modules.items()) if (time := _changed_at(module, folder))}


def _changed_at(module: ModuleType, folder: str) -> int | None:
    """Return the modification time of a user's module in nanoseconds; None for an installed one, or one elsewhere."""
    file = Path(getattr(module, "__file__", None) or "")
    if not file.is_relative_to(folder) or "site-packages" in file.parts or module.__name__.startswith("mlirtri"):
        return None
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


def _calls_kernel(statement: ast.stmt, module: ModuleType) -> bool:
    """Return whether an assignment calls a kernel, which would be compiled and run."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return False
    names = [
        node.func.id for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return any(isinstance(getattr(module, name, None), JitFunction) for name in names)


def _code(tree: ast.Module, statement: ast.stmt, path: str) -> CodeType:
    # `from __future__ import annotations` holds for the whole file.
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = futures if statement in futures else [*futures, statement]
    return compile(ast.Module(list(body), []), path, "exec", dont_inherit=True)


@contextlib.contextmanager
def _first_on_path(folder: str):
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _is_of(function: JitFunction, path: str) -> bool:
    return function.__mlirtri_function__.__code__.co_filename == path


def _add_kernel(document: Document, name: str, function: JitFunction, node: ast.FunctionDef, lines: list[str]) -> None:
    path = function.__mlirtri_function__.__code__.co_filename
    try:
        signature = function.signature
    except KernelError as error:
        document.errors.append(error)
        return
    examples = _examples(name, node, lines)
    if not examples and _needs_arguments(function):
        document.unchecked.append((_name_span(path, node, lines), _comment_for(function)))
        return
    for line, words in examples or [(None, [])]:
        span = _name_span(path, node, lines) if line is None else Span(path, line, 1, line, len(lines[line - 1]) + 1)
        try:
            arguments = dict(parse_argument(word) for word in words)
        except KernelError as error:
            document.errors.append(error.at(span))
            continue
        known = {key: value for key, value in arguments.items() if key in signature.parameters}
        document.kernels.append(CheckedKernel(name, function, known, span))


def _needs_arguments(function: JitFunction) -> bool:
    """Return whether a parameter has neither a whole type nor a default, so that there is nothing to check."""
    try:
        function.signature.specialize(function.signature.bind((), {}, abstract=True))
    except KernelError:
        return True
    return False


def _comment_for(function: JitFunction) -> str:
    """Return a comment to edit, with an example matrix for each parameter that needs an argument."""
    signature = function.signature
    needed = [
        name
        for name, parameter in signature.parameters.items()
        if name not in signature.annotations and parameter.default is parameter.empty
    ]
    return " ".join(["# mlirtri:", *(f"{name}=f32[2,3]" for name in needed or signature.parameters)])


def _examples(name: str, node: ast.FunctionDef, lines: list[str]) -> list[tuple[int, list[str]]]:
    """Return the arguments that comments give a kernel, split into words, with the line of each comment."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    examples = []
    for number in range(first - 1, 0, -1):
        if not lines[number - 1].lstrip().startswith("#"):
            break
        if match := _COMMENT.match(lines[number - 1]):
            examples.append((number, _words(match["arguments"])))
    for number, line in enumerate(lines, 1):
        if match := _RUN.match(line):
            words = _words(match["rest"])
            if _runs(name, words):
                examples.append((number, _values_of(words, "--arg")))
    return examples


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark, which the line still lacks
        return []


def _runs(name: str, words: list[str]) -> bool:
    """Return whether a command of a RUN line compiles the kernel of this name in the file itself."""
    for word in words:
        if word == "%s" or word.startswith("%s::"):
            names = word.removeprefix("%s").removeprefix("::")
            return names in ("", "*") or name in names.split(",")
    return False


def _values_of(words: list[str], option: str) -> list[str]:
    values = [value for key, value in pairwise(words) if key == option]
    return values + [word.partition("=")[2] for word in words if word.startswith(option + "=")]


def _span(path: str, node: ast.stmt) -> Span:
    return Span(path, node.lineno, node.col_offset + 1)


def _name_span(path: str, node: ast.FunctionDef, lines: list[str]) -> Span:
    column = lines[node.lineno - 1].find(node.name, node.col_offset + len("def ")) + 1
    return Span(path, node.lineno, column, node.lineno, column + len(node.name))
