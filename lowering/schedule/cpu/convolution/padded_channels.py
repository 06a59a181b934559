"""The padded copy of one channel of an image, of the rows that a chunk of a convolution's rows reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri.lowering.tir.contraction import Axis, Values
from mlirtri.lowering.tir.linear_forms import Linear
from mlirtri.lowering.tir.padded_images import Padded, linear_indices, padded
from mlirtri.lowering.tir.statements import index, plus
from mlirtri.lowering.tir.tiles import for_loop, in_vectors, replaced, temporary
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, Var, tirx


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
