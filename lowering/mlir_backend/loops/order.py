"""Order the loops of reductions and contractions by stride, and relax the rounding of their sums.

The smallest stride is innermost: a matmul runs m, k, n and a column sum row by row, so that LLVM vectorizes the inner
loop. Sums may be reassociated and contracted to fused multiply-adds, as BLAS and NumPy do it. Elementwise operations,
and bodies that ask for their loop indices, keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, maps_of, permute_loops
from mlirtri.lowering.mlir_common.reading import defined_by


def rewrite(module: ir.Module) -> None:
    """Order the loops of every generic that reduces."""
    for generic in operations_named(module, "linalg.generic"):
        iterators = iterators_of(generic)
        if "reduction" not in iterators:
            continue
        _relax_sums(generic)
        if not any(inner.operation.name == "linalg.index" for inner in _body(generic).operations):
            _reorder(generic, len(iterators))


def _body(generic: ir.Operation) -> ir.Block:
    return generic.regions[0].blocks[0]


def _relax_sums(generic: ir.Operation) -> None:
    """Allow reassociation of the accumulation and contraction of its product; of nothing else."""
    body = _body(generic)
    inputs = generic.attributes["operandSegmentSizes"][0]
    for accumulator in list(body.arguments)[inputs:]:
        for use in accumulator.uses:
            step = use.owner.operation
            if step.name not in ("arith.addf", "arith.mulf"):
                continue
            step.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc,contract>")
            product = defined_by(step.operands[1 - use.operand_number], "arith.mulf")
            if product is not None:
                product.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<contract>")


def _reorder(generic: ir.Operation, loops: int) -> None:
    distances = [0] * loops
    for operand, access in zip(generic.operands, maps_of(generic), strict=True):
        if not isinstance(operand.type, ir.MemRefType):
            continue  # a scalar is read once
        strides, _ = operand.type.get_strides_and_offset()
        for result, stride in zip(access.results, strides, strict=True):
            for loop, factor in _terms(result, 1):
                distances[loop] += abs(stride * factor)
    permute_loops(generic, sorted(range(loops), key=lambda loop: -distances[loop]))


def _terms(index: ir.AffineExpr, factor: int) -> Iterator[tuple[int, int]]:
    """Return the loops in an index like ``2 * d1 + d4``, with their factors."""
    if isinstance(index, ir.AffineDimExpr):
        yield index.position, factor
    elif isinstance(index, ir.AffineAddExpr):
        yield from _terms(index.lhs, factor)
        yield from _terms(index.rhs, factor)
    elif isinstance(index, ir.AffineMulExpr) and isinstance(index.rhs, ir.AffineConstantExpr):
        yield from _terms(index.lhs, factor * index.rhs.value)
