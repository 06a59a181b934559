"""Find sums of fp32 numbers in fp64 memory that is only read as fp32: their terms need not be added in fp64 one by one.

out[i] = out[i] + extf a[i, j] : f64      nothing reads out but truncf to f32      ──►   a narrowed sum
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.mlir.aliasing import definition, terminator
from mlirtri.lowering.mlir.linalg_builder import iterators_of

NARROWED_SUM = "mlirtri.narrowed_sum"
"""Attribute of the innermost loop of such a sum."""


def is_narrowed_sum(generic: ir.Operation) -> bool:
    """Return whether a reduction on memrefs is such a sum."""
    if len(generic.operands) != generic.attributes["operandSegmentSizes"][0] + 1:
        return False
    memory = generic.operands[len(generic.operands) - 1]
    is_wide = isinstance(memory.type, ir.MemRefType) and isinstance(memory.type.element_type, ir.F64Type)
    if not is_wide or "reduction" not in iterators_of(generic) or not _adds_narrow(generic):
        return False
    owner = definition(memory)
    if owner is None or owner.name not in ("memref.alloc", "memref.alloca"):
        return False
    return all(_keeps_narrow(use.owner.operation, use.operand_number) for use in memory.uses)


def _adds_narrow(generic: ir.Operation) -> bool:
    """Whether the body yields the sum of the accumulator and a widened number."""
    block = generic.regions[0].blocks[0]
    addition = definition(terminator(block).operands[0])
    if addition is None or addition.name != "arith.addf":
        return False
    accumulator = block.arguments[len(block.arguments) - 1]
    terms = [operand for operand in addition.operands if operand != accumulator]
    makers = [definition(term) for term in terms]
    return len(makers) == 1 and makers[0] is not None and makers[0].name == "arith.extf"


def _keeps_narrow(user: ir.Operation, position: int) -> bool:
    """Whether a user of the memory does not read it, reads it as fp32 or less, or adds to it."""
    if user.name in ("linalg.fill", "memref.dealloc", "memref.dim"):
        return True
    if user.name == "memref.load":
        return _is_narrowed(user.results[0])
    if user.name != "linalg.generic":
        return False
    element = user.regions[0].blocks[0].arguments[position]
    is_input = position < user.attributes["operandSegmentSizes"][0]
    return _is_narrowed(element) or (not is_input and _adds_narrow(user))


def _is_narrowed(value: ir.Value) -> bool:
    return all(use.owner.operation.name == "arith.truncf" for use in value.uses)
