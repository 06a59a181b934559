"""Images of convolutions that are padded where they are read, and the padded copy of one channel of a chunk of rows.

A padded operand is ``if_then_else(0 <= h and h < 56 and …, x[n, c, h, w], 0)``, perhaps converted to fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.lowering.tir.contraction import Axis, Values
from mlirtri.lowering.tir.linear_forms import Linear, linear
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.tiles import for_loop, in_vectors, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    Var,
    structural_equal,
    structural_map,
    tirx,
)


@dataclass(frozen=True)
class Padded:
    """An element of a tensor that is padded with a constant."""

    load: TensorLoad
    """The element, where the indices are inside of the tensor."""
    value: Expr
    """The constant."""
    guarded: frozenset[int]
    """The dimensions that are padded."""
    operand: Expr
    """The element as the contraction uses it, perhaps in a wider dtype."""

    @property
    def dtype(self) -> str:
        return str(self.operand.ty.dtype)

    def padding(self) -> Expr:
        """Return the constant in the dtype of the operand."""
        return tirx.const(self.value.value, self.dtype)

    def element(self, indices: Sequence[Expr]) -> Expr:
        """Return the tensor's element at some indices, in the dtype of the operand."""
        return with_core(self.operand, tirx.BufferLoad(self.load.source, indices))


def core_of(operand: Expr) -> Expr:
    """Return the fp16 or bf16 expression that an operand widens to fp32; any other operand itself."""
    core = operand
    while (inner := _converted(core)) is not None:
        core = inner
    is_wider = str(operand.ty.dtype) == "float32" and str(core.ty.dtype) in ("float16", "bfloat16")
    return core if is_wider else operand


def _converted(value: Expr) -> Expr | None:
    """Return the operand of a conversion, else None; bf16 bits are the upper half of an fp32's."""
    if isinstance(value, tirx.Cast):
        return value.value
    if isinstance(value, tirx.LShift):
        return value.a
    return value.args[0] if _is_call(value, "reinterpret") else None


def with_core(operand: Expr, core: Expr) -> Expr:
    """Return the operand with `core` in place of the result of `core_of`."""
    if operand.same_as(core_of(operand)):
        return core
    return structural_map(operand, (type(core_of(operand)), _exchanged(core_of(operand), core)), order="post")


def _exchanged(old: Expr, new: Expr) -> Callable[[Expr], Expr]:
    return lambda node: new if structural_equal(node, old) else node


def _is_call(node: Node, name: str) -> bool:
    return str(getattr(getattr(node, "op", None), "name", "")).endswith(f".{name}")


def without_padding(load: Expr) -> Padded:
    """Return a load, perhaps widened, as a `Padded` tensor without padding."""
    return Padded(core_of(load), tirx.const(0, str(core_of(load).ty.dtype)), frozenset(), load)


def padded(operand: Expr) -> Padded | None:
    """Return the operand as a padded tensor; None where its condition is no plain bounds check."""
    chosen = core_of(operand)
    if not _is_call(chosen, "if_then_else"):
        return None
    condition, load, value = chosen.args
    if not isinstance(load, TensorLoad) or not isinstance(value, tirx.FloatImm | tirx.IntImm):
        return None
    if not chosen.same_as(operand) and value.value != 0:  # the conversions are not evaluated here
        return None
    forms = [linear(position, {}) for position in load.indices]
    sizes = [size.value if isinstance(size, tirx.IntImm) else None for size in load.source.ty.shape]
    dimensions = [_dimension_inside(comparison, forms, sizes) for comparison in _conditions(condition)]
    guarded = frozenset(dimension for dimension in dimensions if dimension is not None)
    return None if None in dimensions else Padded(load, value, guarded, operand)


def linear_indices(load: TensorLoad) -> list[Linear] | None:
    """Return the indices of a load as linear forms; None where one has none."""
    forms = [linear(position, {}) for position in load.indices]
    return None if None in forms else [form for form in forms if form is not None]


def _conditions(condition: Expr) -> list[Expr]:
    if isinstance(condition, tirx.And):
        return _conditions(condition.a) + _conditions(condition.b)
    return [condition]


def _dimension_inside(condition: Expr, forms: Sequence[Linear | None], sizes: Sequence[int | None]) -> int | None:
    """Return the dimension whose index a comparison bounds by 0 or by its size; None for any other condition."""
    sides = (condition.a, condition.b) if isinstance(condition, tirx.GE | tirx.LT) else None
    if isinstance(condition, tirx.LE | tirx.GT):
        sides = (condition.b, condition.a)
    left, right = (linear(side, {}) for side in sides or (None, None))
    if left is None or right is None:
        return None
    is_lower = isinstance(condition, tirx.GE | tirx.LE)
    for dimension, (form, size) in enumerate(zip(forms, sizes, strict=True)):
        limit = 0 if is_lower else size
        if form is not None and limit is not None and form.plus(-limit) == left - right:
            return dimension
    return None


@dataclass(frozen=True)
class PaddedChannel:
    """The rows and columns of one image channel, with padding, that some rows of the result read."""

    padded: Padded
    row: int | None
    """The image's dimension of rows; None where it has columns only."""
    forms: tuple[Linear, Linear]
    """The image's row and column, as sums of axes of the result and of the window."""
    outer: Axis | None
    """The axis of the result's rows."""
    height: int
    width: int

    def buffer(self) -> Buffer:
        return temporary("padded", self.padded.dtype, [self.height, self.width])

    def load(self, buffer: Buffer) -> Expr:
        """Return the load that replaces the operand; rows of the result count from the chunk's first."""
        return tirx.BufferLoad(buffer, [value_of(Linear(form.terms)) for form in self.forms])

    def cleared(self, buffer: Buffer, lanes: int) -> Stmt:
        """Return the statements that store the padding everywhere: its positions are the same for all channels."""

        def line(row: Expr) -> Stmt:
            return in_vectors(
                self.width, lanes, lambda column: tirx.BufferStore(buffer, self.padded.padding(), [row, column])
            )

        return for_loop("line", self.height, line)

    def filled(self, buffer: Buffer, values: Values, first_row: Expr, lanes: int) -> Stmt:
        """Return the copy of the rows of one channel that are inside of the image, for a chunk from `first_row` on.

        `values` stand for the axes of images, groups and channels.
        """
        load = self.padded.load
        shape, padding = load.source.ty.shape, -self.forms[1].constant
        start = max(0, padding)
        count = min(int(shape[-1]) + padding, self.width) - start
        if count <= 0:
            return tirx.Evaluate(index(0))
        row_form = self.forms[0]
        first = index(row_form.constant)
        if self.outer is not None:
            first = plus(first_row * index(row_form.factor(self.outer.variable)), first)

        def line(row: Expr) -> Stmt:
            indices = [replaced(position, values) for position in load.indices]
            image_row = plus(first, row)
            if self.row is not None:
                indices[self.row] = image_row

            def element(column: Expr) -> Stmt:
                source = [*indices[:-1], plus(column, index(start - padding))]
                return tirx.BufferStore(buffer, self.padded.element(source), [row, plus(column, index(start))])

            copied = in_vectors(count, lanes, element)
            if self.row not in self.padded.guarded:
                return copied
            is_inside = tirx.And(tirx.GE(image_row, index(0)), tirx.LT(image_row, shape[self.row]))
            return tirx.IfThenElse(is_inside, copied, None)

        return for_loop("line", self.height, line)


def padded_channel(operand: Expr, columns: Sequence[Axis], reduced: Sequence[Axis], rows: int) -> PaddedChannel | None:
    """Return the part of one channel that `rows` rows of the result read.

    `columns` are the result's rows, if it has any, and its columns; `reduced` the channels, then the window. None where
    the operand is not padded, or a chunk of rows does not read one block of a channel.
    """
    image = padded(operand)
    *outer, inner = columns
    if image is None or len(outer) > 1:
        return None
    window = {axis.variable: axis for axis in reduced[1:]}
    forms = linear_indices(image.load)
    if forms is None:
        return None
    moving = [axis.variable for axis in (*columns, *window.values())]
    dimensions = [
        dimension for dimension, form in enumerate(forms) if any(form.factor(variable) for variable in moving)
    ]
    last = len(forms) - 1
    if not dimensions or dimensions[-1] != last or len(dimensions) > 2 or not image.guarded <= set(dimensions):
        return None
    row = dimensions[0] if len(dimensions) == 2 else None
    both = (forms[row] if row is not None else Linear(), forms[last])
    across = {axis.variable: axis for axis in outer}
    if not _is_sum(both[0], {**across, **window}) or not _is_sum(both[1], {inner.variable: inner, **window}):
        return None
    if row is None and outer:
        return None
    height = _reach(both[0], {**across, **window}, {axis.variable: rows for axis in outer})
    width = _reach(both[1], {inner.variable: inner, **window}, {})
    return PaddedChannel(image, row, both, outer[0] if outer else None, height, width)


def _is_sum(form: Linear, axes: dict[Var, Axis]) -> bool:
    return all(variable in axes and factor > 0 for variable, factor in form.terms.items())


def _reach(form: Linear, axes: dict[Var, Axis], extents: dict[Var, int]) -> int:
    """Return the number of integers from the smallest to the largest value of a sum of axes."""
    terms = form.terms.items()
    return 1 + sum(factor * (extents.get(variable, axes[variable].extent) - 1) for variable, factor in terms)


def value_of(form: Linear, values: Values | None = None) -> Expr:
    """Return a linear form as an expression, with `values` in place of some of its variables."""
    result: Expr = index(form.constant)
    for variable, factor in form.terms.items():
        value = (values or {}).get(variable, variable)
        result = plus(result, value if factor == 1 else value * index(factor))
    return result
