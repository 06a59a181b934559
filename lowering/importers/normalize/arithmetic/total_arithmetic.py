"""Make the arithmetic of an imported module total: defined for all operands, in operations that every pipeline has.

Arithmetic on whole tensors moves into `linalg.generic`, and named operations whose bodies have such arithmetic become
generic. Fast-math and overflow flags, which only permit deviations, are dropped.

A rule takes an operation on scalars, perhaps undefined for some operands in MLIR, and returns the values of its
results, defined for all operands, or None to leave the operation as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, linalg
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.linalg_builder import generalize
from mlirtri.lowering.mlir_common.reading import width_of
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

Rule = Callable[[ir.Operation], Sequence[ir.Value] | None]
RULES: Registry[str, Rule] = Registry("rule of defined arithmetic")
total = RULES.register
INTO_BODIES = (
    Pass("func.func(convert-elementwise-to-linalg)", "arithmetic on tensors becomes arithmetic on elements"),
)
PROMISES = ("isExact", "nonNeg")
"""Attributes by which an operation promises facts about its operands."""
FLAGS = {"fastmath": "#arith.fastmath<none>", "overflowFlags": "#arith.overflow<none>"}
"""The neutral values of flags that are properties: an operation without a value ends the process when printed."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Apply the rules to all of `module`, in place."""
    run_passes(module, INTO_BODIES, context)
    for operation in all_operations(module):
        if _is_named(operation) and any(inner.operation.name in RULES for inner in operation.regions[0].blocks[0]):
            generalize(operation)
    for operation in all_operations(module):
        _make_no_promises(operation)
        if (rule := RULES.get(operation.name)) is not None:
            with ir.InsertionPoint(operation), operation.location:
                values = rule(operation)
            if values is not None:
                replace(operation, values)


def _make_no_promises(operation: ir.Operation) -> None:
    for name in PROMISES:
        if name in operation.attributes:
            del operation.attributes[name]
    for name, none in FLAGS.items():
        if name in operation.attributes:
            operation.attributes[name] = ir.Attribute.parse(none)


def _is_named(operation: ir.Operation) -> bool:
    if not operation.name.startswith("linalg.") or operation.name == "linalg.generic":
        return False
    return bool(len(operation.regions)) and linalg.get_indexing_maps(operation) is not None


def literal(type_: ir.Type, value: float | int) -> ir.Value:
    """Return a constant of a scalar type; integers wrap to its width."""
    if isinstance(type_, ir.FloatType):
        return arith.constant(type_, ir.FloatAttr.get(type_, float(value)))
    width = width_of(type_)
    value = int(value) & ((1 << width) - 1)
    # The attribute of an i1 takes 0 and 1, that of a wider type the signed value.
    is_negative = width > 1 and value >> (width - 1)
    return arith.constant(type_, ir.IntegerAttr.get(type_, value - (1 << width) if is_negative else value))


def compare(predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return `arith.cmpi` (predicates ``eq``, ``slt``, ``ule``, …) or `arith.cmpf` (``OLT``, ``UNO``, …)."""
    if isinstance(x.type, ir.FloatType):
        return arith.cmpf(getattr(arith.CmpFPredicate, predicate), x, y)
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), x, y)
