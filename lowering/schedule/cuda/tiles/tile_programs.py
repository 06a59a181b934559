"""Tile kernels for CUDA: the blocks of the grid, their tiles in shared memory, and their statements on all threads.

    for by, bx:  # blocks                         blockIdx.y, blockIdx.x:
        tile = …                         ──►          tile in shared memory
        for i, j: tile[i, j] = a[…]                   each thread: tile[…] = a[…] of its elements; barrier
        for i, j: c[…] = f(tile[i, j])                each thread: c[…] = f(tile[…]) of its elements

Blocks run at the same time, so that only the axes of a grid become blocks along which blocks are proven independent; a
block runs the others in order. Products of halves and int8 go to tensor cores (`tile_products`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.errors import LayoutWarning, Note, UnsupportedOperationError
from mlirtri.lowering.codegen.targets import SHARED_LIMITS, shared_limits
from mlirtri.lowering.core.stage import TILE_KERNEL
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.atomic_calls import with_calls
from mlirtri.lowering.schedule.cuda.common.instructions import ROWS
from mlirtri.lowering.schedule.cuda.common.phases import WARP
from mlirtri.lowering.schedule.cuda.common.whole_copies import with_sizes_at_use, with_whole_copies
from mlirtri.lowering.schedule.cuda.tensor_cores.warpgroup_kernel import ARCHITECTURE_OF_GROUPS
from mlirtri.lowering.schedule.cuda.tiles.atomic_updates import atomic_blocks, with_atomics
from mlirtri.lowering.schedule.cuda.tiles.fragment_uses import Uses
from mlirtri.lowering.schedule.cuda.tiles.fragments import Fragments, Layout
from mlirtri.lowering.schedule.cuda.tiles.live_ranges import with_casts_at_use, with_separate_buffers
from mlirtri.lowering.schedule.cuda.tiles.row_vectors import row_vectors
from mlirtri.lowering.schedule.cuda.tiles.tile_products import BlockBody, Way, with_tensor_cores
from mlirtri.lowering.schedule.cuda.tiles.tile_statements import BlockStatements
from mlirtri.lowering.schedule.imperative.accesses import is_scalar
from mlirtri.lowering.schedule.imperative.allocations import with_allocations_inside
from mlirtri.lowering.schedule.imperative.interchange import prepare
from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.tir.bfloat16_storage import with_plain_bits
from mlirtri.lowering.tir.linear_forms import range_of
from mlirtri.lowering.tir.statements import index, location_of, nodes_in, sequence, split_grid, with_body
from mlirtri.lowering.tir.tiles import at_least, sized
from mlirtri.lowering.toolchain.tvm_names import (
    INDEPENDENT,
    Buffer,
    Expr,
    Extent,
    IRModule,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    Var,
    tirx,
)
from mlirtri.lowering.toolchain.tvm_passes import span_of

AXES = "xyz"
KEPT = ("float32", "int32")
"""Dtypes of tiles in registers."""
BLOCK_THREADS = 128
"""Threads of a block of a product."""
MOST_BLOCKS = 65535
"""Blocks along the axes y and z."""


def tile_programs(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the schedule of a tile kernel; None for any other function."""
    threads = (function.attrs or {}).get(TILE_KERNEL)
    if threads is None:
        return None
    body = function.body.block.body.block.body
    statements = with_allocations_inside(list(body.seq) if isinstance(body, tirx.SeqStmt) else [body])
    has_grid = [bool(split_grid(statement)[0]) for statement in statements]
    numbers = _numbers(statements)
    launched = [statement for statement in statements if statement not in numbers]
    # Without a loop over blocks, or with tiles outside of it, all statements are one block.
    if any(has_grid) and not any(isinstance(statement, tirx.AllocBuffer) for statement in launched):
        kernels = [_kernel(statement, numbers, int(threads), target) for statement in launched]
    else:
        kernels = [_kernel(body, [], int(threads), target)]
    root = SBlockRealize([], True, SBlock([], [], [], "root", sequence(*kernels)))
    module = IRModule({"main": function.with_body(root)})
    return Schedule(tirx.transform.ConvertSSA()(module)["main"], error_render_level="fast")


def _numbers(statements: Sequence[Stmt]) -> list[Stmt]:
    """Return the statements that compute scalars from sizes and arguments alone: each launch computes them again."""
    scalars = {each.buffer for each in statements if isinstance(each, tirx.AllocBuffer) and is_scalar(each.buffer)}

    def is_number(statement: Stmt) -> bool:
        if isinstance(statement, tirx.AllocBuffer | tirx.BufferStore):
            return statement.buffer in scalars
        return isinstance(statement, tirx.Bind)

    return [statement for statement in statements if is_number(statement)]


def kernel_of_blocks(statement: Stmt, target: Target, guards: Sequence[Expr] = ()) -> Stmt:
    """Return the launch of a statement that consists of loops over blocks; it does nothing where a guard is false."""
    return _kernel(statement, [], BLOCK_THREADS, target, guards)


def _kernel(statement: Stmt, numbers: list[Any], threads: int, target: Target, guards: Sequence[Expr] = ()) -> Stmt:
    loops, body = split_grid(statement)
    if not loops and isinstance(statement, tirx.For) and all(_marked([statement], statement.body)):
        # Beside the tile kernels: a whole array, with a block for each index of its first axis.
        loops, body = [statement], statement.body
    blocks, others = _independent(loops, body)
    if others:
        blocks, others, body = _with_atomic_blocks(loops, body)
    body = with_atomics(body, tuple(range_of(loop, {}) for loop in (*blocks, *others)), in_block=True)
    if len(blocks) > len(AXES) or any(reads_memory(loop.extent) for loop in blocks):
        raise UnsupportedOperationError(
            "the grid of a tile kernel on CUDA has one to three numbers, which sizes and compile-time values give"
        )
    body = with_casts_at_use(with_separate_buffers(with_whole_copies(with_sizes_at_use(with_plain_bits(body)))))
    thread = tirx.Var("thread", "int64")
    mapped = _block(body, numbers, _Block(thread, threads, target, tuple(blocks), tuple(others)))
    for guard in reversed(guards):
        mapped = tirx.IfThenElse(guard, mapped, None)
    mapped = bound(thread, threads, "threadIdx.x", mapped)
    # The innermost axis of the grid is x.
    extents = [_constant(loop.extent) for loop in blocks]
    if any(extent is not None and extent > MOST_BLOCKS for extent in extents[:-1]):
        raise UnsupportedOperationError(
            f"a grid of {extents} has more than {MOST_BLOCKS} blocks along an axis but the first"
        )
    # No device launches a grid of no blocks: where a size may be zero there is one, which does nothing.
    unknown = [loop for loop, extent in zip(blocks, extents, strict=True) if extent is None]
    if unknown:
        is_block = tirx.all(*(tirx.LT(loop.loop_var, loop.extent) for loop in unknown))
        mapped = tirx.IfThenElse(is_block, mapped, None)
    for loop, axis in zip(reversed(blocks), AXES, strict=False):
        mapped = bound(loop.loop_var, at_least(loop.extent, 1), f"blockIdx.{axis}", mapped)
    if not blocks:
        mapped = bound(tirx.Var("block", "int64"), 1, "blockIdx.x", mapped)
    return mapped


@dataclass(frozen=True)
class _Block:
    """The threads of a block, and the loops of the grid: over blocks, and those that a block runs in order."""

    thread: Any
    threads: int
    target: Target
    blocks: tuple[Any, ...]
    others: tuple[Any, ...]


def _block(body: Stmt, numbers: Sequence[Any], block: _Block) -> Any:
    """Return the statement of a thread of a block; raises `UnsupportedOperationError` where its tiles have no room."""
    thread, threads, target = block.thread, block.threads, block.target
    ranges = tuple(range_of(loop, {}) for loop in (*block.blocks, *block.others))
    mapped: Any = None
    conflicts: list[_Conflict] = []
    for way in _ways(target):
        known = with_tensor_cores(body, thread, threads, target, way, Fragments())
        if not known.is_as_asked:
            continue
        inner = prepare(known.statement, ranges)
        fragments, conflicts = _fragments(inner, known, threads)
        if any(tile not in fragments.layouts for product in known.products for tile in product.sources):
            continue
        if fragments.layouts:
            known = with_tensor_cores(body, thread, threads, target, way, fragments)
            inner = prepare(known.statement, ranges)
        for loop in reversed(block.others):
            inner = with_body(loop, inner)
        statements = BlockStatements(thread, threads, known.products, way.scope, fragments)
        mapped = statements.written(sequence(*numbers, inner))
        if _shared_bytes(mapped) <= way.limit:
            _warn_of(conflicts)
            return with_calls(mapped)
    limit, used = shared_limits(target)["shared.dyn"], _shared_bytes(mapped)
    if conflicts and used - sum(_bytes(conflict.tile) for conflict in conflicts) <= limit:
        raise _no_layout(conflicts[0], used, limit)
    raise _too_large(mapped, limit)


def _ways(target: Target) -> list[Way]:
    """Return how the products of a block may be written, the fastest way first."""
    limits = shared_limits(target)
    ways = [Way(scope, limit, is_ahead=is_ahead) for is_ahead in (True, False) for scope, limit in limits.items()]
    if target.architecture == ARCHITECTURE_OF_GROUPS:
        ways = [Way("shared.dyn", limits["shared.dyn"], True, is_ahead) for is_ahead in (True, False)] + ways
    return ways


_WARNED: dict[Any, Any] = {}
"""Where `warnings` notes which ones were shown."""


@dataclass(frozen=True)
class _Conflict:
    """A result of a product that another statement cannot take in the layout of the product."""

    tile: Any
    product: str
    """Source location of the product."""
    use: str
    """Source location of the other statement."""
    help: str = (
        "access the tile at its own row and column, as in `for i, j in T.Parallel(m, n)`, or reduce its rows (dim=1); "
        "else use smaller blocks"
    )


_ONE_KIND = "add products of tiles of one dtype to it, and others to a tile of their own; else use smaller blocks"


def _fragments(statement: Stmt, block: BlockBody, threads: int) -> tuple[Fragments, list[_Conflict]]:
    """Return the results of products that can stay in registers, in the layouts of these products, and the others."""
    layouts, conflicts = _layouts(block, {node.buffer for node in nodes_in(statement, tirx.AllocBuffer)})
    uses = Uses(tuple(layouts))
    uses.visit(statement)
    products = {tile: each.location for each in block.products for tile in each.results}
    conflicts += [_Conflict(tile, products[tile], location_of(use)) for tile, use in uses.rejected.items()]
    warps, fragments = threads // WARP, Fragments()
    kept = {tile: found for tile, found in layouts.items() if tile not in uses.rejected}
    all_full = all(found.rows % (ROWS * warps) == 0 for product in block.products if (found := product.layout))
    takes_rows = bool(uses.reduced & set(kept)) or any(product.sources for product in block.products)
    fragments.full_rows = takes_rows and all_full
    for tile, layout in kept.items():
        if fragments.full_rows:
            fragments.add(tile, Layout(layout.rows, layout.columns, warps, 1))
        elif tile not in uses.reduced:
            fragments.add(tile, layout)
    rows = {layout.rows for layout in fragments.layouts.values()}
    if fragments.full_rows and len(rows) == 1:
        for vector in row_vectors(statement, tuple(fragments.layouts), rows.pop(), KEPT):
            fragments.add_vector(vector, next(iter(fragments.layouts.values())))
    return fragments, conflicts


def _layouts(block: BlockBody, allocated: set[Any]) -> tuple[dict[Any, Layout], list[_Conflict]]:
    """Return the layouts of the tiles that products write, and the tiles that a product accesses in another order."""
    layouts: dict[Any, Layout] = {}
    products: dict[Any, str] = {}
    conflicts = []
    for product in block.products:
        for result in product.results:
            shape = [_constant(size) for size in result.shape]
            layout = product.layout
            is_kept = result in allocated and str(result.dtype) in KEPT
            if layout is not None and shape == [layout.rows, layout.columns] and is_kept:
                layouts[result], products[result] = layout, product.location
        for source, layout in product.sources.items():
            layouts[source], products[source] = layout, product.location
    for product in block.products:
        accessed = dict.fromkeys((*product.reads, *product.writes))
        others = [tile for tile in accessed if tile in layouts and tile not in product.results]
        conflicts += [_Conflict(tile, products[tile], product.location, _ONE_KIND) for tile in others]
        for tile in others:
            del layouts[tile]
    return layouts, conflicts


def _with_atomic_blocks(loops: Sequence[Any], body: Stmt) -> tuple[list[Any], list[Any], Any]:
    """Return the loops that become blocks, the others, and the body, where blocks may update the same elements."""
    loops, body = atomic_blocks(loops, body)
    return (*_independent(loops, body), body)


def _independent(loops: Sequence[Any], body: Stmt) -> tuple[list[Any], list[Any]]:
    """Return the loops over blocks that are independent, and the others, which a block runs in order."""
    marked = _marked(loops, body)
    blocks = [loop for loop, is_marked in zip(loops, marked, strict=True) if is_marked]
    others = [loop for loop, is_marked in zip(loops, marked, strict=True) if not is_marked]
    if not others:
        return blocks, others
    # Loops over blocks move outside of others only where they are independent there, too.
    order = [*blocks, *others]
    marked = _marked(order, body)
    count = next((number for number, is_marked in enumerate(marked) if not is_marked), len(marked))
    return order[:count], order[count:]


def _marked(loops: Sequence[Any], body: Stmt) -> list[bool]:
    """Return which of the nested loops around a body have independent iterations."""
    nest = body
    for loop in reversed(loops):
        nest = with_body(loop, nest)
    # Preparing may move a loop inside of others: they are found by their variables.
    independent = {
        each.loop_var: INDEPENDENT in each.annotations for each in nodes_in(prepare(nest), tirx.For)
    }  # fmt: skip
    return [independent.get(loop.loop_var, False) for loop in loops]


def _shared_buffers(statement: Stmt) -> list[tuple[int, Any]]:
    """Return the buffers in shared memory with their bytes."""
    buffers = [node.buffer for node in nodes_in(statement, tirx.AllocBuffer) if node.buffer.scope() in SHARED_LIMITS]
    return [(_bytes(buffer), buffer) for buffer in buffers]


def _bytes(buffer: Buffer) -> int:
    return prod(map(int, buffer.shape)) * int(buffer.dtype.bits) // 8


def _shared_bytes(statement: Stmt) -> int:
    return sum(size for size, _ in _shared_buffers(statement))


def _warn_of(conflicts: Sequence[_Conflict]) -> None:
    """Warn once per process and line of the tiles that a product writes and that are not in registers."""
    # A tile that is cleared between its uses is several buffers.
    for conflict in {(conflict.use, conflict.product): conflict for conflict in reversed(conflicts)}.values():
        use, product = span_of(conflict.use), span_of(conflict.product)
        if use is None:
            continue
        laid_out = f", line {product.line}," if product else ""
        text = (
            f"the tile {_shown(conflict.tile)} lies in shared memory: this statement cannot take it from the registers "
            f"in which the product{laid_out} leaves it; {conflict.help}"
        )
        warnings.warn_explicit(text, LayoutWarning, use.file, use.line, registry=_WARNED)


def _no_layout(conflict: _Conflict, used: int, limit: int) -> UnsupportedOperationError:
    """Return the error of a tile that neither stays in registers nor has room in shared memory, at its second use."""
    return UnsupportedOperationError(
        f"the tile {_shown(conflict.tile)} is used in two layouts: the registers that the product gives it do not suit "
        f"this statement, and in shared memory the tiles of a block would take {used} bytes, of {limit}",
        span_of(conflict.use),
        help=conflict.help,
        notes=[Note("the product that lays it out", span_of(conflict.product))],
    )


def _too_large(statement: Stmt, limit: int) -> UnsupportedOperationError:
    """Return the error of tiles that are larger together than the shared memory of a block."""
    largest = sorted(_shared_buffers(statement), key=lambda entry: -entry[0])
    shown = ", ".join(f"{_shown(buffer)} {size}" for size, buffer in largest)
    return UnsupportedOperationError(
        f"the tiles of a block take {_shared_bytes(statement)} bytes of shared memory, and a block has "
        f"{limit}: {shown}",
        help="use smaller blocks, or fewer tiles",
    )


def _shown(buffer: Buffer) -> str:
    """Return the name of a tile, if it has one, with its dtype and shape."""
    name = "" if buffer.name.startswith("temporary") else f"{buffer.name} "
    return f"{name}{buffer.dtype}{[int(size) for size in buffer.shape]}"


def bound(variable: Var, extent: Extent, tag: str, body: Stmt) -> Stmt:
    """Return a loop over the blocks or threads of one axis of a launch."""
    count = sized(extent)
    thread = tirx.IterVar(Range(index(0), count), tirx.Var(tag, "int64"), tirx.IterVar.ThreadIndex, tag)
    return tirx.For(variable, index(0), count, tirx.ForKind.THREAD_BINDING, body, thread)


def _constant(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, tirx.IntImm) else None
