"""A PrimFunc's blocks as plain loop nests, and the axes that all of them share: the rows of a row kernel.

Takes a PrimFunc before it is scheduled. Gives its nests and their `Rows`: the axes of which each iteration needs
nothing that another iteration makes, in the order of memory. Refuses, by `NotRows`, blocks that are no plain nest of
static size around one store. Knows nothing of targets; changes nothing.

    m[i] = max_k x[i, k];  e[i, j] = exp(x[i, j] - m[i]);  s[i] = sum_k e[i, k]    the rows are i, three axes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from mlirtri.lowering.tir.arithmetic import reads_memory
from mlirtri.lowering.tir.blocks import CHEAP_CALLS
from mlirtri.lowering.toolchain.tvm_names import (
    LOCATION,
    Analyzer,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    TensorLoad,
    ir,
    structural_map,
    structural_walk,
    tirx,
)


class Obstacle(Enum):
    """What keeps blocks from being one row kernel; the values are the words of the column *kind* of `kernel.fusion`."""

    AXES = "axes"
    """The blocks have no axes in common, or do more than plain loop nests do."""
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
class Axis:
    """One loop of a nest."""

    variable: Any
    extent: int
    is_reduction: bool


@dataclass(frozen=True, eq=False)
class Nest:
    """One block with the loops around it: ``target[places] = value``, for all of its axes, after `before`."""

    name: str
    axes: tuple[Axis, ...]
    before: tuple[Any, ...]
    """Statements that compute what `value` names: variables and scratch elements."""
    store: Any
    init: Any
    """The initial value of a reduction's result; None elsewhere."""
    scratch: tuple[Any, ...]
    location: str | None

    @property
    def target(self) -> Any:
        return self.store.buffer

    @property
    def is_reduction(self) -> bool:
        return any(axis.is_reduction for axis in self.axes)

    @property
    def places(self) -> tuple[int | None, ...]:
        """Per dimension of the target, the position of the axis that indexes it; None for a constant 0."""
        return self.plain(self.store.indices)

    def plain(self, indices: Sequence[Any]) -> tuple[int | None, ...]:
        """Return for each index the position of the axis that it is; None where it is no plain axis."""
        numbers = {axis.variable: at for at, axis in enumerate(self.axes)}
        return tuple(numbers.get(each) if isinstance(each, tirx.Var) else None for each in indices)

    @cached_property
    def loads(self) -> tuple[Any, ...]:
        """Return every load except those of its own result and of scratch elements."""
        found: list[Any] = []
        own = [self.target, *self.scratch]
        for statement in (*self.before, self.store):
            structural_walk(statement, (TensorLoad, found.append), order="post")
        return tuple(load for load in found if not any(load.source.same_as(each) for each in own))

    def reads(self, buffer: Any) -> bool:
        return any(load.source.same_as(buffer) for load in self.loads)


def nests_of(function: PrimFunc) -> list[Nest]:
    """Return the nests of a PrimFunc in program order; raises `NotRows` where a block is no plain one."""
    root = function.body
    if not isinstance(root, SBlockRealize) or len(root.block.iter_vars):
        raise NotRows("it is made of statements, not of loop nests")
    body = root.block.body
    nests = [_nest(statement) for statement in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]
    return _without_positions(nests, function.params)


def _without_positions(nests: list[Nest], outputs: Sequence[Any]) -> list[Nest]:
    """Return the nests without those that compute an index, as `arange` does: readers compute it themselves."""
    positions: dict[Any, Nest] = {}
    kept: list[Nest] = []
    for nest in nests:
        known = _with_positions(nest, positions) if any(nest.reads(each) for each in positions) else nest
        if any(known.target.same_as(output) for output in outputs) or not _is_position(known):
            kept.append(known)
        else:
            positions[known.target] = _with_positions(known, {})
    return kept


def says_positions(function: PrimFunc) -> bool:
    """Whether a function computes indices or constants only, at negligible cost."""
    try:
        return all(_is_position(nest) for nest in nests_of(function))
    except NotRows:
        return False


def refuse_better_rules(nest: Nest) -> None:
    """Raise `NotRows` for a reduction that other rules do better: over windows, or a matrix product."""
    if not nest.is_reduction:
        return
    for load in nest.loads:
        pairs = zip(nest.plain(load.indices), load.indices, strict=True)
        if any(axis is None and not isinstance(expression, tirx.IntImm) for axis, expression in pairs):
            raise NotRows(f"{nest.name} reads windows, not rows")
    if is_product(nest):
        raise NotRows(f"{nest.name} is a matrix product, which has rules of its own", Obstacle.PRODUCT)


def is_product(nest: Nest) -> bool:
    """Whether a nest reduces two operands, each of which goes along an axis of the result that the other lacks."""
    kept = {number for number, axis in enumerate(nest.axes) if not axis.is_reduction and axis.extent > 1}
    sets = [kept & set(nest.plain(load.indices)) for load in nest.loads]
    return nest.is_reduction and any(one - other and other - one for one in sets for other in sets)


def _is_position(nest: Nest) -> bool:
    return not (nest.loads or nest.before or nest.is_reduction or None in nest.places or _is_expensive(nest))


def _is_expensive(nest: Nest) -> bool:
    """Whether a nest calls a function that is too expensive to compute again in each reader."""
    found: list[Any] = []
    structural_walk(nest.store.value, (ir.Call, found.append), order="pre")
    return any(str(getattr(call.op, "name", "")).rsplit(".", 1)[-1] not in CHEAP_CALLS for call in found)


def _with_positions(nest: Nest, positions: dict[Any, Nest]) -> Nest:
    """Return the nest with index computations of `positions` inlined."""

    def position(load: Any) -> Any:
        made = positions.get(load.source)
        if made is None:
            return load
        values = {made.axes[axis].variable: one for axis, one in zip(made.places, load.indices, strict=True)}
        return structural_map(made.store.value, (tirx.Var, lambda each: values.get(each, each)), order="post")

    rules = [(TensorLoad, position), (tirx.Cast, _without_widening)]
    before = tuple(structural_map(each, rules, order="post") for each in nest.before)
    return replace(nest, store=structural_map(nest.store, rules, order="post"), before=before)


def _without_widening(cast: Any) -> Any:
    """Return index arithmetic without widening casts: only values read from memory may overflow."""
    inner = cast.value
    if not isinstance(inner, tirx.Add | tirx.Sub | tirx.Mul) or not all(
        isinstance(each, tirx.Cast) for each in (inner.a, inner.b)
    ):
        return cast
    operands = [each.value for each in (inner.a, inner.b)]
    dtypes = {str(each.ty.dtype) for each in operands}
    if dtypes != {str(cast.ty.dtype)} or "int" not in str(cast.ty.dtype) or any(map(reads_memory, operands)):
        return cast
    neutral = 1 if isinstance(inner, tirx.Mul) else 0
    numbers = [isinstance(each, tirx.IntImm) and int(each.value) == neutral for each in operands]
    if numbers[1]:
        return operands[0]
    if numbers[0] and not isinstance(inner, tirx.Sub):
        return operands[1]
    return cast if isinstance(inner, tirx.Mul) else type(inner)(*operands)


def _nest(statement: Any) -> Nest:
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
        whole = isinstance(iterator.dom.extent, tirx.IntImm) and extents.get(value) == int(iterator.dom.extent)
        is_one = isinstance(value, tirx.IntImm) and isinstance(iterator.dom.extent, tirx.IntImm)
        if iterator.iter_type not in kinds or not (whole or is_one):
            raise NotRows("its loops are split, or not of plain kinds")
        axes.append(Axis(iterator.var, int(iterator.dom.extent), kinds[iterator.iter_type]))
    body = _simplified(block.body, axes)
    *before, store = body.seq if isinstance(body, tirx.SeqStmt) else [body]
    plain = isinstance(store, tirx.BufferStore) and all(_is_preparation(each, block.alloc_buffers) for each in before)
    if not plain or not (block.init is None or isinstance(block.init, tirx.BufferStore)):
        raise NotRows("it has several results, or is more than one expression", Obstacle.RESULTS)
    if block.init is not None and not any(axis.is_reduction for axis in axes):
        raise NotRows("it starts a sum that has no terms to go through")
    if block.init is not None and _names_any(block.init.value, {axis.variable for axis in axes}):
        raise NotRows("its sums start from elements of an array")
    location = str(block.annotations[LOCATION]) if LOCATION in block.annotations else None
    init = None if block.init is None else block.init.value
    return Nest(str(block.name_hint), tuple(axes), tuple(before), store, init, tuple(block.alloc_buffers), location)


def _names_any(value: Any, variables: set[Any]) -> bool:
    found: list[Any] = []
    structural_walk(value, (tirx.Var, found.append))
    return any(each in variables for each in found)


def _simplified(body: Any, axes: Sequence[Axis]) -> Any:
    """A block's statements with plain indices where they can be: a reshape's are quotients and remainders."""
    analyzer = Analyzer()
    for axis in axes:
        analyzer.bind(axis.variable, Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", axis.extent)))

    def visit(load: Any) -> Any:
        if all(isinstance(each, tirx.Var | tirx.IntImm) for each in load.indices):
            return load
        return tirx.BufferLoad(load.source, [analyzer.simplify(each) for each in load.indices])

    return structural_map(body, (TensorLoad, visit), order="post")


def with_plain_indices(function: PrimFunc) -> PrimFunc:
    """Return the PrimFunc with simplified indices in its blocks."""

    def visit(block: Any) -> Any:
        if not all(isinstance(each.dom.extent, tirx.IntImm) for each in block.iter_vars):
            return block
        axes = [Axis(each.var, int(each.dom.extent), False) for each in block.iter_vars]
        return SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, _simplified(block.body, axes), block.init,
            block.alloc_buffers, block.match_buffers, block.annotations, block.span,
        ) if axes else block  # fmt: skip

    return function.with_body(structural_map(function.body, (SBlock, visit), order="post"))


def _is_preparation(statement: Any, scratch: Sequence[Any]) -> bool:
    if isinstance(statement, tirx.Bind):
        return True
    return isinstance(statement, tirx.BufferStore) and any(statement.buffer.same_as(each) for each in scratch)


@dataclass(frozen=True)
class Rows:
    """Per nest, the indices of its axes that are the rows' axes, in a common order; `extents` are their sizes."""

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]


class _Classes:
    """Equivalence classes of axes (union-find): what one nest writes along an axis, the other reads along its own."""

    def __init__(self, nests: Sequence[Nest]):
        self.parent: dict[tuple[int, int], tuple[int, int]] = {
            (at, axis): (at, axis) for at, nest in enumerate(nests) for axis in range(len(nest.axes))
        }
        self.broken: set[tuple[int, int]] = set()

    def of(self, key: tuple[int, int]) -> tuple[int, int]:
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def join(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        one, other = sorted((self.of(one), self.of(other)))
        self.parent[other] = one

    def members(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for key in self.parent:
            found.setdefault(self.of(key), []).append(key)
        broken = {self.of(key) for key in self.broken}
        return {key: keys for key, keys in found.items() if key not in broken}


def find_rows(nests: Sequence[Nest]) -> Rows:
    """Return the axes that all nests share; where there is none, everything is one row."""
    if not nests:
        raise NotRows("nothing is computed")
    classes = _Classes(nests)
    writers = {nest.target: at for at, nest in enumerate(nests)}
    if len(writers) != len(nests):
        raise NotRows("a buffer is written twice")
    for at, nest in enumerate(nests):
        for load in nest.loads:
            if (writer := writers.get(load.source)) is not None:
                _join_dimensions(classes, nests, (at, nest.plain(load.indices)), (writer, nests[writer].places))
    last = len(nests) - 1
    rows = []
    for keys in classes.members().values():
        numbers = dict(keys)
        axes = [nests[at].axes[axis] for at, axis in keys]
        is_shared = len(keys) == len(numbers) == len(nests)
        if is_shared and not any(axis.is_reduction for axis in axes) and len({axis.extent for axis in axes}) == 1:
            rows.append(numbers)
    rows.sort(key=lambda numbers: _position(nests[last], numbers[last]))
    axes = tuple(tuple(numbers[at] for numbers in rows) for at in range(len(nests)))
    return Rows(axes, tuple(nests[last].axes[axis].extent for axis in axes[last]))


def _join_dimensions(classes: _Classes, nests: Sequence[Nest], read: tuple, write: tuple) -> None:
    """Along each dimension, the reader's axis and the writer's are one; neither is a row where there is no axis."""
    (reader, read_axes), (writer, written_axes) = read, write
    for read_axis, written_axis in zip(read_axes, written_axes, strict=True):
        if read_axis is not None and written_axis is not None:
            classes.join((reader, read_axis), (writer, written_axis))
        elif written_axis is not None and nests[writer].axes[written_axis].extent > 1:
            classes.broken.add((writer, written_axis))


def _position(nest: Nest, axis: int) -> int:
    places = nest.places
    return places.index(axis) if axis in places else len(places)
