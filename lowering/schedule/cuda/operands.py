"""Copy an operand of a product on tensor cores from global memory to a block's tile in shared memory.

Copies are asynchronous if neighbours in the tile are neighbours in memory, else element by element, so that any operand
will do: transposed, a convolution's windows, computed. Out-of-bounds elements are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cuda.instructions import NARROW, Multiplication, address, copy, put
from mlirtri.lowering.tir.bfloat16_storage import BITS, HALF, bits_of
from mlirtri.lowering.tir.contraction import Axis, Values, depends, size_of
from mlirtri.lowering.tir.linear_forms import Linear, linear
from mlirtri.lowering.tir.linear_forms import variable as of_variable
from mlirtri.lowering.tir.statements import index, loads_in
from mlirtri.lowering.tir.tiles import axis_values, for_loop, replaced
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, ir, tirx

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
    def width(self) -> int:
        """Return the number of elements copied at once: as many as are contiguous and aligned in memory."""
        axis, load = (self.reduced if self.is_along else self.kept)[-1:], self._plain_load
        start = None if load is None or not axis else _start(load.indices[-1], axis[0].variable)
        if load is None or start is None or not self.is_global:
            return 1
        if any(depends(index, axis) for index in load.indices[:-1]):
            return 1
        sizes = [axis[0].extent] + ([int(load.source.shape[-1])] if len(load.indices) > 1 else [])
        widths = [bytes_copied // self.kind.bytes for bytes_copied in (16, 8, 4)]
        steps = [*sizes, start.constant, *start.terms.values()]
        return next((width for width in widths if all(step % width == 0 for step in steps)), 1)

    @property
    def _last_index(self) -> Any:
        """Return the last index of the only load in the element; None if there are several loads, none, or no index."""
        loads = loads_in(self.element)
        return loads[0].indices[-1] if len(loads) == 1 and len(loads[0].indices) else None

    @property
    def _plain_load(self) -> Any:
        """Return the load if the element is only that; None if it is computed."""
        element = self.element
        if isinstance(element, ir.Call) and str(element.op.name).endswith("reinterpret"):
            element = element.args[0]
        return element if isinstance(element, TensorLoad) and len(element.indices) else None

    @property
    def stride(self) -> int:
        """Return the number of elements from one line of the tile to the next."""
        return self.length + PADDING // self.kind.bytes

    @property
    def elements(self) -> int:
        """Return the number of elements of one tile in memory."""
        return self.lines * self.stride

    def filled(self, memory: Any, start: Any, batch: Values, first: Any, step: Any, thread: Any, threads: int) -> Any:
        """Return the statements by which each thread copies its part of a tile.

        The tile is at `start` in memory, `first` is its offset in the kept axes, and `step` along the sum.
        """
        width = self.width
        per_line = self.length // width
        chunks = self.lines * per_line

        def chunk(iteration: Any) -> Any:
            number = iteration * index(threads) + thread
            line, column = tirx.floordiv(number, index(per_line)), tirx.floormod(number, index(per_line)) * index(width)
            if self._lies_across:
                line, column = tirx.floormod(number, index(self.lines)), tirx.floordiv(number, index(self.lines))
            kept, along = (line, column) if self.is_along else (column, line)
            target = address(memory, start + line * index(self.stride) + column, width)
            statement = self._copied(target, [first + kept, step * index(self.depth) + along], batch)
            return tirx.IfThenElse(tirx.LT(number, index(chunks)), statement, None) if chunks % threads else statement

        return for_loop("iteration", -(-chunks // threads), chunk, tirx.ForKind.UNROLLED)

    def _copied(self, target: Any, position: list[Any], batch: Values) -> Any:
        values = {**batch, **axis_values(self.kept, position[0]), **axis_values(self.reduced, position[1])}
        in_bounds = self._is_inside(position)
        if self.width > 1:
            return copy(self.width * self.kind.bytes, target, replaced(self._plain_load, values), in_bounds)
        value = replaced(self._stored_element(), values)
        if in_bounds is not None:
            value = tirx.if_then_else(in_bounds, value, tirx.IntImm(value.ty.dtype, 0))
        return put(target, value)

    def _is_inside(self, positions: list[Any]) -> Any:
        """Return whether an index of the tile is within the operand's bounds; None if all are."""
        pairs = zip(positions, (self.kept, self.reduced), (self.size, self.depth), strict=True)
        checks = [tirx.LT(position, index(size_of(axes))) for position, axes, size in pairs if size_of(axes) % size]
        return tirx.all(*checks) if checks else None

    def _stored_element(self) -> Any:
        dtype = str(self.element.ty.dtype)
        if dtype == HALF:
            return bits_of(self.element)
        # The other operand's 8-bit integers may have the other sign.
        other = BITS if dtype == "float16" else self.kind.dtype if self.kind.bytes == 1 else dtype
        # One in another has no name in TVM's source.
        bare = self.element.args[0] if _is_reinterpret(self.element, "uint8") else self.element
        return bare if str(bare.ty.dtype) == other else tirx.reinterpret(other, bare)


def _start(position: Any, variable: Any) -> Linear | None:
    """Return what an index has beside a variable that it advances with; None if it does not."""
    form = linear(position, {})
    return form - of_variable(variable) if form is not None and form.factor(variable) == 1 else None


def narrow(element: Any) -> tuple[str, Any] | None:
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


def _is_reinterpret(node: Any, dtype: str) -> bool:
    is_call = isinstance(node, ir.Call) and str(getattr(node.op, "name", "")).endswith("reinterpret")
    return is_call and str(node.ty.dtype) == dtype
