"""Split structured operations of pipeline `mlir` into chunks of their outermost parallel loop, one per thread.

Each `linalg.generic` over memrefs that is large enough gets an `scf.forall` around it.
"""

from __future__ import annotations

from math import prod

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.mlir import apply_transform, ir, operations_named
from mlirtri.lowering.core.cpu import PARALLEL_ELEMENTS
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, loop_extents
from mlirtri.lowering.toolchain.mlir_passes import Pass

MARK = "mlirtri.chunks"

TRANSFORM = """module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op) {{
    {steps}
    transform.yield
  }}
}}
"""
_STEP = """%m{number} = transform.structured.match attributes {{{mark} = {number} : i64}} in %root
      : (!transform.any_op) -> !transform.any_op
    %t{number}, %f{number} = transform.structured.tile_using_forall %m{number} tile_sizes {sizes}
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"""


def rewrite(module: ir.Module, threads: int) -> None:
    """Split large operations into chunks for that many threads."""
    steps: list[str] = []
    for generic in operations_named(module, "linalg.generic") if threads > 1 else ():
        sizes = _chunk(generic, threads)
        if sizes is not None:
            number = len(steps)
            generic.attributes[MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
            steps.append(_STEP.format(number=number, mark=MARK, sizes=sizes))
    if steps:
        apply_transform(module, TRANSFORM.format(steps="\n    ".join(steps)))


def to_openmp(threads: int) -> tuple[Pass, ...]:
    """Return the passes that turn `scf.forall` into OpenMP's parallel regions."""
    return (
        Pass("func.func(scf-forall-to-parallel)", "chunks are independent"),
        Pass(f"convert-scf-to-openmp{{num-threads={threads}}}", "OpenMP's runtime shares the chunks out"),
    )


def inline_scopes(module: ir.Module) -> None:
    """Inline upstream's stack scope around each chunk, which must be one block, but has loops."""
    for scope in operations_named(module, "memref.alloca_scope"):
        *steps, last = [view.operation for view in scope.regions[0].blocks[0].operations]
        for step in steps:
            step.move_before(scope)
        replace(scope, list(last.operands))


def _chunk(generic: ir.Operation, threads: int) -> list[int] | None:
    """Return the tile size of each loop, or None where threads are not profitable."""
    extents, iterators = loop_extents(generic), iterators_of(generic)
    if len(extents) != len(iterators) or DYNAMIC in extents.values() or prod(extents.values()) < PARALLEL_ELEMENTS:
        return None
    if generic.parent.operation.name != "func.func":
        return None
    for loop, kind in enumerate(iterators):
        if kind == "parallel" and extents[loop] >= threads:
            return [-(-extents[loop] // threads) if number == loop else 0 for number in range(len(iterators))]
    return None
