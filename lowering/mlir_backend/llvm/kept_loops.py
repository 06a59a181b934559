"""Keep LLVM from writing out the iterations of loops that contain long loops.

It would, for up to some 24 iterations: the inner loops stay loops, in that many copies, each of which takes as long to
compile as the loop itself and none of which runs faster.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations_in, ir, operations_named
from mlirtri.lowering.mlir_common.reading import trip_count

LONG = 128
"""Iterations that LLVM never writes out, however few operations each has."""
_AS_IT_IS = "#llvm.loop_annotation<unroll = <disable = true>>"


def rewrite(module: ir.Module) -> None:
    """Annotate each `scf.for` around a long one."""
    annotation = ir.Attribute.parse(_AS_IT_IS)
    for loop in operations_named(module, "scf.for"):
        if any(_is_long(inner) for inner in all_operations_in(loop)[1:]):
            # `convert-scf-to-cf` moves it to the branch back.
            loop.attributes["loop_annotation"] = annotation


def _is_long(operation: ir.Operation) -> bool:
    if operation.name != "scf.for":
        return False
    trips = trip_count(list(operation.operands)[:3])
    return trips is not None and trips >= LONG
