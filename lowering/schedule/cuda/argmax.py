"""The CUDA rule for reductions with several results, such as argmax: all threads of a block reduce together.

Takes a PrimFunc of one reduction whose results are each either kept or replaced by the term: one term is an element,
another its index. Any order of terms is then right. Gives a function that we write ourselves, or None for any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cuda.phases import Phases, Place, Thread, own, shape_for, stored_together
from mlirtri.lowering.tir.blocks import BlockFacts, leaf_blocks
from mlirtri.lowering.tir.statements import delinearized, index
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import (
    PrimFunc,
    SBlock,
    SBlockRealize,
    Schedule,
    TensorLoad,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)


@dataclass(frozen=True)
class Choice:
    """A reduction by selection, such as argmax."""

    targets: tuple[Any, ...]
    places: tuple[Any, ...]
    """Indices of the results, the same for all."""
    starts: tuple[Any, ...]
    statements: tuple[Any, ...]
    """Stores of scratch elements, and of the updated results."""
    values: tuple[Any, ...]
    """The updated results, in one expression each."""
    scratch: tuple[Any, ...]
    terms: tuple[Any, ...]
    """For each result, its value if the new term is selected."""
    kept: tuple[Any, ...]
    """The axes of the results, and of the reduction: variables with their extents."""
    reduced: tuple[Any, ...]


def argmax(function: PrimFunc, _target: Target) -> Schedule | None:
    """Return a schedule with a block of threads per result; None for any other function."""
    schedule = Schedule(function)
    blocks = leaf_blocks(schedule)
    if len(blocks) != 1 or len(blocks[0].axes("R")) == 0:
        return None
    choice = _choice(blocks[0], schedule.get(blocks[0].handle))
    return None if choice is None else Schedule(_written(function, choice))


def _choice(facts: BlockFacts, block: Any) -> Choice | None:
    statements = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else [block.body]
    starts = list(block.init.seq) if isinstance(block.init, tirx.SeqStmt) else [block.init]
    scratch = list(block.alloc_buffers)
    if not all(isinstance(each, tirx.BufferStore) for each in (*statements, *starts)):
        return None
    values = _values(statements, scratch)
    stores = [each for each in statements if not _is_any(each.buffer, scratch)]
    targets = tuple(each.buffer for each in stores)
    # A single result is for `rows.py`, or a window's, which one thread reduces faster.
    if len(stores) < 2 or len(starts) != len(stores):
        return None
    pairs = zip(starts, stores, strict=True)
    if not all(start.buffer.same_as(each.buffer) and _are_same_places(each, stores[0]) for start, each in pairs):
        return None
    terms = [_term(value, target, targets) for value, target in zip(values, targets, strict=True)]
    axes = [(axis.var, int(axis.dom.extent)) for axis in block.iter_vars]
    kept = tuple(axes[at] for at in facts.axes("S"))
    reduced = tuple(axes[at] for at in facts.axes("R"))
    choice = Choice(
        targets, tuple(stores[0].indices), tuple(each.value for each in starts), tuple(statements), tuple(values),
        tuple(scratch), tuple(terms), kept, reduced,
    )  # fmt: skip
    return choice if None not in terms and _is_of_terms(choice) else None


def _are_same_places(store: Any, other: Any) -> bool:
    return structural_equal(list(store.indices), list(other.indices))


def _values(statements: Sequence[Any], scratch: Sequence[Any]) -> list[Any]:
    """Return the value of each result, with scratch elements replaced by the values that they hold."""
    held: dict[Any, Any] = {}
    values = []
    for each in statements:
        value = structural_map(each.value, (TensorLoad, lambda node: held.get(node.source, node)), order="post")
        if _is_any(each.buffer, scratch):
            held[each.buffer] = value
        else:
            values.append(value)
    return values


def _is_any(buffer: Any, buffers: Sequence[Any]) -> bool:
    return any(buffer.same_as(each) for each in buffers)


def _term(value: Any, target: Any, targets: Sequence[Any]) -> Any:
    """Return the value selected in place of the result so far; None for values that are computed, not selected."""
    leaves: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Select):
            visit(node.true_value)
            visit(node.false_value)
        elif not (isinstance(node, TensorLoad) and node.source.same_as(target)):
            leaves.append(node)

    visit(value)
    is_one = bool(leaves) and all(structural_equal(each, leaves[0]) for each in leaves)
    return leaves[0] if is_one and not _reads_any(leaves[0], targets) else None


def _reads_any(value: Any, buffers: Sequence[Any]) -> bool:
    loads: list[Any] = []
    structural_walk(value, (TensorLoad, loads.append))
    return any(_is_any(each.source, buffers) for each in loads)


def _is_of_terms(choice: Choice) -> bool:
    """Return whether results depend on the element through the terms only, so that partial results combine."""
    names = [tirx.Var("term", term.ty) for term in choice.terms]
    variables = [variable for variable, _ in choice.reduced]
    found: list[Any] = []

    def note(node: Any) -> None:
        if any(node.same_as(variable) for variable in variables):
            found.append(node)

    for value in choice.values:
        structural_walk(_with_terms(value, choice, names), (tirx.Var, note))
    return not found


def _with_terms(value: Any, choice: Choice, names: Sequence[Any]) -> Any:
    """Return a value with other expressions in place of the terms."""
    pairs = sorted(zip(choice.terms, names, strict=True), key=lambda pair: isinstance(pair[0], tirx.Var))
    # Variables last: other terms are matched by them.
    for term, name in pairs:

        def visit(node: Any, term: Any = term, name: Any = name) -> Any:
            return name if structural_equal(node, term) else node

        value = structural_map(value, (type(term), visit), order="post")
    return value


def _written(function: PrimFunc, choice: Choice) -> PrimFunc:
    count, length = (prod(extent for _, extent in axes) for axes in (choice.kept, choice.reduced))
    writer = _Writer(choice, Phases(shape_for(_runs_along_memory(choice), count, length), count), length)
    root = SBlockRealize([], True, SBlock([], [], [], "root", writer.written()))
    return PrimFunc(list(function.params), root, function.ret_type, function.attrs)


def _runs_along_memory(choice: Choice) -> bool:
    loads: list[Any] = []
    for term in choice.terms:
        structural_walk(term, (TensorLoad, loads.append))
    last = [each.indices[-1] for each in loads if each.indices]
    return any(each.same_as(variable) for each in last for variable, _ in choice.reduced)


class _Writer:
    def __init__(self, choice: Choice, phases: Phases, length: int):
        self.choice, self.phases, self.length = choice, phases, length
        lanes = phases.shape.lanes
        self.partial = [phases.shared(f"{each.name}_partial", str(each.dtype), lanes) for each in choice.targets]

    def written(self) -> Any:
        self.phases.phase(self._gathered)
        self.partial = self.phases.combine(self.partial, self._combined)
        self.phases.phase(self._results, 1)
        return self.phases.kernel()

    def _gathered(self, thread: Thread) -> list[Any]:
        """Return the statements by which each thread reduces its elements of the row."""
        registers = [own(f"{each.name}_own", str(each.dtype)) for each in self.choice.targets]
        at = [(each, [index(0)]) for each in registers]
        row = _spread(self.choice.kept, thread.row)

        def element(position: Any) -> list[Any]:
            point = {**row, **_spread(self.choice.reduced, position)}
            terms = [structural_map(each, (tirx.Var, lambda node: point.get(node, node))) for each in self.choice.terms]
            names = [tirx.Var("term", each.ty) for each in terms]
            binds = [tirx.Bind(name, term) for name, term in zip(names, terms, strict=True)]
            made, values = self._chosen(at, names)
            return [*binds, *made, *stored_together(at, values)]

        left = [(each, [thread.within, thread.lane]) for each in self.partial]
        return [
            *(tirx.AllocBuffer(each) for each in registers),
            *(stored(*place, start) for place, start in zip(at, self.choice.starts, strict=True)),
            self.phases.side_by_side(thread, self.length, element),
            *(stored(*place, tirx.BufferLoad(*mine)) for place, mine in zip(left, at, strict=True)),
        ]

    def _combined(self, mine: list[Place], other: list[Place]) -> tuple[list[Any], list[Any]]:
        pairs = zip(other, self.choice.targets, strict=True)
        return self._chosen(mine, [loaded(*place, target.dtype) for place, target in pairs])

    def _chosen(self, so_far: list[Place], terms: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the results after one more term, and the statements that compute them."""
        registers = {each: own(each.name, str(each.dtype)) for each in self.choice.scratch}
        places = dict(zip(self.choice.targets, so_far, strict=True))

        def read(node: Any) -> Any:
            if node.source in registers:
                return loaded(registers[node.source], [index(0)], node.source.dtype)
            return loaded(*places[node.source], node.source.dtype) if node.source in places else node

        made: list[Any] = [tirx.AllocBuffer(each) for each in registers.values()]
        values = []
        for each in self.choice.statements:
            value = structural_map(_with_terms(each.value, self.choice, terms), (TensorLoad, read), order="post")
            if each.buffer in registers:
                made.append(stored(registers[each.buffer], [index(0)], value))
            else:
                values.append(value)
        return made, values

    def _results(self, thread: Thread) -> list[Any]:
        point = _spread(self.choice.kept, thread.row)
        places = [structural_map(each, (tirx.Var, lambda node: point.get(node, node))) for each in self.choice.places]
        return [
            stored(target, places, loaded(each, [thread.within, index(0)], target.dtype))
            for target, each in zip(self.choice.targets, self.partial, strict=True)
        ]


def _spread(axes: Sequence[tuple[Any, int]], position: Any) -> dict[Any, Any]:
    """Return the axes' values at a position among all of them, in row-major order."""
    values = delinearized(position, [extent for _, extent in axes])
    return {variable: value for (variable, _), value in zip(axes, values, strict=True)}
