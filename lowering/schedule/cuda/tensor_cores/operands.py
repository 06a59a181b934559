"""Copy an operand of a product on tensor cores from global memory to a block's tile in shared memory.

Copies are asynchronous if neighbours in the tile are neighbours in memory, else element by element, so that any operand
will do: transposed, a convolution's windows, computed. Out-of-bounds elements are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import NARROW, Multiplication, address, copy, put
from mlirtri.lowering.schedule.cuda.common.whole_copies import unguarded
from mlirtri.lowering.tir.bfloat16_storage import BITS, HALF, bits_of
from mlirtri.lowering.tir.contraction import Axis, Values, depends, size_of
from mlirtri.lowering.tir.linear_forms import Linear, linear
from mlirtri.lowering.tir.linear_forms import variable as of_variable
from mlirtri.lowering.tir.statements import index, loads_in
from mlirtri.lowering.tir.tiles import axis_values, for_loop, replaced, sized, zero_of
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Node, Stmt, TensorLoad, Var, ir, tirx

PADDING = 16
"""Padding bytes between lines of a tile, so that eight lines are in different banks."""


@dataclass(frozen=True)
class Operand:
    """An operand: `element` in terms of `batch`, `kept` and `reduced`; a tile has `size` of the kept axes."""

    name: str
    element: Any
    batch: tuple[Axis, ...]
    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    kind: Multiplication
    size: int
    depth: int
    is_global: bool = True
    """Whether it is in global memory, from which asynchronous copies read."""

    @property
    def is_along(self) -> bool:
        """Return whether lines of the tile are along the sum, as integer instructions require."""
        last = self._last_index
        if self.kind.bytes == 1 or last is None:
            return True
        return depends(last, self.reduced[-1:]) and not depends(last, self.kept[-1:])

    @property
    def _lies_across(self) -> bool:
        """Return whether neighbours in memory are in different lines of the tile."""
        last = self._last_index
        return last is not None and self.is_along and depends(last, self.kept[-1:])

    @property
    def lines(self) -> int:
        return self.size if self.is_along else self.depth

    @property
    def length(self) -> int:
        return self.depth if self.is_along else self.size

    @property
    def is_vectorized(self) -> bool:
        return self._width[0] > 1

    @property
    def _width(self) -> tuple[int, Any]:
        """Return the number of elements copied at once: as many as are contiguous and aligned in memory.

        With them the condition under which they are; None if they always are. Else elements are copied one by one.
        """
        axis, (conditions, load) = (self.reduced if self.is_along else self.kept)[-1:], self._guarded_load
        start = None if load is None or not axis else start_of(load.indices[-1], axis[0].variable)
        if load is None or start is None or not self.is_global:
            return 1, None
        if any(depends(index, axis) for index in load.indices[:-1]):
            return 1, None
        bounds = [_start_of_bound(condition, axis[0].variable) for condition in conditions if depends(condition, axis)]
        row = linear(load.source.shape[-1], {}) if len(load.indices) > 1 else Linear()
        extent = linear(sized(axis[0].extent), {}) if self._is_shared(axis[0]) else Linear()
        forms = [start, extent, *bounds]
        if row is None or None in forms:
            return 1, None
        known = [form for form in forms if form is not None]
        widths = [bytes_copied // self.kind.bytes for bytes_copied in (16, 8, 4)]
        width = next((width for width in widths if all(is_multiple(form, width) for form in (row, *known))), 1)
        # A row of run-time length is a multiple of a width or not: the kernel finds out.
        length = load.source.shape[-1]
        if width < widths[0] and isinstance(length, tirx.Var):
            if all(is_multiple(form, widths[0], length) for form in known):
                return widths[0], tirx.EQ(tirx.floormod(length, index(widths[0])), index(0))
        return width, None

    def _is_shared(self, axis: Axis) -> bool:
        """Return whether the axis has others around it, so that its neighbours may be in different lines."""
        return isinstance(axis.extent, int) or len(self.reduced if self.is_along else self.kept) > 1

    @property
    def _last_index(self) -> Any:
        """Return the last index of the only load in the element; None if there are several loads, none, or no index."""
        loads = loads_in(self.element)
        return loads[0].indices[-1] if len(loads) == 1 and len(loads[0].indices) else None

    @property
    def _guarded_load(self) -> tuple[list[Any], Any]:
        """Return the load that the element is where conditions hold, else 0, and these; None for a computed one."""
        conditions, element = unguarded(_without_bits(self.element))
        element = _without_bits(element)
        return conditions, element if isinstance(element, TensorLoad) and len(element.indices) else None

    @property
    def stride(self) -> int:
        """Return the number of elements from one line of the tile to the next."""
        return self.length + PADDING // self.kind.bytes

    @property
    def elements(self) -> int:
        """Return the number of elements of one tile in memory."""
        return self.lines * self.stride

    def place(self, line: Any, column: Any) -> Any:
        """Return where an element of the tile is; `column` is a multiple of what is copied at once."""
        return line * index(self.stride) + column

    def filled(
        self, memory: Buffer, start: Expr, batch: Values, first: Expr, step: Expr, thread: Expr, threads: int
    ) -> Stmt:
        """Return the statements by which each thread copies its part of a tile.

        The tile is at `start` in memory, `first` is its offset in the kept axes, and `step` along the sum.
        """
        width, condition = self._width

        def copied(width: int) -> Any:
            return self._divided(width, memory, start, batch, first, step, thread, threads)

        if condition is None:
            return copied(width)
        return tirx.IfThenElse(condition, copied(width), copied(1))

    def _divided(
        self, width: int, memory: Any, start: Any, batch: Values, first: Any, step: Any, thread: Any, threads: int
    ) -> Any:
        per_line = self.length // width
        chunks = self.lines * per_line

        def chunk(iteration: Any) -> Any:
            number = iteration * index(threads) + thread
            line, column = tirx.floordiv(number, index(per_line)), tirx.floormod(number, index(per_line)) * index(width)
            if self._lies_across:
                line, column = tirx.floormod(number, index(self.lines)), tirx.floordiv(number, index(self.lines))
            kept, along = (line, column) if self.is_along else (column, line)
            target = address(memory, start + self.place(line, column), width)
            statement = self._copied(width, target, [first + kept, step * index(self.depth) + along], batch)
            return tirx.IfThenElse(tirx.LT(number, index(chunks)), statement, None) if chunks % threads else statement

        return for_loop("iteration", -(-chunks // threads), chunk, tirx.ForKind.UNROLLED)

    def _copied(self, width: int, target: Any, position: list[Any], batch: Values) -> Any:
        values = {**batch, **axis_values(self.kept, position[0]), **axis_values(self.reduced, position[1])}
        checks = self._checks(position)
        if width > 1:
            conditions, load = self._guarded_load
            checks += [replaced(condition, values) for condition in conditions]
            is_present = tirx.all(*checks) if checks else None
            return copy(width * self.kind.bytes, target, replaced(load, values), is_present)
        value = replaced(self._stored_element(), values)
        if checks:
            value = tirx.if_then_else(tirx.all(*checks), value, zero_of(str(value.ty.dtype)))
        return put(target, value)

    def _checks(self, positions: list[Any]) -> list[Any]:
        """Return the conditions under which an index of the tile is within the operand's bounds."""
        pairs = zip(positions, (self.kept, self.reduced), (self.size, self.depth), strict=True)
        return [tirx.LT(position, sized(size_of(axes))) for position, axes, size in pairs if not _divides(size, axes)]

    def _stored_element(self) -> Any:
        dtype = str(self.element.ty.dtype)
        if dtype == HALF:
            return bits_of(self.element)
        # The other operand's 8-bit integers may have the other sign.
        other = BITS if dtype == "float16" else self.kind.dtype if self.kind.bytes == 1 else dtype
        # One in another has no name in TVM's source.
        bare = self.element.args[0] if _is_reinterpret(self.element, "uint8") else self.element
        return bare if str(bare.ty.dtype) == other else tirx.reinterpret(other, bare)


def _without_bits(element: Expr) -> Any:
    """Return what an element reinterprets; any other element itself."""
    is_bits = isinstance(element, ir.Call) and str(element.op.name).endswith("reinterpret")
    return element.args[0] if is_bits else element


def start_of(position: Expr, variable: Var) -> Linear | None:
    """Return what an index has beside a variable that it advances with; None if it does not."""
    form = linear(position, {})
    return form - of_variable(variable) if form is not None and form.factor(variable) == 1 else None


def _start_of_bound(condition: Expr, variable: Var) -> Linear | None:
    """Return where a condition ``variable + … < bound`` begins to fail; None for any other condition."""
    if not isinstance(condition, tirx.LT):
        return None
    below, bound = linear(condition.a, {}), linear(condition.b, {})
    if below is None or bound is None or (below - bound).factor(variable) != 1:
        return None
    return bound - below + of_variable(variable)


def is_multiple(form: Linear, width: int, assumed: Any = None) -> bool:
    """Return whether a sum is a multiple of a width, where the variable `assumed` is one."""
    rest = form if assumed is None else form.substituted(assumed, Linear())
    return all(factor % width == 0 for factor in (rest.constant, *rest.terms.values()))


def _divides(size: int, axes: Sequence[Axis]) -> bool:
    """Return whether the number of elements of axes, of which the first may be of run time, is a multiple of a size."""
    whole = size_of(axes)
    if not isinstance(whole, int):
        whole = size_of(axes[1:]) if len(axes) > 1 and not isinstance(axes[0].extent, int) else 1
    return isinstance(whole, int) and whole % size == 0


def narrow(element: Expr) -> tuple[str, Expr] | None:
    """Return the dtype that a factor was widened from, and the narrow factor; None if no instruction takes it.

    bf16 may be given as bits, widened by a shift.
    """
    if isinstance(element, tirx.Cast):
        dtype = str(element.value.ty.dtype)
        if dtype in NARROW:
            return dtype, element.value
    if _is_reinterpret(element, "float32") and isinstance(shifted := element.args[0], tirx.LShift):
        if isinstance(shifted.a, tirx.Cast) and str(shifted.a.value.ty.dtype) == BITS and shifted.b.value == 16:
            return HALF, shifted.a.value
    return None


def _is_reinterpret(node: Node, dtype: str) -> bool:
    is_call = isinstance(node, ir.Call) and str(getattr(node.op, "name", "")).endswith("reinterpret")
    return is_call and str(node.ty.dtype) == dtype
