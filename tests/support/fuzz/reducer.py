"""Makes a failing program smaller while it fails in the same way: delta debugging over statements, then values and
shapes.

A candidate has to be a program itself: the reference runs it and bounds its results. Four ways to a smaller one: a
result is dropped; a statement is deleted, or part of a block; a statement goes and its value becomes an argument; an
expression becomes one of its operands. Then axes of one size become shorter in all arguments.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fuzz.bounded_array import Bounded
from fuzz.program import Program, Statement, comparable, evaluate
from fuzz.runner import KINDS, Outcome, outcome

Test = Callable[[Program], bool]


def reduce(program: Program, pipeline: str, failure: Outcome, seconds: float = 60.0) -> Program:
    """Return the smallest program that is met within the time and fails like the one given."""
    end = time.monotonic() + seconds

    def fails(candidate: Program) -> bool:
        if time.monotonic() > end:
            return False
        reference = sound(candidate)
        if reference is None:
            return False
        result = outcome(candidate, pipeline, reference)
        return (result.what, result.signature) == (failure.what, failure.signature)

    while time.monotonic() < end:
        smaller = next((candidate for candidate in candidates(program) if fails(candidate)), None)
        if smaller is None:
            break
        program = smaller
    return program


def sound(program: Program) -> list[Any] | None:
    """Return the reference's results; None where there are none that can be compared."""
    kind = KINDS[program.kind]
    try:
        expected = kind.expected(program, evaluate(program, kind.start))
    except Exception:
        return None
    return expected if all(comparable(each) for each in expected if isinstance(each, Bounded)) else None


def candidates(program: Program) -> Iterator[Program]:
    """Give smaller programs, the much smaller ones first."""
    yield from _halves(program)
    yield from _fewer_results(program)
    yield from _without_statements(program)
    yield from _statements_as_arguments(program)
    yield from _smaller_statements(program)
    yield from _fewer_arguments(program)
    yield from _shorter_axes(program)


def _halves(program: Program) -> Iterator[Program]:
    """Drop half, a quarter… of the statements (Zeller and Hildebrandt, Simplifying and isolating failure-inducing
    input)."""
    size = len(program.statements) // 2
    while size > 1:
        for first in range(0, len(program.statements), size):
            yield program.with_(statements=program.statements[:first] + program.statements[first + size :])
        size //= 2


def _fewer_results(program: Program) -> Iterator[Program]:
    """One result alone, or one less; or the value of an earlier statement instead."""
    if len(program.results) > 1:
        for name in program.results:
            yield program.with_(results=(name,))
        for position in range(len(program.results)):
            yield program.with_(results=program.results[:position] + program.results[position + 1 :])
    elif program.results:
        for position, statement in enumerate(program.statements[:-1]):
            name = statement.text.partition(" = ")[0]
            if name.isidentifier():
                yield program.with_(results=(name,), statements=program.statements[: position + 1])


def _without_statements(program: Program) -> Iterator[Program]:
    for position in reversed(range(len(program.statements))):
        yield program.with_(statements=program.statements[:position] + program.statements[position + 1 :])


def _statements_as_arguments(program: Program) -> Iterator[Program]:
    """Make the value that a statement names an argument, first for the statements that the most hangs on."""
    kind = KINDS[program.kind]
    for position in reversed(range(len(program.statements))):
        name, _, _ = program.statements[position].text.partition(" = ")
        if not name.isidentifier() or name in program.arguments:
            continue
        try:
            environment = evaluate(program.with_(statements=program.statements[: position + 1], results=()), kind.start)
        except Exception:
            continue
        value = environment.get(name)
        if hasattr(value, "low"):
            rest = program.statements[:position] + program.statements[position + 1 :]
            yield program.with_(arguments={**program.arguments, name: value.low}, statements=rest)


def _fewer_arguments(program: Program) -> Iterator[Program]:
    for name in program.arguments:
        yield program.with_(arguments={other: value for other, value in program.arguments.items() if other != name})


def _shorter_axes(program: Program) -> Iterator[Program]:
    sizes = {size for value in program.arguments.values() for size in np.shape(value)}
    for size in sorted(sizes, reverse=True):
        for shorter in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < shorter < size:
                cut = {name: _cut(value, size, shorter) for name, value in program.arguments.items()}
                yield program.with_(arguments=cut)


def _cut(value: Any, size: int, shorter: int) -> Any:
    if not np.ndim(value):
        return value
    part = value[tuple(slice(shorter) if axis == size else slice(None) for axis in value.shape)]
    return part.copy(order="K") if isinstance(part, np.ndarray) else part.clone()


def _smaller_statements(program: Program) -> Iterator[Program]:
    """Programs with a part of one statement; for programs whose source is the reference's."""
    for position, statement in enumerate(program.statements):
        if statement.source:
            return
        for text in smaller_texts(statement.text):
            inserted = (Statement(text),) if text else ()
            yield program.with_(
                statements=program.statements[:position] + inserted + program.statements[position + 1 :]
            )


def smaller_texts(text: str) -> Iterator[str]:
    """Give a statement with a block unwrapped, a line of a block less, or an expression replaced by one of its
    operands."""
    tree = ast.parse(text)
    statement = tree.body[0]
    for block in ("body", "orelse"):
        if getattr(statement, block, None):
            yield "\n".join(ast.unparse(each) for each in getattr(statement, block))
    for parent, block, position in _positions(tree):
        changed = copy.deepcopy(tree)
        lines = getattr(_same(tree, changed, parent), block)
        del lines[position]
        if not lines and block == "body" and not isinstance(parent, ast.Module):
            lines.append(ast.Pass())
        yield ast.unparse(changed)
    for node in ast.walk(tree):
        for operand in _operands(node):
            yield ast.unparse(_replaced(tree, node, operand))


def _positions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int]]:
    for node in ast.walk(tree):
        for block in ("body", "orelse"):
            lines = getattr(node, block, None)
            if isinstance(lines, list) and not isinstance(node, ast.Module):
                yield from ((node, block, position) for position in range(len(lines)))


def _same(tree: ast.AST, changed: ast.AST, node: ast.AST) -> ast.AST:
    """Return the node of a copied tree that is where `node` is in the first."""
    return next(b for a, b in zip(ast.walk(tree), ast.walk(changed), strict=True) if a is node)


def _operands(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that may stand for an expression."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Call):
        own = [node.func.value] if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value) else []
        return [*own, *(each for each in node.args if not isinstance(each, (ast.Constant, ast.Tuple)))]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.value]
    return []


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "torch", "mt", "F")


def _replaced(tree: ast.Module, node: ast.AST, operand: ast.expr) -> ast.Module:
    changed = copy.deepcopy(tree)
    target = _same(tree, changed, node)

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return copy.deepcopy(operand) if node is target else super().visit(node)

    return Swap().visit(changed)
