"""Reads of tensors that nothing was written into become reads of zeros.

The elements of a `tensor.empty` are undefined, so that any number is right; but what lay in that memory before is
another tensor's, of another call or of another user. Takes and gives a module on tensors, in place. Refuses nothing.

    %e = tensor.empty(); return %e   ──►   %e = tensor.empty(); %z = linalg.fill 0 into %e; return %z
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named
from mlirtri.dialect.scalar import complex_parts
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic.rules import number

VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice")
"""What gives elements of its first operand, which are just as undefined."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Fill what is read before it is written."""
    for empty in operations_named(module, "tensor.empty"):
        readers = [use for use in empty.results[0].uses if _reads(use)]
        if not readers or 0 in empty.results[0].type.shape:
            # A number for what has no elements would be taken for one of a reduction of them.
            continue
        with ir.InsertionPoint.after(empty), empty.location:
            filled = linalg.fill(_zero(empty.results[0].type.element_type), outs=[empty.results[0]])
        for use in readers:
            use.owner.operands[use.operand_number] = filled


def _reads(use: ir.OpOperand) -> bool:
    user = use.owner.operation
    if user.name in VIEWS:
        return any(_reads(each) for each in user.results[0].uses)
    if user.name == "tensor.dim":
        return False
    if (maps := linalg.get_indexing_maps(user)) is None or not len(user.regions):
        return True
    is_output = use.operand_number >= len(maps) - len(user.results)
    return not is_output or any(True for _ in user.regions[0].blocks[0].arguments[use.operand_number].uses)


def _zero(kind: ir.Type) -> ir.Value:
    return complex_parts.constant(0, 0, kind) if isinstance(kind, ir.ComplexType) else number(kind, 0)
