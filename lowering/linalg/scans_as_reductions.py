"""Scans as reductions, for CUDA devices: each element is the reduction of those up to it.

Takes `tri.scan` and `tm_tensor.scan` of static sizes. Gives one structured operation, in which later elements count as
the neutral element; `schedule/cuda/scans.py` makes it one pass along each line. fp16 and bf16 are accumulated in fp32.
Supports sums, products, maxima and minima.
"""

from __future__ import annotations

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, operations_named
from mlirtri.dialect.definition import type_of
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.lowering.linalg.elementwise import computed_in
from mlirtri.lowering.linalg.reductions import COMBINERS, converted, extreme
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, filled, generic

MARK = "mlirtri.reduced"
_KINDS = {
    "arith.addf": "sum", "arith.addi": "sum", "arith.mulf": "prod", "arith.muli": "prod", "arith.maximumf": "max",
    "arith.maxsi": "max", "arith.minimumf": "min", "arith.minsi": "min",
}  # fmt: skip


def mark_scans(module: ir.Module) -> None:
    """Mark the scans of static sizes, which become reductions instead of loops."""
    for operation in operations_named(module, "tri.scan"):
        type_ = type_of(operation.operands[0].type)
        if type_.is_static and not type_.dtype.is_complex:
            operation.attributes[MARK] = ir.UnitAttr.get(module.context)


def is_marked(operation: ir.Operation) -> bool:
    """Return whether a scan becomes a reduction."""
    return MARK in operation.attributes


def kind_of(block: ir.Block) -> str | None:
    """Return the kind of a region that combines two scalars by one operation with a neutral element, else None."""
    first, *others = (operation.operation.name for operation in block.operations)
    return _KINDS.get(first) if len(others) == 1 else None


def scan_as_reduction(x: ir.Value, type_: TensorType, axis: int, kind: str) -> ir.Value:
    """Return ``out[i] = combine(x[j] for j <= i)`` along `axis` of `x`, whose type is `type_`."""
    wide = computed_in(type_.dtype)
    combine, neutral = COMBINERS[kind], _neutral(kind, wide)
    rank = type_.rank
    read = [rank if number == axis else number for number in range(rank)]

    def body(element: ir.Value, accumulator: ir.Value) -> list[ir.Value]:
        position, other = (linalg.IndexOp(loop).result for loop in (axis, rank))
        is_before = arith.cmpi(arith.CmpIPredicate.sle, other, position)
        value = scalar.cast(Scalar(element, type_.dtype), wide)
        term = arith.select(is_before, value.value, scalar.constant(neutral, wide).value)
        return [combine(Scalar(accumulator, wide), Scalar(term, wide)).value]

    maps = [dimensions(*read, rank=rank + 1), dimensions(*range(rank), rank=rank + 1)]
    start = filled(type_.with_dtype(wide), neutral)
    [result] = generic([x], [start], maps, [*["parallel"] * rank, "reduction"], body)
    return converted(result, type_.with_dtype(wide), type_.dtype)


def _neutral(kind: str, dtype: DType) -> complex | float | int:
    if kind == "sum":
        # -0 is the neutral element of sums: -0 + -0 is -0, but 0 + -0 is 0.
        return -0.0 if dtype.is_inexact else 0
    return 1 if kind == "prod" else extreme(dtype, lowest=kind == "max")
