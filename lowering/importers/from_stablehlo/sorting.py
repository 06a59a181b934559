"""StableHLO's `sort` as torch-mlir's, which sorts elements by a region of scalars.

Takes a module after upstream's lowering, which left the sorts alone and turned what is in their regions into linalg.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named
from mlirtri.lowering.importers.from_stablehlo.scalar_regions import inline_scalars
from mlirtri.lowering.mlir.cloning import replace


def rewrite(module: ir.Module) -> None:
    """Rewrite all sorts of `module`."""
    for operation in operations_named(module, "stablehlo.sort"):
        with operation.location, ir.InsertionPoint(operation):
            _rewrite(operation)


def _rewrite(operation: ir.Operation) -> None:
    types = [each.type for each in operation.results]
    attributes = {
        "dimension": operation.attributes["dimension"],
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(types)]),
    }
    sort = ir.Operation.create("tm_tensor.sort", types, list(operation.operands), attributes, regions=1)
    elements = [each.element_type for each in types for _ in range(2)]
    block = sort.regions[0].blocks.append(*elements, arg_locs=[operation.location] * len(elements))
    with ir.InsertionPoint(block):
        # StableHLO asks whether the first comes before the second, the other whether it may stay there: elements that
        # are equal may.
        pairs = list(zip(block.arguments[0::2], block.arguments[1::2], strict=True))
        swapped = [each for first, second in pairs for each in (second, first)]
        [after] = inline_scalars(operation.regions[0].blocks[0], swapped)
        stays = arith.xori(after, arith.constant(after.type, 1))
        ir.Operation.create("tm_tensor.yield", operands=[stays])
    replace(operation, sort.results)
