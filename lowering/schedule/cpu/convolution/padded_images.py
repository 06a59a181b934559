"""Images of convolutions that are padded where they are read, and the room in which a chunk of rows is padded.

Takes the right operand of a contraction, ``if_then_else(0 <= h and h < 56 and …, x[n, c, h, w], 0)``, perhaps
converted to fp32. Gives where it reads and what it reads outside; and, of operands whose rows and columns are sums of a
result's axes and a window's, the room that holds all that some rows of the result read of one channel. Gives None for
any other operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.tir.contraction import Axis, Values
from mlirtri.lowering.tir.linear_forms import Linear, linear
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.tiles import counted, in_vectors, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, structural_equal, structural_map, tirx


@dataclass(frozen=True)
class Padded:
    """An element of a tensor with a constant around it."""

    load: Any
    value: Any
    """What is around."""
    guarded: frozenset[int]
    """The dimensions along which it is."""
    operand: Any
    """The element as it is used, perhaps in a wider dtype."""

    @property
    def dtype(self) -> str:
        return str(self.operand.ty.dtype)

    def around(self) -> Any:
        """What is around, as it is used."""
        return tirx.const(self.value.value, self.dtype)

    def element(self, indices: Sequence[Any]) -> Any:
        """The tensor's element at some indices, as it is used."""
        return with_core(self.operand, tirx.BufferLoad(self.load.source, indices))


def core_of(operand: Any) -> Any:
    """What an operand is made of: the operand itself, or the half that it widens."""
    core = operand
    while (inner := _converted(core)) is not None:
        core = inner
    is_wider = str(operand.ty.dtype) == "float32" and str(core.ty.dtype) in ("float16", "bfloat16")
    return core if is_wider else operand


def _converted(value: Any) -> Any:
    """What a conversion is of; bf16 is the upper half of an fp32 number."""
    if isinstance(value, tirx.Cast):
        return value.value
    if isinstance(value, tirx.LShift):
        return value.a
    return value.args[0] if _is_call(value, "reinterpret") else None


def with_core(operand: Any, core: Any) -> Any:
    """The operand with something else in place of its core."""
    if operand.same_as(core_of(operand)):
        return core
    return structural_map(operand, (type(core_of(operand)), _exchanged(core_of(operand), core)), order="post")


def _exchanged(old: Any, new: Any) -> Callable[[Any], Any]:
    return lambda node: new if structural_equal(node, old) else node


def _is_call(node: Any, name: str) -> bool:
    return str(getattr(getattr(node, "op", None), "name", "")).endswith(f".{name}")


def without_padding(load: Any) -> Padded:
    """An element of a tensor that is read as a padded one is, without any padding."""
    return Padded(core_of(load), tirx.const(0, str(core_of(load).ty.dtype)), frozenset(), load)


def padded(operand: Any) -> Padded | None:
    """The operand as a padded tensor: one whose conditions say that each index is inside, and nothing else."""
    chosen = core_of(operand)
    if not _is_call(chosen, "if_then_else"):
        return None
    condition, load, value = chosen.args
    if not isinstance(load, TensorLoad) or not isinstance(value, tirx.FloatImm | tirx.IntImm):
        return None
    if not chosen.same_as(operand) and value.value != 0:  # what it is after conversions is not known here
        return None
    forms = [linear(place, {}) for place in load.indices]
    sizes = [size.value if isinstance(size, tirx.IntImm) else None for size in load.source.ty.shape]
    found = [_dimension_inside(each, forms, sizes) for each in _conditions(condition)]
    return None if None in found else Padded(load, value, frozenset(found), operand)


def _conditions(condition: Any) -> list[Any]:
    if isinstance(condition, tirx.And):
        return _conditions(condition.a) + _conditions(condition.b)
    return [condition]


def _dimension_inside(condition: Any, forms: Sequence[Linear | None], sizes: Sequence[int | None]) -> int | None:
    """The dimension that is at least 0, or below its size, where the condition holds."""
    sides = (condition.a, condition.b) if isinstance(condition, tirx.GE | tirx.LT) else None
    if isinstance(condition, tirx.LE | tirx.GT):
        sides = (condition.b, condition.a)
    left, right = (linear(side, {}) for side in sides or (None, None))
    if left is None or right is None:
        return None
    is_lower = isinstance(condition, tirx.GE | tirx.LE)
    for at, (form, size) in enumerate(zip(forms, sizes, strict=True)):
        limit = 0 if is_lower else size
        if form is not None and limit is not None and form.plus(-limit) == left - right:
            return at
    return None


@dataclass(frozen=True)
class Room:
    """What some rows of the result read of one channel: rows and columns of the image, with padding around them."""

    padded: Padded
    row: int | None
    """The image's dimension of rows; None where it has columns only."""
    forms: tuple[Linear, Linear]
    """The image's row and column, as sums of the result's and the window's axes."""
    outer: Axis | None
    """The axis of the result's rows."""
    height: int
    width: int

    def buffer(self) -> Any:
        return temporary("room", self.padded.dtype, [self.height, self.width])

    def load(self, buffer: Any, variables: Sequence[Any]) -> Any:
        """The operand out of the room; the variable of the result's rows counts from the chunk's first one."""
        return tirx.BufferLoad(buffer, [_sum(form, variables) for form in self.forms])

    def cleared(self, buffer: Any, lanes: int) -> Any:
        """Padding everywhere: its places are the same for all channels."""

        def line(at: Any) -> Any:
            return in_vectors(
                self.width, lanes, lambda column: tirx.BufferStore(buffer, self.padded.around(), [at, column])
            )

        return counted("line", self.height, line)

    def filled(self, buffer: Any, values: Values, first_row: Any, lanes: int) -> Any:
        """The rows of one channel that are inside of the image; `values` stand for images, groups and the channel."""
        load = self.padded.load
        shape, before = load.source.ty.shape, -self.forms[1].constant
        start = max(0, before)
        count = min(int(shape[-1]) + before, self.width) - start
        if count <= 0:
            return tirx.Evaluate(index(0))
        row_form = self.forms[0]
        first = index(row_form.constant)
        if self.outer is not None:
            first = plus(first_row * index(row_form.factor(self.outer.variable)), first)

        def line(at: Any) -> Any:
            indices = [replaced(place, values) for place in load.indices]
            image_row = plus(first, at)
            if self.row is not None:
                indices[self.row] = image_row

            def element(column: Any) -> Any:
                place = [*indices[:-1], plus(column, index(start - before))]
                return tirx.BufferStore(buffer, self.padded.element(place), [at, plus(column, index(start))])

            copied = in_vectors(count, lanes, element)
            if self.row not in self.padded.guarded:
                return copied
            inside = tirx.And(tirx.GE(image_row, index(0)), tirx.LT(image_row, shape[self.row]))
            return tirx.IfThenElse(inside, copied, None)

        return counted("line", self.height, line)


def room_of(operand: Any, columns: Sequence[Axis], reduced: Sequence[Axis], rows: int) -> Room | None:
    """The room for so many rows of the result; None where a chunk of rows does not read one piece of a channel."""
    found = padded(operand)
    *outer, inner = columns
    if found is None or len(outer) > 1:
        return None
    window = {axis.variable: axis for axis in reduced[1:]}
    forms = [linear(place, {}) for place in found.load.indices]
    if None in forms:
        return None
    moving = [axis.variable for axis in (*columns, *window.values())]
    places = [at for at, form in enumerate(forms) if any(form.factor(variable) for variable in moving)]
    last = len(forms) - 1
    if not places or places[-1] != last or len(places) > 2 or not found.guarded <= set(places):
        return None
    row = places[0] if len(places) == 2 else None
    both = (forms[row] if row is not None else Linear(), forms[last])
    across = {axis.variable: axis for axis in outer}
    if not _is_sum(both[0], {**across, **window}) or not _is_sum(both[1], {inner.variable: inner, **window}):
        return None
    if row is None and outer:
        return None
    height = _reach(both[0], {**across, **window}, {axis.variable: rows for axis in outer})
    width = _reach(both[1], {inner.variable: inner, **window}, {})
    return Room(found, row, both, outer[0] if outer else None, height, width)


def _is_sum(form: Linear, axes: dict[Any, Axis]) -> bool:
    return all(variable in axes and factor > 0 for variable, factor in form.terms.items())


def _reach(form: Linear, axes: dict[Any, Axis], extents: dict[Any, int]) -> int:
    """How many places such a sum runs over."""
    terms = form.terms.items()
    return 1 + sum(factor * (extents.get(variable, axes[variable].extent) - 1) for variable, factor in terms)


def _sum(form: Linear, variables: Sequence[Any]) -> Any:
    total: Any = index(0)
    for variable in variables:
        if factor := form.factor(variable):
            total = plus(total, variable if factor == 1 else variable * index(factor))
    return total
