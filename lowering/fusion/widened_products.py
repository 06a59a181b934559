"""Let products read 16-bit floats as they are, in place of copies that are widened first.

A product of named operations widens what it reads: torch's decompositions of `addmm` and attention widen whole tensors
instead, so that each call would write a wider copy of each weight. Widening is exact, so that no number changes.

    %w = generic { extf } %weight : bf16 → f32
    %y = matmul %x, %w : f32, f32 → f32            ──►   %y = matmul %x, %weight : f32, bf16 → f32
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of, plain_accesses
from mlirtri.lowering.mlir_common.reading import defined_by

PRODUCTS = ("linalg.matmul", "linalg.batch_matmul", "linalg.matvec", "linalg.vecmat", "linalg.conv_")
NARROW = ("bf16", "f16")


def rewrite(module: ir.Module) -> None:
    """Replace operands that are both widened copies of 16-bit floats of one type by what they copy, in place."""
    for product in operations_named(module, "linalg.*"):
        if not product.name.startswith(PRODUCTS) or "cast" in product.attributes:
            continue
        sources = [_narrow_source(operand) for operand in list(product.operands)[:2]]
        narrow = [source for source in sources if source is not None]
        if len(narrow) == 2 and narrow[0].type.element_type == narrow[1].type.element_type:
            _replace(product, narrow)


def _replace(product: ir.Operation, sources: list[ir.Value]) -> None:
    """Replace a product by the same of other operands, whose body is that of their element types."""
    attributes = dict(product.attributes.items())
    operands = [*sources, *list(product.operands)[2:]]
    results = [result.type for result in product.results]
    with ir.InsertionPoint(product), product.location:
        narrow = ir.Operation.create(product.name, results, operands, attributes, regions=1)
        linalg.fill_builtin_region(narrow)
    product.results[0].replace_all_uses_with(narrow.results[0])
    product.erase()


def _narrow_source(value: ir.Value) -> ir.Value | None:
    """Return the tensor of 16-bit floats that a generic widens without any other change; None for other values."""
    generic = defined_by(value, "linalg.generic")
    if generic is None or len(generic.operands) != 2 or "reduction" in iterators_of(generic):
        return None
    [block] = generic.regions[0].blocks
    names = [inner.operation.name for inner in block.operations]
    source, accesses = generic.operands[0], plain_accesses(generic)
    is_same = accesses is not None and accesses[0] == accesses[1] == list(range(value.type.rank))
    if names != ["arith.extf", "linalg.yield"] or not is_same:
        return None
    return source if str(source.type.element_type) in NARROW else None
