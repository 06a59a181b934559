"""Parse a Python function to its syntax tree, with the line and column numbers of its file."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, cast

from mlirtri.errors import SourceNotAvailableError, Span, UnsupportedSyntaxError, span_of_definition
from mlirtri.lowering.core.interface import KernelSource, Specialization, identifier_of
from mlirtri.lowering.core.stage import CompileContext

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class KernelTree:
    """The syntax tree of a kernel's function, and what it is compiled for."""

    function: Callable[..., Any]
    symbol: str
    file: str
    node: ast.FunctionDef
    specialization: Specialization


def lower(source: KernelSource, context: CompileContext) -> KernelTree:
    """Return the tree of a kernel's function; raises `SourceNotAvailableError` and `UnsupportedSyntaxError`."""
    file, node = parse_function(source.function)
    return KernelTree(source.function, source.symbol, file, node, source.specialization)


def print_tree(tree: KernelTree) -> str:
    return ast.dump(tree.node, indent=2) + "\n"


def symbol_of(function: Callable[..., object]) -> str:
    """Return a name that is valid in MLIR, LLVM, C and TVMScript, without dots, brackets and non-ASCII letters."""
    name = getattr(function, "__qualname__", None) or function.__name__
    name = name.rsplit("<locals>.", 1)[-1].replace("<lambda>", "lambda")
    return identifier_of(name)


def span_of_node(file: str, node: Any) -> Span:
    """Return the source range of a node; columns count characters from 1, where `ast` counts UTF-8 bytes from 0."""
    line, end_line = node.lineno, node.end_lineno or node.lineno
    column = _characters(file, line, node.col_offset) + 1
    return Span(file, line, column, end_line, _characters(file, end_line, node.end_col_offset or 0) + 1)


def _characters(file: str, line: int, byte_offset: int) -> int:
    text = linecache.getline(file, line)
    return byte_offset if text.isascii() else len(text.encode()[:byte_offset].decode(errors="ignore"))


def parse_function(function: Callable[..., object]) -> tuple[str, ast.FunctionDef]:
    """Return the file name and the `def` of a Python function; a lambda is a `def` with one return statement."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise SourceNotAvailableError(
            f"{function!r} is not a plain Python function", help="decorate a function written with def"
        )
    name = function.__name__
    if inspect.ismethod(function):
        raise SourceNotAvailableError(
            f"{name!r} is a method, and a kernel is a function of tensors alone",
            span_of_definition(function),
            help="pass what it needs of its object as arguments",
        )
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, getattr(function, "__globals__", None))
    if not lines:
        raise SourceNotAvailableError(
            f"the source of {name!r} is not available: {code.co_filename!r} is not a file that can be read",
            help="put the kernel into a file or a notebook cell; `python -c`, exec and a plain REPL keep no source",
        )
    try:
        tree = _parse_file(code.co_filename, "".join(lines))
    except SyntaxError as error:
        raise SourceNotAvailableError(
            f"the source of {name!r} no longer parses: {error.msg}", Span(code.co_filename, error.lineno or 1, 1)
        ) from None
    return code.co_filename, _checked(_of_code(_find(tree, code), code), code.co_filename, name)


@lru_cache(maxsize=64)
def _parse_file(file: str, text: str) -> ast.Module:
    return ast.parse(text, file)


def _find(tree: ast.Module, code: CodeType) -> list[_Definition]:
    definitions: list[_Definition] = []
    for node in _around(tree, code.co_firstlineno):
        if code.co_name == "<lambda>" and isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            parameters = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            if parameters == list(code.co_varnames[: code.co_argcount]):
                definitions.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            if code.co_firstlineno in (_first_line(node), node.lineno):
                definitions.append(node)
    return definitions


def _around(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """Yield the nodes of a tree that have text on this line, in the order of `ast.walk`; a file has many others."""
    nodes = deque([tree])
    while nodes:
        node = nodes.popleft()
        last = getattr(node, "end_lineno", None)
        if last is None or _first_line(node) <= line <= last:
            nodes.extend(ast.iter_child_nodes(node))
            yield node


def _first_line(node: Any) -> int:
    """Return the line on which a node begins, its decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def _of_code(definitions: list[_Definition], code: CodeType) -> list[_Definition]:
    """Return the lambda of one line whose body encloses the instructions; all of them where these lack columns."""
    positions = code.co_positions() if hasattr(code, "co_positions") else ()
    ranges = [((line, column), (end, end_column)) for line, end, column, end_column in positions if end_column]
    lambdas = [node for node in definitions if isinstance(node, ast.Lambda)]
    if len(lambdas) < 2 or not ranges:
        return definitions
    first, last = min(start for start, _ in ranges), max(end for _, end in ranges)
    enclosing = [node.body for node in lambdas if _start(node.body) <= first and last <= _end(node.body)]
    return [node for node in lambdas if enclosing and node.body is max(enclosing, key=_start)]


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _checked(definitions: list[_Definition], file: str, name: str) -> ast.FunctionDef:
    if not definitions:
        raise SourceNotAvailableError(
            f"{name!r} is not where Python says it was defined in {file}", help="the file changed since it was imported"
        )
    if len(definitions) > 1:
        raise SourceNotAvailableError(
            f"several functions called {name!r} start on the same line",
            span_of_node(file, definitions[0]),
            help="put each on a line of its own; Python keeps their columns from 3.11 on only",
        )
    [node] = definitions
    if isinstance(node, ast.AsyncFunctionDef):
        raise UnsupportedSyntaxError("a kernel cannot be async", span_of_node(file, node), help="write a plain def")
    return _from_lambda(node) if isinstance(node, ast.Lambda) else cast(ast.FunctionDef, node)


def _from_lambda(node: ast.Lambda) -> ast.FunctionDef:
    returned = ast.copy_location(ast.Return(node.body), node.body)
    definition = ast.FunctionDef(name="lambda_", args=node.args, body=[returned], decorator_list=[])
    return ast.copy_location(definition, node)
