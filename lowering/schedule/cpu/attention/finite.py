"""The largest magnitudes of the operands of attention's products: masked columns may be skipped where all are finite.

Takes a product, one of its operands and the axes of that operand. Gives statements that compute the bits of its largest
magnitude for each element of the batch; NaN is larger than infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.tile_sizes import lanes_for, loop_kind
from mlirtri.lowering.tir.contraction import Axis, Values, size_of
from mlirtri.lowering.tir.products import Product
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.tir.tiles import counted, in_vectors, nested, replaced, spread, temporary
from mlirtri.lowering.tir.vectors import INFINITY_BITS, integers_of
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, tirx

_HALF_OF_LARGEST = {"float32": 1.5e38, "float64": 8e307}


class Magnitudes:
    """The largest magnitude of one operand, per batch element."""

    def __init__(self, product: Product, operand: Any, axes: Sequence[Axis], name: str):
        self.product, self.operand = product, operand
        self.axes = _in_order(operand, [axis for axis in axes if axis.extent > 1])
        self.dtype = integers_of(product.dtype)
        self.largest = temporary(name, self.dtype, [size_of(product.batch)])

    def statements(self, target: Target) -> list[Any]:
        """Return the statements that allocate the result and fill it."""
        outer, inner = self.axes[:-1], self.axes[-1:]
        lanes = min(lanes_for(self.product.dtype), size_of(inner))
        maxima = temporary("maxima", self.dtype, [lanes])

        def of_batch(number: Any) -> Any:
            values = spread(self.product.batch, number)

            def element(others: Values, last: Any) -> Any:
                point = {**values, **others, **spread(inner, last)}
                bits = tirx.reinterpret(self.dtype, tirx.abs(replaced(self.operand, point)))
                indices = [tirx.floormod(last, index(lanes))]
                return tirx.BufferStore(maxima, tirx.max(tirx.BufferLoad(maxima, indices), bits), indices)

            def along(others: Values) -> Any:
                return in_vectors(size_of(inner), lanes, lambda last: element(others, last))

            zero, indices = tirx.IntImm(self.dtype, 0), [number]
            start = in_vectors(lanes, lanes, lambda lane: tirx.BufferStore(maxima, zero, [lane]))
            first = tirx.BufferStore(self.largest, zero, indices)
            largest = tirx.BufferLoad(self.largest, indices)
            end = counted("lane", lanes, lambda lane: tirx.BufferStore(
                self.largest, tirx.max(largest, tirx.BufferLoad(maxima, [lane])), indices))  # fmt: skip
            return sequence(tirx.AllocBuffer(maxima), start, nested(outer, along), first, end)

        batch = size_of(self.product.batch)
        kind = loop_kind(batch * size_of(self.axes) // lanes, target)
        return [tirx.AllocBuffer(self.largest), counted("batch", batch, of_batch, kind)]

    def is_finite(self, position: Any) -> Any:
        """Return the condition that all elements at one batch index are finite."""
        infinity = tirx.IntImm(self.dtype, INFINITY_BITS[self.product.dtype])
        return tirx.LT(tirx.BufferLoad(self.largest, [position]), infinity)

    def magnitude(self, position: Any) -> Any:
        """Return the largest magnitude as a float."""
        return tirx.reinterpret(self.product.dtype, tirx.BufferLoad(self.largest, [position]))


def stays_finite(left: Magnitudes, right: Magnitudes, position: Any, factor: float) -> Any:
    """Return the condition that a product, and `factor` times it, are finite in any order of terms; false for NaN."""
    product = left.product
    most = _HALF_OF_LARGEST[product.dtype] / size_of(product.reduced) / max(1.0, factor)
    return tirx.LT(left.magnitude(position) * right.magnitude(position), tirx.FloatImm(product.dtype, most))


def _in_order(operand: Any, axes: list[Axis]) -> list[Axis]:
    """Return the axes, the one along which the operand is contiguous last."""
    if not isinstance(operand, TensorLoad) or not operand.indices:
        return axes
    last = operand.indices[-1]
    return sorted(axes, key=lambda axis: axis.variable.same_as(last))
