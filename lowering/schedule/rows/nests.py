"""A PrimFunc's blocks as plain loop nests, without those that their readers compute.

Knows nothing of targets.

    w[j] = 1 + weight[j];  y[i, j] = x[i, j] * w[j]     ──►    y[i, j] = x[i, j] * (1 + weight[j])
    y[i, j, k] = x[2 i + j, k]                          ──►    y[r / 2, r % 2, k] = x[r, k]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from math import prod
from typing import Any

from mlirtri.lowering.tir.blocks import CHEAP_CALLS
from mlirtri.lowering.tir.statements import depends_on, index, loads_in, nodes_in
from mlirtri.lowering.toolchain.tvm_names import (
    LOCATION,
    Analyzer,
    Buffer,
    Expr,
    Node,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Stmt,
    TensorLoad,
    address_of,
    ir,
    structural_equal,
    structural_map,
    tirx,
    with_values,
)


class Obstacle(Enum):
    """What keeps blocks from being one row kernel; the values are the words of the column *kind* of `kernel.fusion`."""

    AXES = "axes"
    """The blocks share no axis, or do more than plain loop nests do."""
    SIZES = "sizes"
    RESULTS = "results"
    ORDER = "order"
    PRODUCT = "product"
    USES = "uses"
    MEMORY = "memory"
    THREADS = "threads"
    ARGUMENTS = "arguments"


class NotRows(Exception):
    """Blocks make no row kernel: an obstacle, and the reason in words for people."""

    def __init__(self, reason: str, obstacle: Obstacle = Obstacle.AXES):
        super().__init__(reason)
        self.obstacle = obstacle


@dataclass(frozen=True, eq=False)
class BlockAxis:
    """One loop of a nest."""

    variable: Any
    extent: int
    is_reduction: bool


@dataclass(frozen=True, eq=False)
class BlockNest:
    """One block with the loops around it: ``target[indices] = value``, for all of its axes, after `before`."""

    name: str
    axes: tuple[BlockAxis, ...]
    before: tuple[Any, ...]
    """Statements that compute what `value` names: variables and scratch elements."""
    store: Any
    init: Any
    """The initial value of a reduction's result; None elsewhere."""
    scratch: tuple[Any, ...]
    location: str | None

    @property
    def target(self) -> Buffer:
        return self.store.buffer

    @property
    def iterations(self) -> int:
        return prod(axis.extent for axis in self.axes)

    @property
    def is_reduction(self) -> bool:
        return any(axis.is_reduction for axis in self.axes)

    @property
    def target_axes(self) -> tuple[int | None, ...]:
        """Per dimension of the target, the position of the axis that indexes it; None for a constant 0."""
        return self.plain(self.store.indices)

    def plain(self, indices: Sequence[Expr]) -> tuple[int | None, ...]:
        """Return for each index the position of the axis that it is; None where it is no plain axis."""
        numbers = {address_of(axis.variable): number for number, axis in enumerate(self.axes)}
        return tuple(numbers.get(address_of(index)) if isinstance(index, tirx.Var) else None for index in indices)

    @cached_property
    def loads(self) -> tuple[TensorLoad, ...]:
        """Return every load except those of its own result and of scratch elements."""
        written = [self.target, *self.scratch]
        loads = (load for statement in (*self.before, self.store) for load in loads_in(statement))
        return tuple(load for load in loads if not any(load.source.same_as(buffer) for buffer in written))

    def reads(self, buffer: Buffer) -> bool:
        return any(load.source.same_as(buffer) for load in self.loads)

    def value_at(self, indices: Sequence[Expr]) -> Expr:
        """Return what the nest stores at these indices of its target, whose dimensions are all of its axes."""
        pairs = zip(self.target_axes, indices, strict=True)
        values = {self.axes[axis].variable: value for axis, value in pairs if axis is not None}
        return with_values(self.store.value, values)


def nests_of(function: PrimFunc) -> list[BlockNest]:
    """Return the nests of a PrimFunc in program order; raises `NotRows` where a block is no plain one."""
    root = function.body
    if not isinstance(root, SBlockRealize) or len(root.block.iter_vars):
        raise NotRows("it is made of statements, not of loop nests")
    body = root.block.body
    nests = [_nest(statement) for statement in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]
    kept = _without_positions(nests, function.params)
    return [*kept[:-1], *map(_with_joined_axes, kept[-1:])]


def _without_positions(nests: list[BlockNest], outputs: Sequence[Any]) -> list[BlockNest]:
    """Return the nests without those that readers compute themselves.

    They compute an index, as `arange` does, or little of arguments that the rows of all readers share: ``1 + weight``.
    """
    positions: dict[Any, BlockNest] = {}
    kept: list[BlockNest] = []
    for number, nest in enumerate(nests):
        inlined = _with_positions(nest, positions) if any(nest.reads(buffer) for buffer in positions) else nest
        if any(inlined.target.same_as(output) for output in outputs) or not (
            _is_position(inlined) or _is_shared(inlined, nests[number + 1 :], outputs)
        ):
            kept.append(inlined)
        else:
            positions[inlined.target] = _with_positions(inlined, {})
    return kept


def _with_joined_axes(nest: BlockNest) -> BlockNest:
    """Return a nest with one axis for two that it reads as one: ``y[i, j] = x[2 i + j]`` as ``y[k / 2, k % 2] = x[k]``.

    A reshape at the end parts a row axis; what reads a nest needs its axes as they are, so this is for the last one.
    """
    pair = None if nest.before or nest.is_reduction else _joint_axes(nest)
    if pair is None:
        return nest
    outer, inner = pair
    joint = BlockAxis(tirx.Var(outer.variable.name, outer.variable.ty), outer.extent * inner.extent, False)

    def together(node: Node) -> Any:
        return joint.variable if _is_joint(node, outer, inner) else node

    value = structural_map(nest.store.value, (tirx.Add, together), order="post")
    if depends_on(value, [outer.variable, inner.variable]):
        return nest
    size = index(inner.extent)
    parted = {
        outer.variable: tirx.floordiv(joint.variable, size),
        inner.variable: tirx.floormod(joint.variable, size),
    }
    store = tirx.BufferStore(nest.target, value, [with_values(position, parted) for position in nest.store.indices])
    axes = tuple(joint if axis is outer else axis for axis in nest.axes if axis is not inner)
    return replace(nest, axes=axes, store=store)


def _joint_axes(nest: BlockNest) -> tuple[BlockAxis, BlockAxis] | None:
    sums = [position for load in nest.loads for position in load.indices if isinstance(position, tirx.Add)]
    pairs = ((outer, inner) for outer in nest.axes for inner in nest.axes if outer is not inner)
    return next((pair for pair in pairs if any(_is_joint(node, *pair) for node in sums)), None)


def _is_joint(node: Node, outer: BlockAxis, inner: BlockAxis) -> bool:
    return structural_equal(node, outer.variable * index(inner.extent) + inner.variable)


def computes_indices(function: PrimFunc) -> bool:
    """Return whether a function computes indices or constants only, at negligible cost."""
    try:
        return all(_is_position(nest) for nest in nests_of(function))
    except NotRows:
        return False


def refuse_better_rules(nest: BlockNest) -> None:
    """Raise `NotRows` for a reduction that other rules do better: over windows, or a matrix product."""
    if not nest.is_reduction:
        return
    for load in nest.loads:
        pairs = zip(nest.plain(load.indices), load.indices, strict=True)
        if any(axis is None and not isinstance(expression, tirx.IntImm) for axis, expression in pairs):
            raise NotRows(f"{nest.name} reads windows, not rows")
    if is_product(nest):
        raise NotRows(f"{nest.name} is a matrix product, which has rules of its own", Obstacle.PRODUCT)


def is_product(nest: BlockNest) -> bool:
    """Return whether a nest reduces two operands, each with an axis of the result that the other lacks."""
    spatial = {number for number, axis in enumerate(nest.axes) if not axis.is_reduction and axis.extent > 1}
    sets = [spatial & set(nest.plain(load.indices)) for load in nest.loads]
    return nest.is_reduction and any(axes - other and other - axes for axes in sets for other in sets)


def _is_position(nest: BlockNest) -> bool:
    return not nest.loads and _is_cheap(nest)


def _is_shared(nest: BlockNest, later: Sequence[BlockNest], arguments: Sequence[Any]) -> bool:
    """Return whether a nest computes little, of arguments alone, and less often than each of its readers runs."""
    readers = [other for other in later if other.reads(nest.target)]
    return (
        _is_cheap(nest)
        and all(any(load.source.same_as(argument) for argument in arguments) for load in nest.loads)
        and all(reader.iterations > nest.iterations for reader in readers)
    )


def _is_cheap(nest: BlockNest) -> bool:
    return not (nest.before or nest.is_reduction or None in nest.target_axes or _is_expensive(nest))


def _is_expensive(nest: BlockNest) -> bool:
    """Return whether a nest calls a function that is too expensive to compute again in each reader."""
    names = [str(getattr(call.op, "name", "")).rsplit(".", 1)[-1] for call in nodes_in(nest.store.value, ir.Call)]
    return any(name not in CHEAP_CALLS for name in names)


def _with_positions(nest: BlockNest, positions: dict[Any, BlockNest]) -> BlockNest:

    def position(load: TensorLoad) -> Any:
        writer = positions.get(load.source)
        return load if writer is None else writer.value_at(load.indices)

    rules = [(TensorLoad, position), (tirx.Cast, _without_widening)]
    before = tuple(structural_map(statement, rules, order="post") for statement in nest.before)
    return replace(nest, store=structural_map(nest.store, rules, order="post"), before=before)


def _without_widening(cast: Any) -> Any:
    """Return index arithmetic without widening casts: only values read from memory may overflow."""
    inner = cast.value
    if not isinstance(inner, tirx.Add | tirx.Sub | tirx.Mul) or not all(
        isinstance(operand, tirx.Cast) for operand in (inner.a, inner.b)
    ):
        return cast
    operands = [operand.value for operand in (inner.a, inner.b)]
    dtypes = {str(operand.ty.dtype) for operand in operands}
    if dtypes != {str(cast.ty.dtype)} or "int" not in str(cast.ty.dtype) or any(map(loads_in, operands)):
        return cast
    neutral = 1 if isinstance(inner, tirx.Mul) else 0
    numbers = [isinstance(operand, tirx.IntImm) and int(operand.value) == neutral for operand in operands]
    if numbers[1]:
        return operands[0]
    if numbers[0] and not isinstance(inner, tirx.Sub):
        return operands[1]
    return cast if isinstance(inner, tirx.Mul) else type(inner)(*operands)


def _nest(statement: Stmt) -> BlockNest:
    extents: dict[Any, int] = {}
    while isinstance(statement, tirx.For):
        if not isinstance(statement.extent, tirx.IntImm):
            raise NotRows("sizes are known at run time only", Obstacle.SIZES)
        extents[statement.loop_var] = int(statement.extent)
        statement = statement.body
    if not isinstance(statement, SBlockRealize):
        raise NotRows("it is made of statements, not of loop nests")
    block = statement.block
    kinds = {tirx.IterVar.DataPar: False, tirx.IterVar.CommReduce: True}
    axes = []
    for iterator, value in zip(block.iter_vars, statement.iter_values, strict=True):
        is_loop = isinstance(iterator.dom.extent, tirx.IntImm) and extents.get(value) == int(iterator.dom.extent)
        is_one = isinstance(value, tirx.IntImm) and isinstance(iterator.dom.extent, tirx.IntImm)
        if iterator.iter_type not in kinds or not (is_loop or is_one):
            raise NotRows("its loops are split, or not of plain kinds")
        axes.append(BlockAxis(iterator.var, int(iterator.dom.extent), kinds[iterator.iter_type]))
    body = _simplified(block.body, axes)
    *before, store = body.seq if isinstance(body, tirx.SeqStmt) else [body]
    are_scratch = all(_is_preparation(statement, block.alloc_buffers) for statement in before)
    plain = are_scratch and isinstance(store, tirx.BufferStore)
    if not plain or not (block.init is None or isinstance(block.init, tirx.BufferStore)):
        raise NotRows("it has several results, or is more than one expression", Obstacle.RESULTS)
    if block.init is not None and not any(axis.is_reduction for axis in axes):
        raise NotRows("it starts a sum that has no terms to go through")
    if block.init is not None and depends_on(block.init.value, [axis.variable for axis in axes]):
        raise NotRows("its sums start from elements of an array")
    location = str(block.annotations[LOCATION]) if LOCATION in block.annotations else None
    init = None if block.init is None else block.init.value
    return BlockNest(
        str(block.name_hint), tuple(axes), tuple(before), store, init, tuple(block.alloc_buffers), location
    )


def _simplified(body: Stmt, axes: Sequence[BlockAxis]) -> Any:
    """Return a block's statements with simplified indices: a reshape's are quotients and remainders."""
    analyzer = Analyzer()
    for axis in axes:
        analyzer.bind(axis.variable, Range(index(0), index(axis.extent)))

    def visit(load: TensorLoad) -> Any:
        if all(isinstance(index, tirx.Var | tirx.IntImm) for index in load.indices):
            return load
        return tirx.BufferLoad(load.source, [analyzer.simplify(index) for index in load.indices])

    return structural_map(body, (TensorLoad, visit), order="post")


def with_plain_indices(function: PrimFunc) -> PrimFunc:
    """Return the PrimFunc with simplified indices in its blocks."""

    def visit(block: Any) -> Any:
        if not all(isinstance(axis.dom.extent, tirx.IntImm) for axis in block.iter_vars):
            return block
        axes = [BlockAxis(axis.var, int(axis.dom.extent), False) for axis in block.iter_vars]
        return SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, _simplified(block.body, axes), block.init,
            block.alloc_buffers, block.match_buffers, block.annotations, block.span,
        ) if axes else block  # fmt: skip

    return function.with_body(structural_map(function.body, (SBlock, visit), order="post"))


def _is_preparation(statement: Stmt, scratch: Sequence[Any]) -> bool:
    if isinstance(statement, tirx.Bind):
        return True
    return isinstance(statement, tirx.BufferStore) and any(statement.buffer.same_as(buffer) for buffer in scratch)
