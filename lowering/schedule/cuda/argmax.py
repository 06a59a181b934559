"""The CUDA rule for reductions with several results, such as argmax: all threads of a block reduce together.

Each result is either kept or replaced by the term: one term is an element, another its index. Any order of terms is
then right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.common.phases import Phases, Thread, register, shape_for, stored_together
from mlirtri.lowering.schedule.rows.nests import BlockAxis
from mlirtri.lowering.schedule.rows.writer import Element, axis_values
from mlirtri.lowering.tir.blocks import BlockFacts, leaf_blocks
from mlirtri.lowering.tir.primfunc import with_statements
from mlirtri.lowering.tir.statements import depends_on, index, loads_in
from mlirtri.lowering.tir.tiles import replaced
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    PrimFunc,
    Schedule,
    TensorLoad,
    structural_equal,
    structural_map,
    tirx,
)


@dataclass(frozen=True)
class Selection:
    """A reduction by selection, such as argmax."""

    targets: tuple[Any, ...]
    indices: tuple[Any, ...]
    """Indices of the results, the same for all."""
    starts: tuple[Any, ...]
    statements: tuple[Any, ...]
    """Stores of scratch elements, and of the updated results."""
    values: tuple[Any, ...]
    """The updated results, in one expression each."""
    scratch: tuple[Any, ...]
    terms: tuple[Any, ...]
    """For each result, its value if the new term is selected."""
    spatial: tuple[BlockAxis, ...]
    """The axes of the results."""
    reduced: tuple[BlockAxis, ...]


def argmax(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a schedule with a block of threads per result; None for any other function."""
    schedule = Schedule(function)
    blocks = leaf_blocks(schedule)
    if len(blocks) != 1 or len(blocks[0].axes("R")) == 0:
        return None
    selection = _selection_of(blocks[0], schedule.get(blocks[0].handle))
    return None if selection is None else Schedule(_written(function, selection))


def _selection_of(facts: BlockFacts, block: Any) -> Selection | None:
    statements = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]
    starts = list(block.init.seq) if isinstance(block.init, tirx.SeqStmt) else [block.init]
    scratch = list(block.alloc_buffers)
    if not all(isinstance(store, tirx.BufferStore) for store in (*statements, *starts)):
        return None
    values = _values(statements, scratch)
    stores = [store for store in statements if not _is_any(store.buffer, scratch)]
    targets = tuple(store.buffer for store in stores)
    # A single result is for `rows.py`, or a window's, which one thread reduces faster.
    if len(stores) < 2 or len(starts) != len(stores):
        return None
    if not all(start.buffer.same_as(store.buffer) for start, store in zip(starts, stores, strict=True)):
        return None
    if not all(structural_equal(list(store.indices), list(stores[0].indices)) for store in stores):
        return None
    terms = [_term(value, target, targets) for value, target in zip(values, targets, strict=True)]
    axes = [BlockAxis(axis.var, int(axis.dom.extent), False) for axis in block.iter_vars]
    spatial = tuple(axes[number] for number in facts.axes("S"))
    reduced = tuple(axes[number] for number in facts.axes("R"))
    selection = Selection(
        targets, tuple(stores[0].indices), tuple(store.value for store in starts), tuple(statements), tuple(values),
        tuple(scratch), tuple(terms), spatial, reduced,
    )  # fmt: skip
    return selection if None not in terms and _is_of_terms(selection) else None


def _values(statements: Sequence[Any], scratch: Sequence[Any]) -> list[Any]:
    """Return the value of each result, with scratch elements replaced by the values that they hold."""
    contents: dict[Any, Any] = {}
    values = []

    def content(load: TensorLoad) -> Any:
        return contents.get(load.source, load)

    for statement in statements:
        value = structural_map(statement.value, (TensorLoad, content), order="post")
        if _is_any(statement.buffer, scratch):
            contents[statement.buffer] = value
        else:
            values.append(value)
    return values


def _is_any(buffer: Buffer, buffers: Sequence[Any]) -> bool:
    return any(buffer.same_as(other) for other in buffers)


def _term(value: Expr, target: Any, targets: Sequence[Any]) -> Any:
    """Return the value selected in place of the result so far; None for values that are computed, not selected."""
    leaves: list[Any] = []

    def visit(node: Node) -> None:
        if isinstance(node, tirx.Select):
            visit(node.true_value)
            visit(node.false_value)
        elif not (isinstance(node, TensorLoad) and node.source.same_as(target)):
            leaves.append(node)

    visit(value)
    is_one = bool(leaves) and all(structural_equal(leaf, leaves[0]) for leaf in leaves)
    return leaves[0] if is_one and not depends_on(leaves[0], targets) else None


def _is_of_terms(selection: Selection) -> bool:
    """Return whether results depend on the element through the terms only, so that partial results combine."""
    names = [tirx.Var("term", term.ty) for term in selection.terms]
    variables = [axis.variable for axis in selection.reduced]
    return not any(depends_on(_with_terms(value, selection, names), variables) for value in selection.values)


def _with_terms(value: Expr, selection: Selection, names: Sequence[Any]) -> Any:
    pairs = sorted(zip(selection.terms, names, strict=True), key=lambda pair: isinstance(pair[0], tirx.Var))
    # Variables last: other terms are matched by them.
    for term, name in pairs:

        def visit(node: Node, term: Expr = term, name: Any = name) -> Any:
            return name if structural_equal(node, term) else node

        value = structural_map(value, (type(term), visit), order="post")
    return value


def _written(function: PrimFunc, selection: Selection) -> PrimFunc:
    count, length = (prod(axis.extent for axis in axes) for axes in (selection.spatial, selection.reduced))
    writer = _Writer(selection, Phases(shape_for(_runs_along_memory(selection), count, length), count), length)
    return with_statements(function, writer.written())


def _runs_along_memory(selection: Selection) -> bool:
    loads = [load for term in selection.terms for load in loads_in(term) if load.indices]
    return any(load.indices[-1].same_as(axis.variable) for load in loads for axis in selection.reduced)


class _Writer:
    def __init__(self, selection: Selection, phases: Phases, length: int):
        self.selection, self.phases, self.length = selection, phases, length
        lanes = phases.shape.lanes
        self.partial = [phases.shared(f"{b.name}_partial", str(b.dtype), lanes) for b in selection.targets]

    def written(self) -> Any:
        self.phases.phase(self._gathered)
        self.partial = self.phases.combine(self.partial, self._combined)
        self.phases.phase(self._results, 1)
        return self.phases.kernel()

    def _gathered(self, thread: Thread) -> list[Any]:
        registers = [register(f"{buffer.name}_own", str(buffer.dtype)) for buffer in self.selection.targets]
        accumulators = [(buffer, [index(0)]) for buffer in registers]
        row = axis_values(self.selection.spatial, thread.row)

        def element(position: Expr) -> list[Any]:
            point = {**row, **axis_values(self.selection.reduced, position)}
            terms = [replaced(term, point) for term in self.selection.terms]
            names = [tirx.Var("term", term.ty) for term in terms]
            binds = [tirx.Bind(name, term) for name, term in zip(names, terms, strict=True)]
            statements, values = self._chosen(accumulators, names)
            return [*binds, *statements, *stored_together(accumulators, values)]

        shared = [(buffer, [thread.within, thread.lane]) for buffer in self.partial]
        return [
            *(tirx.AllocBuffer(buffer) for buffer in registers),
            *(stored(*target, start) for target, start in zip(accumulators, self.selection.starts, strict=True)),
            self.phases.side_by_side(thread, self.length, element),
            *(stored(*target, tirx.BufferLoad(*mine)) for target, mine in zip(shared, accumulators, strict=True)),
        ]

    def _combined(self, mine: list[Element], other: list[Element]) -> tuple[list[Any], list[Any]]:
        pairs = zip(other, self.selection.targets, strict=True)
        return self._chosen(mine, [loaded(*element, target.dtype) for element, target in pairs])

    def _chosen(self, so_far: list[Element], terms: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the results after one more term, and the statements that compute them."""
        registers = {buffer: register(buffer.name, str(buffer.dtype)) for buffer in self.selection.scratch}
        elements = dict(zip(self.selection.targets, so_far, strict=True))

        def read(node: Node) -> Any:
            if node.source in registers:
                return loaded(registers[node.source], [index(0)], node.source.dtype)
            return loaded(*elements[node.source], node.source.dtype) if node.source in elements else node

        statements: list[Any] = [tirx.AllocBuffer(buffer) for buffer in registers.values()]
        values = []
        for statement in self.selection.statements:
            term_value = _with_terms(statement.value, self.selection, terms)
            value = structural_map(term_value, (TensorLoad, read), order="post")
            if statement.buffer in registers:
                statements.append(stored(registers[statement.buffer], [index(0)], value))
            else:
                values.append(value)
        return statements, values

    def _results(self, thread: Thread) -> list[Any]:
        point = axis_values(self.selection.spatial, thread.row)
        indices = [replaced(position, point) for position in self.selection.indices]
        return [
            stored(target, indices, loaded(partial, [thread.within, index(0)], target.dtype))
            for target, partial in zip(self.selection.targets, self.partial, strict=True)
        ]
