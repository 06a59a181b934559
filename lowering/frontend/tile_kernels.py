"""Tile kernels: ``with T.Kernel(…)`` as a loop nest over the blocks, and calls of the functions of `mlirtri.tile`.

A tile is an array of compile-time shape. What a copy reads out of bounds is zero; nothing is written there.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, KernelValueError, UnsupportedSyntaxError
from mlirtri.lowering.core.interface import bound_arguments
from mlirtri.lowering.frontend.branches import emit_if
from mlirtri.lowering.frontend.context import FunctionContext, visit, visit_block
from mlirtri.lowering.frontend.expressions import elements
from mlirtri.lowering.frontend.indexing.reads import element
from mlirtri.lowering.frontend.indexing.writes import write
from mlirtri.lowering.frontend.operators import condition
from mlirtri.lowering.frontend.semantics.builder import describe
from mlirtri.lowering.frontend.semantics.storage import current
from mlirtri.lowering.frontend.tile_language.copies import Region, combine, region_of, whole
from mlirtri.lowering.frontend.tile_language.function_table import (
    ANYWHERE,
    ATOMIC,
    FUNCTIONS,
    HINTS,
    LOOPS,
    TAKES_REGIONS,
    TILES,
    BlockRange,
    Grid,
)
from mlirtri.lowering.frontend.tile_language.guards import guarded, unchecked
from mlirtri.lowering.frontend.tile_language.loop_nests import BLOCKS, GRID, names_of_blocks

BLOCK_RANGE = BlockRange()
CHOICES = ("if_then_else", "Select")


def enter(context: FunctionContext, grid: Grid, node: ast.With) -> None:
    """Emit the loops over the blocks of a tile kernel; refuses names that do not fit the grid."""
    b = context.b
    if b.in_tile_kernel:
        raise UnsupportedSyntaxError("a tile kernel cannot contain another one", help="write one after the other")
    if len(node.items) > 1:
        raise UnsupportedSyntaxError(
            "a tile kernel has one grid", context.span(node.items[1].context_expr),
            help="write its axes as one: with T.Kernel(gx, gy) as (bx, by):",
        )  # fmt: skip
    count = len(names_of_blocks(node.items[0]))
    if count != len(grid):
        span = context.span(node.items[0].context_expr)
        raise KernelTypeError(
            f"this grid has {len(grid)} axes, and {count} names stand after `as`", span,
            help="write one name per axis: with T.Kernel(gx, gy) as (bx, by):",
        )  # fmt: skip
    context.scope.locals[BLOCKS] = BLOCK_RANGE
    for axis, size in enumerate(grid):
        context.scope.locals[GRID.format(axis)] = size
    b.in_tile_kernel = True
    try:
        visit_block(context, node.body)
    finally:
        b.in_tile_kernel = False


def tile_call(context: FunctionContext, name: str, node: ast.Call) -> KernelValue:
    """Return the value of a call of `mlirtri.tile`; most write into a tile and have none."""
    if name not in ANYWHERE and not context.b.in_tile_kernel:
        raise _outside(context, node.func)
    if name in HINTS:
        return None
    if name in LOOPS:
        raise UnsupportedSyntaxError(f"{ast.unparse(node.func)} is for loops", help="write `for i in` before it")
    if any(keyword.arg is None for keyword in node.keywords):
        raise UnsupportedSyntaxError("** arguments are not supported", help="write every keyword")
    if name in ATOMIC:
        return _atomic(context, ATOMIC[name], node)
    if name in CHOICES and len(node.args) == 3 and not node.keywords:
        return _chosen(context, node)
    read = visit_operand if name in TAKES_REGIONS else visit
    keywords = {keyword.arg: read(context, keyword.value) for keyword in node.keywords if keyword.arg}
    if name in TAKES_REGIONS:
        arguments = [visit_region(context, part) for part in node.args]
    else:
        arguments = current(context.b.tri, elements(context, node.args))
    implementation = partial(FUNCTIONS[name], context.b)
    bound = bound_arguments(f"mlirtri.tile.{name}", inspect.signature(implementation), arguments, keywords)
    if name not in TAKES_REGIONS:
        _check_tiles(node, bound.arguments)
    return implementation(*bound.args, **bound.kwargs)


def _chosen(context: FunctionContext, node: ast.Call) -> Any:
    """Return one of two values; an index in the other one may be out of bounds."""
    b, values = context.b, []
    test = condition(context, node.args[0])
    if not isinstance(test, TriValue):
        return visit(context, node.args[1 if test else 2])
    for node_of_value, holds in zip(node.args[1:], (test, b.tri.logical_not(test)), strict=True):
        with b.guarded(holds):
            values.append(current(b.tri, visit(context, node_of_value)))
    return b.where(test, *values)


def _outside(context: FunctionContext, node: ast.expr) -> UnsupportedSyntaxError:
    return UnsupportedSyntaxError(
        f"{ast.unparse(node)} stands outside of a tile kernel", context.span(node),
        help="write it in the body of `with T.Kernel(…) as (bx, by):`",
    )  # fmt: skip


def _check_tiles(node: ast.Call, arguments: dict[str, Any]) -> None:
    for parameter, value in arguments.items():
        is_tile = isinstance(value, TriValue) and value.type.rank
        if parameter in TILES and value is not None and not is_tile:
            raise KernelTypeError(f"{ast.unparse(node.func)} takes a tile as {parameter}, got {describe(value)}")


def visit_operand(context: FunctionContext, node: ast.expr) -> KernelValue:
    """Return the region that a keyword argument names, or another value."""
    is_region = isinstance(node, ast.Subscript | ast.Name)
    return visit_region(context, node) if is_region else visit(context, node)


def visit_region(context: FunctionContext, node: ast.expr) -> Region:
    """Return the region of an array that an operand of a copy names: a whole, slices, or a corner."""
    b, base = context.b, node.value if isinstance(node, ast.Subscript) else node
    array = current(b.tri, visit(context, base))
    if not isinstance(array, TriValue) or not array.type.rank:
        raise KernelTypeError(f"T.copy copies arrays and tiles, got {describe(array)}", context.span(node))
    if not isinstance(node, ast.Subscript):
        return whole(array)
    index = visit(context, node.slice)
    try:
        return region_of(b, array, index if isinstance(index, tuple) else (index,))
    except KernelTypeError as error:
        raise error.at(context.span(node)) from None


def _atomic(context: FunctionContext, name: str, node: ast.Call) -> None:
    """Combine an element or a region with a value: ``T.atomic_add(C[i, j], x)``."""
    b = context.b
    # The order of memory accesses is a hint.
    if len(node.args) != 2 or any(keyword.arg != "memory_order" for keyword in node.keywords):
        raise KernelTypeError(f"{ast.unparse(node.func)} takes what it writes and a value")
    target, value = visit_region(context, node.args[0]), visit(context, node.args[1])
    value = current(b.tri, value)
    if isinstance(value, TriValue) and value.type.rank:
        return combine(b, name, target, visit_region(context, node.args[1]))
    if not target.is_element or not isinstance(node.args[0], ast.Subscript):
        raise KernelTypeError(
            f"{ast.unparse(node.func)} adds {describe(value)} to an element", help="write the element: C[i, j]"
        )
    index = visit(context, node.args[0].slice)
    index = index if isinstance(index, tuple) else (index,)

    def update(inside: tuple[Any, ...]) -> None:
        array = current(b.tri, target.array)
        write(b, array, inside, getattr(b, name)(element(b, array, inside), value))

    write_guarded(context, target.array, index, update, node)


def write_guarded(
    context: FunctionContext,
    array: TriValue,
    index: tuple[KernelValue, ...],
    update: Callable[..., None],
    node: ast.AST,
) -> None:
    """Call `update` with the index, under the condition that it is inside where that is not known."""
    guard = guarded(context.b, array, index)
    if guard is None:
        return update(index)

    def inside() -> None:
        with unchecked(context.b):
            update(guard.index)

    span = context.span(node)
    emit_if(context, guard.holds, [inside, lambda: None], set(), (span, span))


def range_of(context: FunctionContext, name: str, node: ast.Call) -> ast.Call:
    """Return the `range` that a loop of a tile kernel runs over; refuses other keywords and extents."""
    if not context.b.in_tile_kernel:
        raise _outside(context, node)
    for keyword in node.keywords:
        if keyword.arg not in LOOPS[name]:
            raise KernelTypeError(f"T.{name} has no argument {keyword.arg!r}", context.span(node))
        if keyword.arg == "num_stages":
            _check_stages(context, keyword.value)
    if name in ("Parallel", "grid") and len(node.args) != 1:
        raise KernelTypeError(
            f"T.{name} has {len(node.args)} extents", context.span(node),
            help=f"write `for i, j in T.{name}(m, n):`, without `break` and `else`",
        )  # fmt: skip
    return node


def _check_stages(context: FunctionContext, node: ast.expr) -> None:
    stages = visit(context, node)
    if not isinstance(stages, int) or stages < 0:
        raise KernelValueError("num_stages is a number known at compile time", context.span(node))
