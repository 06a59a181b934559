"""Recognise structured loop nests of a PrimFunc: one block under plain loops that writes each output element once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlirtri.lowering.toolchain.tvm_names import (
    Analyzer,
    Buffer,
    Expr,
    Range,
    SBlock,
    SBlockRealize,
    Stmt,
    TensorLoad,
    Var,
    structural_equal,
    structural_walk,
    tirx,
)

LOOPS = (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL, tirx.ForKind.UNROLLED, tirx.ForKind.VECTORIZED)
"""Kinds of loops whose iterations may run in order."""
Positions = dict[Var, int | None]
"""The positions of the variables of axes; None for variables that are 0."""
Term = tuple[int, int]
"""The position of an axis, and its coefficient."""


@dataclass(frozen=True)
class AffineIndex:
    """An index that linalg's maps can express: a sum of axes times coefficients, and a constant."""

    terms: tuple[Term, ...]
    offset: int = 0

    @property
    def is_axis(self) -> bool:
        return self.offset == 0 and len(self.terms) == 1 and self.terms[0][1] == 1


@dataclass
class GenericNest:
    """A block that becomes one `linalg.generic`."""

    block: SBlock
    statements: list[Stmt]
    axes: list[tirx.IterVar]
    outputs: dict[Buffer, tuple[AffineIndex, ...]] = field(default_factory=dict)
    """The buffers that it writes, in order of their stores, with the indices."""
    updated: set[Buffer] = field(default_factory=set)
    """Outputs whose elements it reads before it writes them."""
    single: tuple[Var, ...] = ()
    """Variables of further axes of extent 1 that index no output: they are 0."""

    @property
    def positions(self) -> Positions:
        return {axis.var: position for position, axis in enumerate(self.axes)} | dict.fromkeys(self.single)

    def is_reduction(self, position: int) -> bool:
        return int(self.axes[position].iter_type) == tirx.IterVar.CommReduce

    @property
    def reductions(self) -> list[int]:
        return [position for position in range(len(self.axes)) if self.is_reduction(position)]


def nest_of(statement: Stmt, analyzer: Analyzer) -> GenericNest | None:
    """Return the nest of a statement; None where it is not structured."""
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
    if not _binds_loops_to_axes(loops, axes, inner.iter_values) or (block.init is None) == any(map(_is_reduced, axes)):
        return None
    statements = statements_of(block.body)
    if not all(isinstance(statement, (tirx.BufferStore, tirx.Bind)) for statement in statements):
        return None
    stored = _store_indices(statements, block.alloc_buffers)
    single = [
        axis for axis in axes if not _is_reduced(axis) and _is_number(axis.dom.extent, 1) and axis.var not in stored
    ]
    loop_axes = [axis for axis in axes if axis not in single]
    nest = GenericNest(block, statements, loop_axes, single=tuple(axis.var for axis in single))
    return nest if _has_clear_outputs(nest, analyzer) else None


def _store_indices(statements: list[Stmt], scratch: Sequence[Buffer]) -> set[Var]:
    stores = [
        statement
        for statement in statements
        if isinstance(statement, tirx.BufferStore) and statement.buffer not in scratch
    ]
    return {index for store in stores for index in store.indices if isinstance(index, tirx.Var)}


def statements_of(statement: Stmt) -> list[Stmt]:
    """Return the statements of nested sequences."""
    if isinstance(statement, tirx.SeqStmt):
        return [inner for part in statement.seq for inner in statements_of(part)]
    return [statement]


def affine_index_of(index: Expr, positions: Positions) -> AffineIndex | None:
    """Return the index as an affine sum without negative coefficients; None for any other index."""
    linear = _linear(index, positions)
    if linear is None:
        return None
    terms, offset = linear
    if offset < 0 or any(factor < 0 for factor in terms.values()):
        return None
    return AffineIndex(tuple(sorted((position, factor) for position, factor in terms.items() if factor)), offset)


def loads_in(statements: list[Stmt]) -> list[TensorLoad]:
    """Return all loads of the statements, in order."""
    loads: list[TensorLoad] = []
    for statement in statements:
        structural_walk(statement.value, (TensorLoad, loads.append), order="pre")
    return loads


def _is_number(expression: Expr, value: int) -> bool:
    if isinstance(expression, bool):
        return expression == bool(value)
    return isinstance(expression, tirx.IntImm) and int(expression.value) == value


def _is_reduced(axis: tirx.IterVar) -> bool:
    return int(axis.iter_type) == tirx.IterVar.CommReduce


def _binds_loops_to_axes(loops: dict[Var, Expr], axes: list[tirx.IterVar], values: Sequence[Expr]) -> bool:
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
    return len(used) == len(set(used)) and all(variable in used or _is_number(loops[variable], 1) for variable in loops)


def _has_clear_outputs(nest: GenericNest, analyzer: Analyzer) -> bool:
    """Record the outputs; False unless each iteration writes its own elements and reads no others of the outputs."""
    scratch = set(nest.block.alloc_buffers)
    for store in (statement for statement in nest.statements if isinstance(statement, tirx.BufferStore)):
        if store.buffer in scratch:
            continue
        if store.buffer in nest.outputs or (indices := _output_indices(nest, store, analyzer)) is None:
            return False
        nest.outputs[store.buffer] = indices
    inits = (
        {store.buffer for store in statements_of(nest.block.init)} if nest.block.init is not None else set(nest.outputs)
    )
    return bool(nest.outputs) and inits == set(nest.outputs) and _reads_own_elements_only(nest)


def _output_indices(nest: GenericNest, store: tirx.BufferStore, analyzer: Analyzer) -> tuple[AffineIndex, ...] | None:
    indices = []
    for index, size in zip(store.indices, store.buffer.shape, strict=True):
        affine = affine_index_of(index, nest.positions)
        if affine is None or not (affine.is_axis or (not affine.terms and _is_number(size, 1))):
            return None
        if affine.is_axis and not analyzer.can_prove_equal(nest.axes[affine.terms[0][0]].dom.extent, size):
            return None
        indices.append(affine)
    indexed = [affine.terms[0][0] for affine in indices if affine.terms]
    needed = {
        position
        for position, axis in enumerate(nest.axes)
        if not nest.is_reduction(position) and not _is_number(axis.dom.extent, 1)
    }
    is_clear = len(indexed) == len(set(indexed)) and needed <= set(indexed) and not set(indexed) & set(nest.reductions)
    return tuple(indices) if is_clear else None


def _reads_own_elements_only(nest: GenericNest) -> bool:
    """Record the updated outputs; False if one is read at another index than written, or after the store."""
    written: set[Buffer] = set()
    for statement in nest.statements:
        for load in loads_in([statement]):
            if load.source not in nest.outputs:
                continue
            indices = tuple(affine_index_of(index, nest.positions) for index in load.indices)
            if indices != nest.outputs[load.source] or load.source in written:
                return False
            nest.updated.add(load.source)
        if isinstance(statement, tirx.BufferStore):
            written.add(statement.buffer)
    inits = statements_of(nest.block.init) if nest.block.init is not None else []
    reads_outputs = any(load.source in nest.outputs for load in loads_in(inits))
    return not reads_outputs and (not nest.reductions or nest.updated == set(nest.outputs))


def _linear(index: Expr, positions: Positions) -> tuple[dict[int, int], int] | None:
    if isinstance(index, tirx.IntImm):
        return {}, int(index.value)
    if isinstance(index, tirx.Var):
        if index not in positions:
            return None
        position = positions[index]
        return ({}, 0) if position is None else ({position: 1}, 0)
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
    return {position: coefficient * factor for position, coefficient in x[0].items()}, x[1] * factor


def _sum(x: tuple[dict[int, int], int], y: tuple[dict[int, int], int]) -> tuple[dict[int, int], int]:
    terms = dict(x[0])
    for position, factor in y[0].items():
        terms[position] = terms.get(position, 0) + factor
    return terms, x[1] + y[1]


def bind_axes(nest: GenericNest, analyzer: Analyzer) -> None:
    """Bind the ranges of the axes in the analyzer."""
    for axis in nest.axes:
        analyzer.bind(axis.var, Range(axis.dom.min, axis.dom.extent), True)
