"""Compare integers in the width that they were extended from, with constants of that width.

    %w = arith.index_cast %i : index to i64; arith.cmpi slt, %w, %c11 : i64   ──►   arith.cmpi slt, %i, %c11 : index
    arith.cmpi slt, (arith.extsi %x : i32 to i64), %c11 : i64                 ──►   arith.cmpi slt, %x, %c11 : i32

Devices have fewer instructions for it, and lavapipe of Mesa 22.3 compares extended numbers wrongly with constants.
An index has 32 bits in SPIR-V. Loop indices that are never negative are extended with zeros.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import definition, integer_constant

_EXTENSIONS = ("arith.index_cast", "arith.extsi")
_INDEX_BITS = 32
_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "eq": "eq", "ne": "ne"}
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge")
"""By their number the predicates that a sign-extended number keeps."""


def rewrite(nest: ir.Operation) -> None:
    """Narrow the comparisons in a kernel, and extend its loops' indices with zeros."""
    for loop in operations_named(nest, "scf.for"):
        lower = integer_constant(loop.operands[0])
        if lower is not None and lower >= 0:
            widen_without_sign(loop.regions[0].blocks[0].arguments[0])
    for comparison in operations_named(nest, "arith.cmpi"):
        _narrow(comparison)


def widen_without_sign(index: ir.Value) -> None:
    """Extend an index that is never less than 0 with zeros: lavapipe extends the number of a block by a wrong sign."""
    for use in list(index.uses):
        cast = use.owner.operation
        if cast.name == "arith.index_cast":
            with ir.InsertionPoint(cast), cast.location:
                replace(cast, [arith.index_castui(cast.results[0].type, index)])


def _narrow(comparison: ir.Operation) -> None:
    predicate = ir.IntegerAttr(comparison.attributes["predicate"]).value
    operands = list(comparison.operands)
    for position, operand in enumerate(operands):
        number, source = integer_constant(operands[1 - position]), _extended(operand)
        if number is None or source is None or predicate >= len(_PREDICATES):
            continue
        bits = _INDEX_BITS if isinstance(source.type, ir.IndexType) else source.type.width
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            continue
        name = _PREDICATES[predicate] if position == 0 else _MIRRORED[_PREDICATES[predicate]]
        with ir.InsertionPoint(comparison), comparison.location:
            is_index = isinstance(source.type, ir.IndexType)
            constant = index_constant(number) if is_index else arith.constant(source.type, number)
            narrow = arith.cmpi(getattr(arith.CmpIPredicate, name), source, constant)
        replace(comparison, [narrow])
        return


def _extended(value: ir.Value) -> ir.Value | None:
    """Return what a number is the sign extension of; None for other numbers."""
    extension = definition(value)
    if extension is None or extension.name not in _EXTENSIONS or isinstance(value.type, ir.IndexType):
        return None
    source = extension.operands[0]
    is_wider = isinstance(source.type, ir.IndexType) and value.type.width > _INDEX_BITS
    return source if is_wider or extension.name == "arith.extsi" else None
