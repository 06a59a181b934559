"""Run operations under the user's source lines: each line is a Python frame with that file, line and function.

Debuggers and tracebacks read file and line from a frame's code, so a breakpoint on a line of the kernel stops there,
and the frame's locals are the kernel's variables. Consecutive operations of one line share a frame; an inlined call is
a frame below its caller's.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from types import CodeType
from typing import Any

from mlirtri.dialect.bindings.locations import callers_of, span_of
from mlirtri.dialect.bindings.mlir import ir

SourceLine = tuple[str, int]
"""File and line."""
Action = Callable[[Any], None]
"""A function on the state of a run: an operation, or a line of operations."""

_RUN = "__steps_of_this_line__"


def chain_of(location: ir.Location) -> tuple[SourceLine, ...]:
    """Return the source lines of an operation: the outermost caller's first, its own last."""
    spans = [*(note.span for note in reversed(callers_of(location))), span_of(location)]
    return tuple((span.file, span.line) for span in spans if span is not None)


def lines_of(actions: Sequence[tuple[tuple[SourceLine, ...], Action]]) -> list[Action]:
    """Return the actions in the same order, consecutive ones of one line in one frame."""
    lines: list[Action] = []
    for first_line, group in groupby(actions, key=lambda action: action[0][:1]):
        if first_line:
            lines.append(Line(*first_line[0], lines_of([(chain[1:], action) for chain, action in group])))
        else:
            lines += [action for _, action in group]
    return lines


class Line:
    """The actions of one source line, in a frame of their own; a lone `breakpoint()` stops in that very frame."""

    def __init__(self, file: str, line: int, actions: list[Action]):
        self.file = file
        self.line = line
        self.actions = actions
        stops = len(actions) == 1 and isinstance(actions[0], Breakpoint)
        self.code = _code(file, line, "breakpoint" if stops else _RUN)

    def __call__(self, state: Any) -> None:
        def run() -> None:
            for action in self.actions:
                action(state)

        exec(self.code, {"__builtins__": builtins, _RUN: run}, state.names)


class Breakpoint:
    """Stop in the debugger, as `breakpoint()` in a kernel asks."""

    def __call__(self, state: Any) -> None:
        builtins.breakpoint()


@lru_cache(maxsize=4096)
def _code(file: str, line: int, callee: str) -> CodeType:
    call = ast.Module([ast.Expr(ast.Call(ast.Name(callee, ast.Load()), [], []))], [])
    for node in ast.walk(call):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return compile(call, file, "exec").replace(co_name=_function_at(file, line))


@lru_cache(maxsize=4096)
def _function_at(file: str, line: int) -> str:
    name = "<kernel>"
    for node in _functions(file):
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            name = node.name
    return name


@lru_cache(maxsize=64)
def _functions(file: str) -> list[ast.FunctionDef]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
