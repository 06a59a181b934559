"""Statement rules of scf: loops, branches and their loop-carried values.

Loop-carried values and results of branches are scalar buffers, which LLVM promotes to registers. They are stored at the
end of an iteration or arm, all values before any store. A `while` whose condition is one expression stays one.
Otherwise the statements before the condition run inside the loop, which a flag ends:

    goes = True; while goes: <before>; goes = condition; if goes: <after>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.dialect.bindings.locations import name_of, span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.loops.addresses import ANY, LARGEST_COUNT
from mlirtri.lowering.bridge.loops.function_translation import LoopTranslation, rule
from mlirtri.lowering.bridge.loops.memory import is_number, product
from mlirtri.lowering.bridge.loops.values import Meaning, Scalar, ScalarBuffer, part_dtypes
from mlirtri.lowering.bridge.scalar.scalar_rules import literal
from mlirtri.lowering.core.stage import BLOCKS, DECLARED, NARROWED_SUM, STAGES, TRIPS
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.tir.statements import index, plus, sequence
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, LOCATION, Analyzer, tirx
from mlirtri.lowering.toolchain.tvm_names import ir as tvm_ir


class Carried:
    """The scalar buffers of loop-carried values, or of the results of a branch."""

    def __init__(self, translation: LoopTranslation, values: Sequence[ir.Value], name_hints: Sequence[str]):
        self.translation = translation
        self.buffers: list[list[ScalarBuffer]] = []
        for value, name_hint in zip(values, name_hints, strict=True):
            self.buffers.append(
                [translation.values.scalar_buffer(dtype, name_hint) for dtype in part_dtypes(value.type)]
            )

    def assign(self, values: Sequence[ir.Value]) -> None:
        """Store these values, all of them evaluated before the first store."""
        buffers = [buffer for buffers in self.buffers for buffer in buffers]
        parts = [part for value in values for part in self.translation.values.parts(value)]
        self.translation.values.name_all()
        self.translation.values.assign(buffers, parts)

    def meaning(self, position: int) -> Meaning:
        scalars = tuple(buffer.scalar for buffer in self.buffers[position])
        return scalars[0] if len(scalars) == 1 else scalars

    def define(self, values: Sequence[ir.Value]) -> None:
        """Record that these SSA values are the contents of the buffers."""
        for position, value in enumerate(values):
            self.translation.values.set(value, self.meaning(position))


@rule("scf.for")
def _for(translation: LoopTranslation, operation: ir.Operation) -> None:
    lower, upper, step, *initial = operation.operands
    block = operation.regions[0].blocks[0]
    counter, *arguments = block.arguments
    loop = _Loop(translation, counter, lower, upper, step)
    translation.values.name_all()
    carried = Carried(translation, arguments, _names(operation, arguments, block))
    carried.assign(initial)
    carried.define(arguments)
    with translation.values.nested() as body:
        loop.define_counter(translation)
        end = translation.translate(block)
        carried.assign(end.operands)
    marks = ((NARROWED_SUM, NARROWED_SUM), (BLOCKS, BLOCKS), (DECLARED, DECLARED_PARALLEL))
    notes = {note: 1 for note, attribute in marks if attribute in operation.attributes}
    notes |= {name: operation.attributes[name].value for name in (STAGES, TRIPS) if name in operation.attributes}
    translation.values.statements.append(loop.around(sequence(*body), {**notes, **_notes(operation)}))
    carried.define(operation.results)


@rule("scf.parallel")
def _parallel(translation: LoopTranslation, operation: ir.Operation) -> None:
    block = operation.regions[0].blocks[0]
    count = len(block.arguments)
    bounds, initial = operation.operands[: 3 * count], list(operation.operands)[3 * count :]
    loops = [
        _Loop(translation, block.arguments[axis], bounds[axis], bounds[count + axis], bounds[2 * count + axis])
        for axis in range(count)
    ]
    translation.values.name_all()
    carried = Carried(translation, operation.results, _names(operation, operation.results))
    carried.assign(initial)
    with translation.values.nested() as body:
        for loop in loops:
            loop.define_counter(translation)
        _combine(translation, translation.translate(block), carried)
    # A reduction over iterations is not independent.
    notes = _notes(operation) if initial else {INDEPENDENT: 1, **_notes(operation)}
    nest = sequence(*body)
    for loop in reversed(loops):
        nest = loop.around(nest, notes)
    translation.values.statements.append(nest)
    carried.define(operation.results)


def _combine(translation: LoopTranslation, end: ir.Operation, carried: Carried) -> None:
    """Emit the reductions of a parallel loop: each region combines the accumulator with one operand."""
    values = list(end.operands)
    for position, region in enumerate(end.regions):
        so_far, more = region.blocks[0].arguments
        translation.values.set(so_far, carried.meaning(position))
        translation.values.set(more, translation.values.meaning(values[position]))
        values[position] = translation.translate(region.blocks[0]).operands[0]
    carried.assign(values)


@rule("scf.if")
def _if(translation: LoopTranslation, operation: ir.Operation) -> None:
    values = translation.values
    condition = values.get(operation.operands[0]).expression
    values.name_all()
    ends = operation.regions[0].blocks[0]
    carried = Carried(translation, operation.results, _names(operation, operation.results, ends))
    arms = []
    for region in operation.regions:
        with values.nested() as arm:
            for block in region.blocks:
                carried.assign(translation.translate(block).operands)
        arms.append(arm)
    then, otherwise = arms
    if then or otherwise:
        other = sequence(*otherwise) if otherwise else None
        values.statements.append(tirx.IfThenElse(condition, sequence(*then), other))
    carried.define(operation.results)


@rule("scf.while")
def _while(translation: LoopTranslation, operation: ir.Operation) -> None:
    values = translation.values
    before, after = (region.blocks[0] for region in operation.regions)
    state = Carried(translation, before.arguments, _names(operation, before.arguments, after))
    state.assign(operation.operands)
    state.define(before.arguments)
    with values.nested() as prologue:
        condition, *forwarded = translation.translate(before).operands
        ends = values.get(condition)
    # A loop-carried value that the condition region forwards unchanged keeps its buffer.
    others = [value for value in forwarded if value not in set(before.arguments)]
    if prologue or others:
        kept_buffers = Carried(translation, others, _names(operation, others))
        goes = values.scalar_buffer("bool", "goes")
        values.statements.append(goes.store(Scalar(literal(True, "bool"))))
        with values.nested() as body:
            body += prologue
            ends = ends if ends.is_free else values.name(ends, "condition")
            kept_buffers.assign(others)
            values.statements.append(goes.store(ends))
            kept_buffers.define(others)
            _forward(translation, forwarded, after.arguments)
            with values.nested() as continued:
                state.assign(translation.translate(after).operands)
            values.statements.append(tirx.IfThenElse(goes.scalar.expression, sequence(*continued), None))
        condition = goes.scalar
    else:
        _forward(translation, forwarded, after.arguments)
        with values.nested() as body:
            state.assign(translation.translate(after).operands)
        condition = ends
    values.statements.append(_while_loop(operation, condition.expression, body))
    _forward(translation, forwarded, operation.results)


def _forward(translation: LoopTranslation, forwarded: Sequence[ir.Value], values: Sequence[ir.Value]) -> None:
    """Record that `values` are the contents of the buffers that `forwarded` were stored in."""
    for value, source in zip(values, forwarded, strict=True):
        translation.values.set(value, translation.values.meaning(source))


def _while_loop(operation: ir.Operation, condition: Any, body: list[Any]) -> Any:
    """Build a While whose body has its source line; TVM frees buffers allocated in it there, else after the loop."""
    line = tvm_ir.StringImm(_notes(operation).get(LOCATION, ""))
    return tirx.While(condition, tirx.AttrStmt(index(0), LOCATION, line, sequence(*body)))


class _Loop:
    """One counted loop: its bounds, evaluated before it, and its counter.

    The TIR loop starts at 0: TVM's passes normalise loops so, and then forget the bounds of inner loops.
    """

    def __init__(
        self, translation: LoopTranslation, counter: ir.Value, lower: ir.Value, upper: ir.Value, step: ir.Value
    ):
        values = translation.values
        self.counter = counter
        self.variable = tirx.Var(values.names.unique(name_of(counter.location) or "i"), "int64")
        self.lower, self.upper, self.step = (
            values.pinned(value, name_hint) for value, name_hint in ((lower, "start"), (upper, "stop"), (step, "step"))
        )
        extent = self.upper.expression - self.lower.expression
        if not is_number(self.step.expression, 1):
            extent = tirx.FloorDiv(extent + (self.step.expression - index(1)), self.step.expression)
        # The form that TVMScript's parser produces.
        self.extent = Analyzer().simplify(extent)

    def define_counter(self, translation: LoopTranslation) -> None:
        lower, step = self.lower, self.step
        steps = product(self.variable, step.expression)
        low, high = lower.bounds or ANY
        last = min(high + (step.bounds or ANY)[1] * LARGEST_COUNT, (self.upper.bounds or ANY)[1] - 1)
        size = 1 if is_number(lower.expression, 0) and is_number(step.expression, 1) else 2 + lower.size
        reads = lower.reads | step.reads
        translation.values.set(self.counter, Scalar(plus(lower.expression, steps), reads, size, (low, last)))

    def around(self, body: Any, notes: dict) -> Any:
        return tirx.For(self.variable, index(0), self.extent, tirx.ForKind.SERIAL, body, annotations=notes)


def _names(operation: ir.Operation, values: Sequence[ir.Value], end: ir.Block | None = None) -> list[str]:
    """Return names for the buffers of these values: the user's, from the values or from what `end` yields for them."""
    default = name_of(operation.location) or ("chosen" if operation.name == "scf.if" else "carried")
    yielded = end.operations[len(end.operations) - 1].operands if end is not None else values
    locations = [[_location(value) for value in pair] for pair in zip(values, yielded, strict=True)]
    return [next((name for location in pair if (name := name_of(location))), default) for pair in locations]


def _location(value: ir.Value) -> ir.Location | None:
    if isinstance(value.owner, ir.Block):
        return value.location
    return None if value.owner.name.startswith("scf.") else value.owner.location


def _notes(operation: ir.Operation) -> dict[str, str]:
    span = span_of(operation.location)
    return {LOCATION: str(span)} if span else {}
