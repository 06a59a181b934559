"""Which loop nests of a PrimFunc are structured: one block under plain loops, each element of its outputs written once.

Takes a statement. Gives a `Nest` with the block's axes, the buffers that it writes and the loads that are walks along
axes; None for what has to stay loops. Emits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.toolchain.tvm_names import (
    Analyzer,
    Range,
    SBlock,
    SBlockRealize,
    TensorLoad,
    structural_equal,
    structural_walk,
    tirx,
)

LOOPS = (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL, tirx.ForKind.UNROLLED, tirx.ForKind.VECTORIZED)
"""Kinds of loops whose turns may run one after the other."""
Positions = dict[Any, int | None]
"""Variables of axes with their positions; None for those that are 0."""
Term = tuple[int, int]
"""Position of an axis, and what it is multiplied with."""


@dataclass(frozen=True)
class Place:
    """An index that linalg's maps can say: a sum of multiples of axes, and a number."""

    terms: tuple[Term, ...]
    offset: int = 0

    @property
    def is_axis(self) -> bool:
        return self.offset == 0 and len(self.terms) == 1 and self.terms[0][1] == 1


@dataclass
class Nest:
    """A block that becomes one `linalg.generic`."""

    block: SBlock
    statements: list[Any]
    axes: list[tirx.IterVar]
    outputs: dict[Any, tuple[Place, ...]] = field(default_factory=dict)
    """Buffers that it writes, in order of their stores, with where."""
    updated: set[Any] = field(default_factory=set)
    """Those whose elements it reads before it writes them."""
    single: tuple[Any, ...] = ()
    """Variables of further axes, which have one turn and are no axis of any output: they are 0."""

    @property
    def positions(self) -> Positions:
        return {axis.var: at for at, axis in enumerate(self.axes)} | dict.fromkeys(self.single)

    def is_reduction(self, at: int) -> bool:
        return int(self.axes[at].iter_type) == tirx.IterVar.CommReduce

    @property
    def reductions(self) -> list[int]:
        return [at for at in range(len(self.axes)) if self.is_reduction(at)]


def nest_of(statement: Any, analyzer: Analyzer) -> Nest | None:
    """The nest that a statement is, or None."""
    loops, inner = {}, statement
    while isinstance(inner, tirx.For):
        if inner.kind not in LOOPS or inner.thread_binding is not None or not _is_number(inner.min, 0):
            return None
        loops[inner.loop_var] = inner.extent
        inner = inner.body
    if not isinstance(inner, SBlockRealize) or not _is_number(inner.predicate, 1) or inner.block.match_buffers:
        return None
    block = inner.block
    axes = list(block.iter_vars)
    if not _binds_each(loops, axes, inner.iter_values) or (block.init is None) == any(map(_is_reduced, axes)):
        return None
    statements = flat(block.body)
    if not all(isinstance(each, (tirx.BufferStore, tirx.Bind)) for each in statements):
        return None
    walked = _walked_by_stores(statements, block.alloc_buffers)
    single = [
        each for each in axes if not _is_reduced(each) and _is_number(each.dom.extent, 1) and each.var not in walked
    ]
    kept = [each for each in axes if each not in single]
    nest = Nest(block, statements, kept, single=tuple(each.var for each in single))
    return nest if _has_clear_outputs(nest, analyzer) else None


def _walked_by_stores(statements: list[Any], scratch: Any) -> set[Any]:
    """The variables that are an index of an output."""
    stores = [each for each in statements if isinstance(each, tirx.BufferStore) and each.buffer not in scratch]
    return {index for each in stores for index in each.indices if isinstance(index, tirx.Var)}


def flat(statement: Any) -> list[Any]:
    """The statements of a sequence."""
    if isinstance(statement, tirx.SeqStmt):
        return [each for part in statement.seq for each in flat(part)]
    return [statement]


def place_of(index: Any, positions: Positions) -> Place | None:
    """The index as a sum of multiples of these variables, none of them negative; None if it is something else."""
    found = _linear(index, positions)
    if found is None:
        return None
    terms, offset = found
    if offset < 0 or any(factor < 0 for factor in terms.values()):
        return None
    return Place(tuple(sorted((at, factor) for at, factor in terms.items() if factor)), offset)


def loads_in(statements: list[Any]) -> list[TensorLoad]:
    """All loads in the statements, in order."""
    found: list[TensorLoad] = []
    for statement in statements:
        structural_walk(statement.value, (TensorLoad, found.append), order="pre")
    return found


def _is_number(expression: Any, number: int) -> bool:
    if isinstance(expression, bool):
        return expression == bool(number)
    return isinstance(expression, tirx.IntImm) and int(expression.value) == number


def _is_reduced(axis: tirx.IterVar) -> bool:
    return int(axis.iter_type) == tirx.IterVar.CommReduce


def _binds_each(loops: dict[Any, Any], axes: list[tirx.IterVar], values: Any) -> bool:
    """Whether every axis of the block is a loop of its own, as long as the axis, or has one turn."""
    used = []
    for axis, value in zip(axes, values, strict=True):
        if int(axis.iter_type) not in (tirx.IterVar.DataPar, tirx.IterVar.CommReduce):
            return False
        if not _is_number(axis.dom.min, 0):
            return False
        if _is_number(value, 0) and _is_number(axis.dom.extent, 1):
            continue
        if not isinstance(value, tirx.Var) or value not in loops:
            return False
        if not structural_equal(loops[value], axis.dom.extent):
            return False
        used.append(value)
    return len(used) == len(set(used)) and all(each in used or _is_number(loops[each], 1) for each in loops)


def _has_clear_outputs(nest: Nest, analyzer: Analyzer) -> bool:
    """Note what the nest writes; False unless each turn writes elements of its own, and reads no others of them."""
    scratch = set(nest.block.alloc_buffers)
    for store in (each for each in nest.statements if isinstance(each, tirx.BufferStore)):
        if store.buffer in scratch:
            continue
        if store.buffer in nest.outputs or (places := _output_places(nest, store, analyzer)) is None:
            return False
        nest.outputs[store.buffer] = places
    inits = {each.buffer for each in flat(nest.block.init)} if nest.block.init is not None else set(nest.outputs)
    return bool(nest.outputs) and inits == set(nest.outputs) and _reads_well(nest)


def _output_places(nest: Nest, store: tirx.BufferStore, analyzer: Analyzer) -> tuple[Place, ...] | None:
    places = []
    for index, size in zip(store.indices, store.buffer.shape, strict=True):
        place = place_of(index, nest.positions)
        if place is None or not (place.is_axis or (not place.terms and _is_number(size, 1))):
            return None
        if place.is_axis and not analyzer.can_prove_equal(nest.axes[place.terms[0][0]].dom.extent, size):
            return None
        places.append(place)
    walked = [place.terms[0][0] for place in places if place.terms]
    needed = {
        at for at, axis in enumerate(nest.axes) if not nest.is_reduction(at) and not _is_number(axis.dom.extent, 1)
    }
    is_clear = len(walked) == len(set(walked)) and needed <= set(walked) and not set(walked) & set(nest.reductions)
    return tuple(places) if is_clear else None


def _reads_well(nest: Nest) -> bool:
    """Note which outputs are updated; False if one is read elsewhere than where it is written, or after it was."""
    written: set[Any] = set()
    for statement in nest.statements:
        for load in loads_in([statement]):
            if load.source not in nest.outputs:
                continue
            places = tuple(place_of(index, nest.positions) for index in load.indices)
            if places != nest.outputs[load.source] or load.source in written:
                return False
            nest.updated.add(load.source)
        if isinstance(statement, tirx.BufferStore):
            written.add(statement.buffer)
    inits = flat(nest.block.init) if nest.block.init is not None else []
    reads_outputs = any(load.source in nest.outputs for load in loads_in(inits))
    return not reads_outputs and (not nest.reductions or nest.updated == set(nest.outputs))


def _linear(index: Any, positions: Positions) -> tuple[dict[int, int], int] | None:
    if isinstance(index, tirx.IntImm):
        return {}, int(index.value)
    if isinstance(index, tirx.Var):
        if index not in positions:
            return None
        at = positions[index]
        return ({}, 0) if at is None else ({at: 1}, 0)
    kind = type(index).__name__
    if kind not in ("Add", "Sub", "Mul"):
        return None
    x, y = _linear(index.a, positions), _linear(index.b, positions)
    if x is None or y is None:
        return None
    if kind == "Mul":
        return _scaled(x, y[1]) if not y[0] else _scaled(y, x[1]) if not x[0] else None
    return _sum(x, y if kind == "Add" else _scaled(y, -1))


def _scaled(x: tuple[dict[int, int], int], factor: int) -> tuple[dict[int, int], int]:
    return {at: each * factor for at, each in x[0].items()}, x[1] * factor


def _sum(x: tuple[dict[int, int], int], y: tuple[dict[int, int], int]) -> tuple[dict[int, int], int]:
    terms = dict(x[0])
    for at, factor in y[0].items():
        terms[at] = terms.get(at, 0) + factor
    return terms, x[1] + y[1]


def bind_axes(nest: Nest, analyzer: Analyzer) -> None:
    """Tell the analyzer how far the axes run."""
    for axis in nest.axes:
        analyzer.bind(axis.var, Range(axis.dom.min, axis.dom.extent), True)
