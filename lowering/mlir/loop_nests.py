"""Loops of `scf` made around a body: what runs in order and carries tensors along."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import ir, scf
from mlirtri.lowering.mlir.linalg_builder import index_constant, index_value

Step = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]


def loop_nest(sizes: Sequence[int | ir.Value], carried: Sequence[ir.Value], step: Step) -> list[ir.Value]:
    """``step(index, carried) -> carried`` for every index of `sizes`, the last axis fastest; gives what is carried."""

    def nest(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        if len(at) == len(sizes):
            return step(at, carried)
        loop = scf.ForOp(index_constant(0), index_value(sizes[len(at)]), index_constant(1), carried)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(nest([*at, loop.induction_variable], list(loop.inner_iter_args)))
        return list(loop.results)

    return nest([], list(carried))
