"""Matrix products of static sizes inside of loops, such as those of the tiles of tile kernels, in register tiles.

A product is fused with what follows it elementwise, so that it adds to the tile that a loop carries. A loop that does
nothing else becomes a part of its sum::

    for block:  # in parallel                               for block:
        for k:                                                  p = b's columns in vectors
            for i, j: t[i, j] = 0                  ──►          for tiles of rows and columns:
            for i, l, j: t[i, j] += a[…] * b[…]                     sums over k and l in registers; c[…] += sums
            for i, j: c[i, j] += t[i, j]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.loops.dynamic_products import sequence_in_tiles
from mlirtri.lowering.schedule.cpu.loops.shared_copies import with_copies_outside
from mlirtri.lowering.schedule.cpu.matmul.rule import tile_loops
from mlirtri.lowering.schedule.imperative.accesses import is_parallel
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import FINISHED, marked, with_parts
from mlirtri.lowering.schedule.imperative.summed_products import with_sum_inside
from mlirtri.lowering.tir.contraction import Contraction, lies_along, size_of
from mlirtri.lowering.tir.linear_forms import LoopRange, range_of
from mlirtri.lowering.tir.statements import flat, sequence, with_body
from mlirtri.lowering.toolchain.tvm_names import Node, Stmt, TensorLoad, structural_walk, tirx

LEAST_WORK = 1 << 12
"""Multiplications of the smallest product for which tiles are written: a smaller one is unrolled."""
LEAST_ROWS = 4
Ranges = tuple[LoopRange, ...]


def with_nested_products(statement: Stmt, target: Target, around: Ranges = ()) -> Stmt:
    """Return a statement with the products of static sizes in its loops in register tiles.

    Loops around them whose iterations are independent are marked so, since the tiles do not show it.
    """
    if isinstance(statement, tirx.For):
        return _in_loop(statement, target, around) if _has_product(statement) else statement
    if isinstance(statement, tirx.SeqStmt):
        return _in_sequence(statement, target, around)
    if isinstance(statement, tirx.AttrStmt) and statement.attr_key == FINISHED:
        return statement
    return with_parts(statement, lambda part: with_nested_products(part, target, around))


def _in_sequence(statement: Stmt, target: Target, around: Ranges) -> Any:
    children = with_allocations_inside(list(statement.seq))
    if not around:
        # Products outside of loops are those of whole arrays.
        return sequence(*(with_nested_products(child, target) for child in children))
    children = flat([with_sum_inside(child) or child for child in children])
    children = [with_nested_products(child, target, around) for child in children]
    return _finished_apart(sequence_in_tiles(children, target, _loops, is_open=False))


def _in_loop(loop: Stmt, target: Target, around: Ranges) -> Any:
    threads = target.threads
    if is_parallel(loop, around):
        loop, target = marked(loop), replace(target, threads=1)
    body = with_nested_products(loop.body, target, (*around, range_of(loop, {})))
    return with_copies_outside(with_body(loop, body), threads)


def _finished_apart(statement: Stmt) -> Any:
    """Return a sequence whose finished sequences are apart: allocations, copies of operands, and tiles."""
    parts: list[Any] = []
    for child in statement.seq if isinstance(statement, tirx.SeqStmt) else [statement]:
        is_finished = isinstance(child, tirx.AttrStmt) and child.attr_key == FINISHED
        if not is_finished or not isinstance(child.body, tirx.SeqStmt):
            parts.append(child)
            continue
        parts += [
            part if isinstance(part, tirx.AllocBuffer) else tirx.AttrStmt(child.node, FINISHED, child.value, part)
            for part in child.body.seq
        ]
    return sequence(*parts)


def _has_product(loop: Stmt) -> bool:
    """Return whether a loop contains a nest of three loops that is large enough for a product."""
    products: list[bool] = []

    def visit(node: Node) -> None:
        work, depth = 1, 0
        while isinstance(node, tirx.For) and isinstance(node.extent, tirx.IntImm):
            work, depth, node = work * node.extent.value, depth + 1, node.body
        products.append(depth >= 3 and work >= LEAST_WORK and isinstance(node, tirx.BufferStore))

    structural_walk(loop.body, (tirx.For, visit))
    return any(products)


def _loops(contraction: Contraction, target: Target) -> Any:
    """Return the statements of a contraction; the right operand is packed unless its tile is compact."""
    rows, columns, reduced = map(size_of, (contraction.rows, contraction.columns, contraction.reduced))
    is_large = rows * columns * reduced >= LEAST_WORK and rows >= LEAST_ROWS
    if not is_large or columns < lanes_for(contraction.dtype):
        return None
    is_compact = _is_compact(contraction.right, contraction)
    return tile_loops(replace(contraction, packs_right=not is_compact), target)


def _is_compact(operand: Any, contraction: Contraction) -> bool:
    """Return whether the right operand is read along its columns, and is as small as a tile."""
    if not isinstance(operand, TensorLoad) or not lies_along(operand, contraction.columns[-1]):
        return False
    row = operand.source.ty.shape[-1]
    bits = int(operand.source.dtype.bits)
    return isinstance(row, tirx.IntImm) and row.value * size_of(contraction.reduced) * bits <= cache_bytes()[2] // 2
