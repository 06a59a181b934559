"""The loops of tile kernels in the syntax tree: one `for` per axis of a grid, of `T.Parallel` and of `T.grid`."""

from __future__ import annotations

import ast
import copy
from typing import Any, TypeGuard

GRID = ".grid{}"
"""Hidden names of a kernel's numbers of blocks, which stand before the loops over them."""
BLOCKS = ".blocks"
"""The hidden name of the iterable of blocks, which `tiles.enter` defines."""

NESTS = ("Parallel", "grid")
"""The iterables of several extents."""


def names_of_blocks(item: ast.withitem) -> list[ast.expr]:
    """Return the names after `as`; hidden ones, an argument each, for a `T.Kernel` without."""
    names, call = item.optional_vars, item.context_expr
    if names is not None:
        return list(names.elts) if isinstance(names, (ast.Tuple, ast.List)) else [names]
    if not _is_grid(call):
        return []
    return [ast.copy_location(ast.Name(f".block{axis}", ast.Store()), call) for axis in range(len(call.args))]


def _is_grid(call: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "Kernel"


class _Nests(ast.NodeTransformer):
    """Write the loops over blocks and over the elements of `T.Parallel` and `T.grid` as nests of `for`."""

    def visit_With(self, node: ast.With) -> ast.With:
        self.generic_visit(node)
        parts = names_of_blocks(node.items[0])
        body: list[ast.stmt] = list(node.body)
        for axis, part in enumerate(parts):
            grid = ast.copy_location(ast.Name(GRID.format(axis), ast.Load()), part)
            call = ast.Call(ast.copy_location(ast.Name(BLOCKS, ast.Load()), part), [grid], [])
            loop = ast.For(part, ast.copy_location(call, part), body, [])
            body = [ast.copy_location(loop, node)]
        return ast.copy_location(ast.With(node.items, body), node)

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        call = node.iter
        is_call = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in NESTS
        if not is_call or not isinstance(node.target, ast.Tuple) or len(node.target.elts) != len(call.args):
            return node
        if node.orelse or any(isinstance(part, ast.Break) for statement in node.body for part in ast.walk(statement)):
            # A nest would leave its innermost loop only: the loop over several extents is refused as it stands.
            return node
        body: list[Any] = list(node.body)
        for part, extent in reversed(list(zip(node.target.elts, call.args, strict=True))):
            inner = ast.copy_location(ast.Call(call.func, [extent], call.keywords), call)
            body = [ast.copy_location(ast.For(part, inner, body, []), node)]
        return body[0]


def nested(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with a loop per axis of the tile kernels' grids and parallel loops in them."""
    # The tree of a function is shared by all its compilations.
    return [_Nests().visit(copy.deepcopy(statement)) if _has_nests(statement) else statement for statement in body]


def _has_nests(statement: ast.stmt) -> bool:
    parts = list(ast.walk(statement))
    return any(isinstance(part, ast.withitem) and names_of_blocks(part) for part in parts) or any(
        isinstance(part, ast.Attribute) and part.attr in NESTS for part in parts
    )
