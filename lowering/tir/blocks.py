"""Facts of a PrimFunc's blocks for schedule rules: axes, accesses, and which blocks can be inlined.

`inline_cheap` alone changes the schedule. Knows nothing of targets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.tir.statements import nodes_in, operator_name
from mlirtri.lowering.toolchain.tvm_names import (
    SCHEDULE_ERRORS,
    Analyzer,
    Buffer,
    Loop,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Schedule,
    TensorLoad,
    WalkResult,
    address_of,
    ir,
    structural_walk,
    tirx,
    tvm,
)

_realize = tvm.get_global_func("s_tir.schedule.GetSBlockRealize")


CHEAP_CALLS = {
    "if_then_else", "likely", "reinterpret", "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_not", "fabs", "floor", "ceil", "trunc", "isnan",
}  # fmt: skip
"""Operations that TIR writes as calls but that are one instruction."""


MAX_DUPLICATED_LOADS = 64
"""Loads in all copies of a block that is inlined more than once; without a limit, a chain in which every value is read
twice would become an expression exponential in its length."""


@dataclass(frozen=True)
class BlockAccess:
    """One load or store: the buffer and, per dimension, the block axis that indexes it; None if it is no plain axis."""

    buffer: Any
    axes: tuple[int | None, ...]
    indices: tuple[Any, ...]


@dataclass(frozen=True)
class BlockFacts:
    """A leaf block: `kinds` has ``S`` or ``R`` per axis, `extents` its sizes."""

    handle: Any
    name: str
    kinds: str
    extents: tuple[int, ...]
    reads: tuple[BlockAccess, ...]
    writes: tuple[BlockAccess, ...]
    calls: bool
    """Whether the body calls a function such as `exp`, which is expensive to recompute."""
    binds: bool
    """Whether the body has `let` bindings; TVM refuses such a body when a loop around it is unrolled."""
    vectorizes: bool
    """False if it stores a bf16 constant, for which TVM cannot make vector code, or has local buffers, which TVM
    does not widen to vectors (wrong results)."""

    @property
    def is_spatial(self) -> bool:
        return "R" not in self.kinds

    @property
    def target(self) -> Buffer:
        """The buffer that the block's first store writes."""
        return self.writes[0].buffer

    @property
    def operands(self) -> tuple[BlockAccess, ...]:
        """The reads of buffers that the block does not write, unlike a reduction's result."""
        written = [write.buffer for write in self.writes]
        return tuple(read for read in self.reads if not any(read.buffer.same_as(buffer) for buffer in written))

    @property
    def iterations(self) -> int:
        """The number of iterations of the body."""
        return prod(self.extents)

    def axes(self, kind: str) -> tuple[int, ...]:
        return tuple(axis for axis, axis_kind in enumerate(self.kinds) if axis_kind == kind)


class NotApplicableError(ValueError):
    """A schedule rule does not apply to a function: no failure, the next rule is tried."""


class DivergentLanesError(NotApplicableError):
    """A statement cannot be vectorised, because a condition in it differs between lanes of a vector."""


class NotStaticLoopsError(NotApplicableError):
    """A function is no sequence of loop nests of static extents: dynamic sizes, library calls."""


_REMEMBERED = 4096
_KNOWN: dict[int, tuple[Any, BlockFacts]] = {}
"""Blocks by their addresses, and their facts without a handle."""


def leaf_blocks(schedule: Schedule) -> list[BlockFacts]:
    """Return the blocks under the root in program order; raises `NotStaticLoopsError` for any but static loops."""
    _root_of(schedule.mod["main"])
    return [block_facts(schedule, handle) for handle in schedule.get_child_blocks(schedule.get_sblock("root"))]


def blocks_of(function: PrimFunc) -> list[tuple[BlockFacts, SBlock]]:
    """Return the facts of `leaf_blocks`, without handles, and the blocks: no schedule is made, which takes longer."""
    root, blocks = _root_of(function), []

    def note(block: Any) -> Any:
        blocks.append(block)
        return WalkResult.SKIP

    structural_walk(root.body, (SBlock, note), order="pre")
    return [(_remembered_facts(block), block) for block in blocks]


def _root_of(function: PrimFunc) -> SBlock:
    """Return the block around the loops of a function; raises `NotStaticLoopsError` where it has none."""
    if not isinstance(function.body, SBlockRealize) or function.body.block.name_hint != "root":
        raise NotStaticLoopsError("the function is one block")
    return function.body.block


def block_facts(schedule: Schedule, handle: Any) -> BlockFacts:
    """Return the facts of one block, computed once for all rules."""
    return replace(_remembered_facts(schedule.get(handle)), handle=handle)


def _remembered_facts(block: Any) -> BlockFacts:
    # The block is the same object for as long as it is remembered.
    key = block.__chandle__()
    entry = _KNOWN.get(key)
    if entry is None:
        if len(_KNOWN) >= _REMEMBERED:
            _KNOWN.clear()
        entry = _KNOWN[key] = block, _facts(block)
    return entry[1]


def _facts(block: Any) -> BlockFacts:
    kinds = {tirx.IterVar.DataPar: "S", tirx.IterVar.CommReduce: "R"}
    axes = {address_of(axis.var): number for number, axis in enumerate(block.iter_vars)}
    if any(axis.iter_type not in kinds or not isinstance(axis.dom.extent, tirx.IntImm) for axis in block.iter_vars):
        raise NotStaticLoopsError(f"block {block.name_hint} has opaque or symbolic axes")
    reads, writes, calls = _accesses(block, axes)
    scratch = {buffer.name for buffer in block.alloc_buffers}
    reads, writes = (tuple(a for a in accesses if a.buffer.name not in scratch) for accesses in (reads, writes))
    return BlockFacts(
        None,
        str(block.name_hint),
        "".join(kinds[axis.iter_type] for axis in block.iter_vars),
        tuple(int(axis.dom.extent) for axis in block.iter_vars),
        reads,
        writes,
        calls,
        bool(nodes_in(block.body, tirx.Bind)),
        not (scratch or stores_bf16_constant(block)),
    )


def stores_bf16_constant(block: SBlock) -> bool:
    """Return whether a block stores a bf16 constant, for which TVM cannot make vector code."""
    statements = [statement for statement in (block.body, block.init) if statement is not None]
    values = [store.value for statement in statements for store in nodes_in(statement, tirx.BufferStore)]
    return any(isinstance(value, tirx.FloatImm) and str(value.ty.dtype) == "bfloat16" for value in values)


def _accesses(block, axes) -> tuple[tuple[BlockAccess, ...], tuple[BlockAccess, ...], bool]:
    reads, writes, calls = [], [], []
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, Range.from_min_extent(axis.dom.min, axis.dom.extent))

    def load(node):
        reads.append(_access(node.source, node.indices, axes, analyzer))

    def store(node):
        writes.append(_access(node.buffer, node.indices, axes, analyzer))

    def call(node):
        if (name := operator_name(node)).rsplit(".", 1)[-1] not in CHEAP_CALLS:
            calls.append(name)

    structural_walk(block.body, [(TensorLoad, load), (tirx.BufferStore, store), (ir.Call, call)], order="pre")
    return tuple(reads), tuple(writes), bool(calls)


def _access(buffer, indices, axes, analyzer) -> BlockAccess:
    """Return the access; indices such as ``i % 64`` for ``i < 64``, left by reshapes, count as plain axes."""
    plain = [node if isinstance(node, tirx.Var | tirx.IntImm) else analyzer.simplify(node) for node in indices]
    return BlockAccess(
        buffer,
        tuple(axes.get(address_of(index)) if isinstance(index, tirx.Var) else None for index in plain),
        tuple(indices),
    )


def loop_of(schedule: Schedule, block: BlockFacts, axis: int) -> Loop:
    """Return the loop bound to an axis, in a nest that is not split yet."""
    value = _realize(schedule, block.handle).iter_values[axis]
    return next(loop for loop in schedule.get_loops(block.handle) if schedule.get(loop).loop_var.same_as(value))


def divide_loops(schedule: Schedule, block: BlockFacts, loops: Sequence[Loop]) -> tuple[list[Loop], list[Loop]]:
    """Return `loops` without and with those on which a reduction axis of the block depends, each outermost first."""
    values = zip(block.kinds, _realize(schedule, block.handle).iter_values, strict=True)
    reductions = [variable for kind, value in values if kind == "R" for variable in nodes_in(value, tirx.Var)]
    spatial, reduced = [], []
    for loop in loops:
        loop_variable = schedule.get(loop).loop_var
        (reduced if any(loop_variable.same_as(variable) for variable in reductions) else spatial).append(loop)
    return spatial, reduced


def inline_cheap(schedule: Schedule, kept: Collection[str] = ()) -> None:
    """Inline spatial blocks into their consumers, unless they are `kept` or that computes something expensive twice.

    A block is asked again when one of its consumers has been inlined: it is read by other blocks then.
    """
    handles = {block.name: block.handle for block in leaf_blocks(schedule) if block.name not in kept}
    names, position = list(handles), 0
    while position < len(names):
        block = block_facts(schedule, handles[names[position]])
        producers = [str(schedule.get(handle).name_hint) for handle in schedule.get_producers(block.handle)]
        if block.is_spatial and _may_inline(schedule, block) and inlined(schedule, block):
            del names[position]
            position = min([position, *(names.index(name) for name in producers if name not in kept)])
        else:
            position += 1
    for name in names:
        _hide_own_buffers(schedule, handles[name])


def _hide_own_buffers(schedule: Schedule, handle: Any) -> None:
    """Remove local buffers from the reads and writes: TVM's inlining lists them there, then sees no parallel block."""
    block = schedule.get(handle)
    scratch = {buffer.name for buffer in block.alloc_buffers}
    for kind, regions in (("read", block.reads), ("write", block.writes)):
        numbers = [number for number, region in enumerate(regions) if region.source.name in scratch]
        if numbers:
            schedule.unsafe_hide_buffer_access(handle, kind, numbers)


def _may_inline(schedule: Schedule, block: BlockFacts) -> bool:
    consumers = [block_facts(schedule, handle) for handle in schedule.get_consumers(block.handle)]
    has_lets = [bool(nodes_in(schedule.get(each.handle).body, tirx.Let)) for each in (block, *consumers)]
    if has_lets[0] and any(has_lets[1:]):
        # TVM's analysis takes time exponential in the depth of lets.
        return False
    reads = [
        consumer.iterations for consumer in consumers for read in consumer.reads if read.buffer.same_as(block.target)
    ]
    if not reads or sum(reads) <= block.iterations:
        return bool(reads)
    is_small = len(reads) * len(block.reads) <= MAX_DUPLICATED_LOADS
    return is_small and not block.calls and all(consumer.is_spatial for consumer in consumers)


def inlined(schedule: Schedule, block: BlockFacts) -> bool:
    """Inline a block into its consumers where TVM can."""
    try:
        schedule.compute_inline(block.handle)
    except SCHEDULE_ERRORS:  # TVM's own conditions, such as outputs, decide
        return False
    return True
