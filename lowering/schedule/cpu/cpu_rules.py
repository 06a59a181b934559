"""Schedule rules for the CPU, in the order in which they are tried.

A rule returns a `Schedule`, or None where it does not apply. It raises where it cannot analyse the loops, or where TVM
cannot lower its result, and the next rule is tried. `Fallback` takes everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.lowering.codegen.lowered_functions import attempt
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.attention.rule import attention
from mlirtri.lowering.schedule.cpu.common.loops import lanes_of, parallel_if_profitable, spatial, vectorize, weight
from mlirtri.lowering.schedule.cpu.common.nest import function_of, nest_of
from mlirtri.lowering.schedule.cpu.common.profitability import serial_loops
from mlirtri.lowering.schedule.cpu.convolution.channels_first import convolution
from mlirtri.lowering.schedule.cpu.convolution.channels_last import channels_last
from mlirtri.lowering.schedule.cpu.convolution.depthwise import depthwise
from mlirtri.lowering.schedule.cpu.convolution.packed_filters import packed_filters
from mlirtri.lowering.schedule.cpu.loops.rule import loops
from mlirtri.lowering.schedule.cpu.matmul.rule import matmul
from mlirtri.lowering.schedule.cpu.nests.elementwise import element_loops
from mlirtri.lowering.schedule.cpu.nests.reductions import reduction_loops
from mlirtri.lowering.schedule.cpu.nests.windows import is_window
from mlirtri.lowering.schedule.cpu.product_chains import product_chain
from mlirtri.lowering.schedule.cpu.rows.rule import rows
from mlirtri.lowering.tir.blocks import BlockFacts, blocks_of, divide_loops, inline_cheap, leaf_blocks, loop_of
from mlirtri.lowering.tir.statements import fresh, sequence
from mlirtri.lowering.toolchain.tvm_names import ONCE, SCHEDULE_ERRORS, VIEW, PrimFunc, Schedule, tvm
from mlirtri.lowering.toolchain.tvm_text import with_names_as_printed

COLUMN_CHUNK = 256
"""Columns that a column reduction keeps in the first-level cache while it runs down the rows."""

MAX_SCALAR_ELEMENTS = 64
"""Elements up to which an elementwise block beside a reduction is not vectorised."""


def view(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a function that only reshapes its input with its loops as they are: it is never launched."""
    return Schedule(function) if VIEW in (function.attrs or {}) else None


def once(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a function that runs once with its loops as they are: vectors would take longer to compile than to run."""
    if ONCE not in (function.attrs or {}) or not all(facts.is_spatial for facts, _ in blocks_of(function)):
        return None
    return Schedule(function)


def elementwise(function: PrimFunc, target: Target) -> Schedule | None:
    """Schedule blocks without reductions; `nests.elementwise` writes the loops."""
    schedule = _with_cheap_inlined(function)
    is_spatial = all(block.is_spatial for block in leaf_blocks(schedule))
    return _block_by_block(function, schedule, target) if is_spatial else None


def reduction(function: PrimFunc, target: Target) -> Schedule | None:
    """Schedule one reduction alone; `nests.reductions` writes the loops."""
    schedule = _with_cheap_inlined(function)
    return _block_by_block(function, schedule, target) if len(leaf_blocks(schedule)) == 1 else None


def window(function: PrimFunc, target: Target) -> Schedule | None:
    """Schedule a reduction over a small window; `nests.windows` writes the loops."""
    if all(facts.is_spatial for facts, _ in blocks_of(function)):
        return None
    schedule = _with_cheap_inlined(function)
    reduced = [block for block in leaf_blocks(schedule) if not block.is_spatial]
    if len(reduced) != 1 or not is_window(nest_of(schedule, reduced[0])):
        return None
    return _block_by_block(function, schedule, target)


def mixed(function: PrimFunc, target: Target) -> Schedule | None:
    """Schedule reductions and elementwise blocks that share no rows, one after the other."""
    return _block_by_block(function, _with_cheap_inlined(function), target)


_INLINED: list[tuple[PrimFunc, Schedule]] = []
"""The function that was asked for last, and its schedule: several rules begin with it, and change nothing there."""


def _with_cheap_inlined(function: PrimFunc) -> Schedule:
    for known, schedule in _INLINED:
        if known.body.same_as(function.body):
            return schedule
    schedule = Schedule(function, error_render_level="fast")
    inline_cheap(schedule)
    _INLINED[:] = [(function, schedule)]
    return schedule


def _block_by_block(function: PrimFunc, schedule: Schedule, target: Target) -> Schedule | None:
    statements, flat = [], {}
    blocks = leaf_blocks(schedule)
    if not blocks:  # results without elements: nothing is computed
        return None
    for block in blocks:
        if not block.iterations:
            return None
        nest = nest_of(schedule, block)
        loops_of = reduction_loops if nest.reduced else element_loops
        statement = loops_of(nest, target) if "R" not in block.kinds or nest.reduced else None
        if statement is None and not nest.reduced and len(blocks) > 1 and nest.iterations <= MAX_SCALAR_ELEMENTS:
            # Reductions over axes of extent 1 begin with their init, too.
            body = nest.body if nest.init is None else sequence(nest.init, nest.body)
            statement = fresh(serial_loops(nest.axes, body))
        if statement is None:
            return None
        statements.append(statement)
        flat.update(nest.flat)
    return Schedule(function_of(schedule, function, statements, flat), error_render_level="fast")


def plain_elementwise(function: PrimFunc, target: Target) -> Schedule | None:
    """Schedule elementwise blocks with TVM's steps: outer loops parallel, the innermost one vectorised."""
    schedule = Schedule(function, error_render_level="fast")
    inline_cheap(schedule)
    blocks = leaf_blocks(schedule)
    if not all(block.is_spatial for block in blocks):
        return None
    for block in blocks:
        spatial(schedule, block, target)
    return schedule


def plain_reduction(function: PrimFunc, target: Target) -> Schedule | None:
    """Schedule reductions and their neighbours by TVM's steps: rows in parallel around all blocks, or columns."""
    schedule = Schedule(function, error_render_level="fast")
    inline_cheap(schedule)
    blocks = leaf_blocks(schedule)
    for block in blocks:
        if not block.is_spatial and _reads_along_rows(block):
            _partial_lanes(schedule, block)
    blocks = leaf_blocks(schedule)
    # TVM moves no block that computes a result.
    is_fixed = any(block.target.same_as(parameter) for block in blocks[:-1] for parameter in function.params)
    rows = 0 if is_fixed else _common_rows(blocks)
    if rows:
        initials = _by_rows(schedule, rows, target)
    else:
        initials = [_at_root(schedule, block, target) for block in blocks]
    # Last, because TVM moves no loops once the initial value is stored by a block of its own.
    for block, loop in zip(blocks, initials, strict=True):
        if loop is not None:
            schedule.decompose_reduction(block.handle, loop)
    return schedule


def _checked(rule: Callable[[PrimFunc, Target], Schedule | None]) -> Callable[[PrimFunc, Target], Schedule | None]:
    """Return the rule with a check that TVM can lower its schedules."""

    def apply(function: PrimFunc, target: Target) -> Schedule | None:
        schedule = rule(function, target)
        if schedule is None:
            return None
        # Under the names of its text, which stage `scheduled` has, so that stage `llvm` finds what is lowered here.
        named = with_names_as_printed(schedule.mod)
        scheduled = named["main"]
        name = str((scheduled.attrs or {}).get("global_symbol", "kernel"))
        attempt(name, scheduled, tvm.target.Target.current())
        return schedule if named.same_as(schedule.mod) else Schedule(named)

    return apply


def fallback(function: PrimFunc, _target: Target) -> Schedule:
    """Return the loops as they are, which is correct for every function."""
    return Schedule(function)


def _reads_along_rows(block: BlockFacts) -> bool:
    """Return whether a block reduces along contiguous memory.

    A load's innermost index is a reduction axis, and no load's is the innermost axis of the result, which would be
    vectorised instead.
    """
    reduced = set(block.axes("R"))
    innermost = {access.axes[-1] for access in block.operands if reduced & set(access.axes)}
    column = block.writes[0].axes[-1] if block.writes[0].axes else None
    if column in innermost and column is not None and block.extents[column] > 1:
        return False
    return any(axis is not None and block.kinds[axis] == "R" for axis in innermost)


def _partial_lanes(schedule: Schedule, block: BlockFacts) -> None:
    """Reduce into one vector of partial results, then that into the result, where the size is divisible."""
    axis = block.axes("R")[-1]
    lanes = lanes_of(block)
    width = next((lanes * times for times in (4, 2, 1) if block.extents[axis] % (lanes * times) == 0), None)
    if lanes == 1 or width is None or block.extents[axis] <= width:
        return
    trial = schedule.copy()
    try:
        _, inner = trial.split(loop_of(trial, block, axis), [None, width])
        trial.rfactor(inner, len(block.axes("S")))
    except SCHEDULE_ERRORS:  # a reduction that TVM does not know as associative keeps its order
        return
    _, inner = schedule.split(loop_of(schedule, block, axis), [None, width])
    schedule.rfactor(inner, len(block.axes("S")))


def _common_rows(blocks: list[BlockFacts]) -> int:
    """Return the number of leading dimensions that all blocks share, such that a row of one needs that row alone."""
    last = blocks[-1]
    rows = 0
    while all(_is_row(block, rows, last) for block in blocks):
        rows += 1
    # Reductions along contiguous memory keep their last dimension inside.
    down = [block for block in blocks if not block.is_spatial and not _reads_along_rows(block)]
    return max(0, min([rows, *(len(block.writes[0].axes) - 1 for block in down)]))


def _is_row(block: BlockFacts, dimension: int, last: BlockFacts) -> bool:
    """Return whether this dimension of a block's result is a spatial axis as long as the last block's."""
    if dimension >= len(last.extents) or last.kinds[dimension] != "S":
        return False
    for write in block.writes:
        axis = write.axes[dimension] if dimension < len(write.axes) else None
        if axis is None or block.kinds[axis] != "S" or block.extents[axis] != last.extents[dimension]:
            return False
    return True


def _by_rows(schedule: Schedule, rows: int, target: Target) -> list[Any]:
    """Compute every block of a row inside the row's loop; return per block the loop in front of which to initialise."""
    blocks = leaf_blocks(schedule)
    *producers, last = blocks
    row = schedule.get_loops(last.handle)[rows - 1]
    for block in reversed(producers):
        schedule.compute_at(block.handle, row, preserve_unit_loops=True)
    outer = schedule.get_loops(last.handle)[:rows]
    loop = schedule.fuse(*outer) if rows > 1 else outer[0]
    parallel_if_profitable(schedule, loop, sum(weight(block) for block in blocks), target)
    return [_inside_row(schedule, block) for block in blocks]


def _inside_row(schedule: Schedule, block: BlockFacts) -> Any:
    loops = [loop for loop in schedule.get_loops(block.handle)[1:] if int(schedule.get(loop).extent) > 1]
    spatial_loops, reduced = divide_loops(schedule, block, loops)
    if spatial_loops and reduced:
        return _accumulate(schedule, block, reduced, spatial_loops[-1])
    if spatial_loops:
        vectorize(schedule, spatial_loops[-1], lanes_of(block))
    return None


def _at_root(schedule: Schedule, block: BlockFacts, target: Target) -> Any:
    """Schedule one block alone: chunks of results in parallel, the contiguous axis vectorised."""
    spatial_loops, reduced = divide_loops(schedule, block, schedule.get_loops(block.handle))
    if not reduced:
        return spatial(schedule, block, target)
    if not spatial_loops:
        return None
    *outer, inner = spatial_loops
    extent = int(schedule.get(inner).extent)
    if extent > COLUMN_CHUNK and extent % COLUMN_CHUNK == 0:
        chunks, inner = schedule.split(inner, [None, COLUMN_CHUNK])
        outer = [*outer, chunks]
    schedule.reorder(*outer, *reduced, inner)
    if outer:
        loop = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
        parallel_if_profitable(schedule, loop, weight(block), target)
    return _accumulate(schedule, block, reduced, inner)


def _accumulate(schedule: Schedule, block: BlockFacts, reduced: list[Any], inner: Any) -> Any:
    """Reduce with a vector of results innermost; return the loop in front of which to initialise."""
    schedule.reorder(*reduced, inner)
    vectorize(schedule, inner, lanes_of(block))
    return reduced[0]


CPU_RULES = (
    ("View", view),
    ("Once", once),
    ("Loops", loops),
    ("PackedFilters", _checked(packed_filters)),
    ("Convolution", _checked(convolution)),
    ("ChannelsLast", _checked(channels_last)),
    ("Depthwise", _checked(depthwise)),
    ("ProductChain", _checked(product_chain)),
    ("Matmul", _checked(matmul)),
    ("Attention", _checked(attention)),
    ("Rows", _checked(rows)),
    ("Window", _checked(window)),
    ("Elementwise", _checked(elementwise)),
    ("Reduction", _checked(reduction)),
    ("Mixed", _checked(mixed)),
    ("PlainElementwise", _checked(plain_elementwise)),
    ("PlainReduction", _checked(plain_reduction)),
    ("Fallback", fallback),
)
