"""Smaller Python: statements go, blocks are unwrapped, expressions become one of their operands, sizes shrink.

TVMScript is Python too. Comments and layout are lost: texts are printed from their syntax trees.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

from mlirtri.reduce.search import chunks, without

_MODULES = ("np", "numpy", "torch", "mt", "F", "T", "R", "I", "mlirtri")
"""Names that stand for modules, which no expression becomes."""


def candidates(text: str) -> Iterator[str]:
    """Yield smaller texts, the much smaller ones first; nothing for a text that does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from _fewer_statements(tree)
    yield from _unwrapped_blocks(tree)
    yield from _smaller_expressions(tree)
    yield from _smaller_numbers(tree)


def _fewer_statements(tree: ast.Module) -> Iterator[str]:
    """Drop all statements of a block, half of them, a quarter…; a block that may not be empty gets a pass."""
    for parent, block, lines in _blocks(tree):
        for dropped in chunks(len(lines)):
            rest = without(lines, dropped)
            if rest or block != "body" or isinstance(parent, ast.Module):
                yield _with_block(tree, parent, block, rest)
            elif not isinstance(lines[0], ast.Pass):
                yield _with_block(tree, parent, block, [ast.Pass()])


def _unwrapped_blocks(tree: ast.Module) -> Iterator[str]:
    for parent, block, lines in _blocks(tree):
        for position, line in enumerate(lines):
            if isinstance(line, (ast.FunctionDef, ast.ClassDef)):
                continue
            for inner in (getattr(line, "body", None), getattr(line, "orelse", None)):
                if isinstance(inner, list) and inner:
                    yield _with_block(tree, parent, block, [*lines[:position], *inner, *lines[position + 1 :]])


def _smaller_expressions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        for operand in _operands(node):
            yield _with_replaced(tree, {node: operand})


def _smaller_numbers(tree: ast.Module) -> Iterator[str]:
    """Make the equal integers of a text smaller together, for sizes have to fit; then each alone."""
    numbers: dict[int, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            numbers.setdefault(node.value, []).append(node)
    for value, equal in sorted(numbers.items(), key=lambda item: -item[0]):
        groups = [equal] if len(equal) == 1 else [equal, *([node] for node in equal)]
        for group in groups:
            for smaller in dict.fromkeys((1, 2, value // 2, value - 1)):
                if smaller < value:
                    yield _with_replaced(tree, {node: ast.Constant(smaller) for node in group})


def _blocks(tree: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    for node in ast.walk(tree):
        for block in ("body", "orelse"):
            lines = getattr(node, block, None)
            if isinstance(lines, list) and lines and isinstance(lines[0], ast.stmt):
                yield node, block, lines


def _with_block(tree: ast.Module, parent: ast.AST, block: str, lines: list[Any]) -> str:
    changed = copy.deepcopy(tree)
    setattr(_same(tree, changed, parent), block, [copy.deepcopy(line) for line in lines])
    return ast.unparse(ast.fix_missing_locations(changed))


def _with_replaced(tree: ast.Module, replaced: dict[ast.AST, ast.expr]) -> str:
    changed = copy.deepcopy(tree)
    targets = {id(_same(tree, changed, node)): new for node, new in replaced.items()}

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            new = targets.get(id(node))
            return super().visit(node) if new is None else copy.deepcopy(new)

    return ast.unparse(ast.fix_missing_locations(Swap().visit(changed)))


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
        return [*own, *(argument for argument in node.args if not isinstance(argument, (ast.Constant, ast.Tuple)))]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not _is_type(node.value):
        return [node.value]
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        return list(node.elts)
    return []


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in _MODULES


def _is_type(node: ast.expr) -> bool:
    """Return whether an expression is a type such as ``mt.Tensor``, whose brackets are no index."""
    return isinstance(node, ast.Attribute) and _is_module(node.value)
