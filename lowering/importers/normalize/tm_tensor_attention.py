"""Build attention from structured operations: softmax(q kᵀ / √d + mask) v, with each row shifted by its maximum.

Leading axes are batches; a boolean mask keeps the weights where it is true. fp16 and bf16 are accumulated in fp32. The
formula is that of A. Vaswani et al., "Attention Is All You Need", 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.bindings.mlir import arith, ir, linalg_fill, math, tensor
from mlirtri.dialect.scalar.algebra import Scalar, cast
from mlirtri.lowering.mlir_common.index_values import index_value, size_of, sizes_of
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, element_type, generic
from mlirtri.lowering.mlir_common.reading import dtype_of

FLOAT32, FLOAT64 = DTYPES["float32"], DTYPES["float64"]
Axes = Sequence[int]


def attention(
    query: ir.Value, key: ir.Value, value: ir.Value, mask: ir.Value | None = None, *, out: ir.Value
) -> ir.Value:
    """Return the weighted sum of `value`, in the element type of `out`."""
    wide = FLOAT64 if str(query.type.element_type) == "f64" else FLOAT32
    rank = query.type.rank
    batch, row, column, inner = list(range(rank - 2)), rank - 2, rank - 1, rank
    axes = [*batch, row, column]
    work = _Work(wide, sizes_of(query)[:-1])
    weights = work.contracted(query, [*batch, row, inner], key, [*batch, column, inner], size_of(key, rank - 2))
    root = _root(size_of(query, rank - 1), work.kind)
    weights = work.mapped([weights], [axes], lambda weight: arith.divf(weight, root))
    if mask is not None:
        fitting = axes[len(axes) - mask.type.rank :]
        weights = work.mapped([weights, mask], [axes, fitting], lambda weight, bias: work.biased(weight, bias))
    largest = work.reduced(weights, float("-inf"), arith.maximumf)
    shifted = work.mapped([weights, largest], [axes, axes[:-1]], lambda weight, top: math.exp(arith.subf(weight, top)))
    sums = work.reduced(shifted, 0.0, arith.addf)
    weights = work.mapped([shifted, sums], [axes, axes[:-1]], arith.divf)
    result = work.contracted(weights, [*batch, row, inner], value, [*batch, inner, column], size_of(value, rank - 1))
    narrow = DTYPES[dtype_of(out.type)]
    return work.mapped(
        [result], [axes], lambda element: cast(Scalar(element, wide), narrow).value, out.type.element_type
    )


class _Work:
    def __init__(self, wide: DType, rows: Sequence[int | ir.Value]):
        self.wide, self.rows, self.rank = wide, list(rows), len(rows) + 1
        self.kind = element_type(wide)

    def widened(self, element: ir.Value) -> ir.Value:
        return cast(Scalar(element, DTYPES[dtype_of(element.type)]), self.wide).value

    def contracted(
        self, left: ir.Value, left_axes: Axes, right: ir.Value, right_axes: Axes, columns: int | ir.Value
    ) -> ir.Value:
        loops = self.rank + 1
        maps = [dimensions(*axes, rank=loops) for axes in (left_axes, right_axes, range(self.rank))]

        def body(x: ir.Value, y: ir.Value, accumulator: ir.Value) -> list[ir.Value]:
            return [arith.addf(accumulator, arith.mulf(self.widened(x), self.widened(y)))]

        kinds = ["parallel"] * self.rank + ["reduction"]
        [result] = generic([left, right], [self._filled([*self.rows, columns], 0.0)], maps, kinds, body)
        return result

    def mapped(
        self,
        inputs: Sequence[ir.Value],
        axes: Sequence[Axes],
        body: Callable[..., ir.Value],
        type_: ir.Type | None = None,
    ) -> ir.Value:
        maps = [dimensions(*axes, rank=self.rank) for axes in (*axes, range(self.rank))]
        out = tensor.empty(sizes_of(inputs[0]), type_ or self.kind)
        [result] = generic(inputs, [out], maps, ["parallel"] * self.rank, lambda *elements: [body(*elements[:-1])])
        return result

    def reduced(self, source: ir.Value, start: float, combine: Callable[..., ir.Value]) -> ir.Value:
        maps = [dimensions(*range(count), rank=self.rank) for count in (self.rank, self.rank - 1)]
        kinds = ["parallel"] * (self.rank - 1) + ["reduction"]
        out = self._filled(self.rows, start)
        [result] = generic([source], [out], maps, kinds, lambda element, accumulator: [combine(accumulator, element)])
        return result

    def biased(self, weight: ir.Value, bias: ir.Value) -> ir.Value:
        """Add the mask to a weight; a false boolean makes it -inf."""
        if isinstance(bias.type, ir.IntegerType):
            return arith.select(bias, weight, arith.constant(self.kind, float("-inf")))
        return arith.addf(weight, self.widened(bias))

    def _filled(self, sizes: Sequence[int | ir.Value], value: float) -> ir.Value:
        return linalg_fill(arith.constant(self.kind, value), tensor.empty(sizes, self.kind))


def _root(size: int | ir.Value, type_: ir.Type) -> ir.Value:
    if isinstance(size, int):
        return arith.constant(type_, float(size) ** 0.5)
    integer = arith.index_cast(ir.IntegerType.get_signless(64), index_value(size))
    return math.sqrt(arith.sitofp(type_, integer))
