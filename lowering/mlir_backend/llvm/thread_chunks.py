"""Split structured operations of pipeline `mlir` into chunks of their outermost parallel loop for threads.

Takes a module of `linalg.generic` over memrefs in loop order. Gives, in place, an `scf.forall` around each that is
large enough, over one chunk per thread. Does nothing for one thread. Refuses nothing.
"""

from __future__ import annotations

from math import prod

from mlirtri.dialect.bindings.mlir import apply_transform, ir, operations_named
from mlirtri.lowering.mlir.cloning import replace
from mlirtri.lowering.toolchain.mlir_passes import Pass

MARK = "mlirtri.chunks"
FEWEST_ELEMENTS = 1 << 16
"""Elements from which on threads, which take some microseconds to start, are profitable."""

_PROGRAM = """module attributes {{transform.with_named_sequence}} {{
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
        apply_transform(module, _PROGRAM.format(steps="\n    ".join(steps)))


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
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    extents: dict[int, int] = {}
    for value, mapping in zip(generic.operands, maps, strict=True):
        if isinstance(value.type, ir.MemRefType):
            for result, size in zip(mapping.results, value.type.shape, strict=True):
                if isinstance(result, ir.AffineDimExpr):
                    extents[result.position] = size
    dynamic = ir.ShapedType.get_dynamic_size()
    iterators = [str(kind) for kind in generic.attributes["iterator_types"]]
    if len(extents) != len(iterators) or dynamic in extents.values() or prod(extents.values()) < FEWEST_ELEMENTS:
        return None
    if generic.parent.operation.name != "func.func":
        return None
    for loop, kind in enumerate(iterators):
        if "parallel" in kind and extents[loop] >= threads:
            return [-(-extents[loop] // threads) if number == loop else 0 for number in range(len(iterators))]
    return None
