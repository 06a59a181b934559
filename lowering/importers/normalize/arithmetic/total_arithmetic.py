"""Make the arithmetic of an imported module total: defined for all operands, in operations that every pipeline has.

Arithmetic on whole tensors moves into `linalg.generic`, and named operations whose bodies have such arithmetic become
generic. Fast-math and overflow flags, which only permit deviations, are dropped.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, ir, linalg
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic import floats, integers
from mlirtri.lowering.importers.normalize.arithmetic.rules import RULES
from mlirtri.lowering.mlir.cloning import replace
from mlirtri.lowering.mlir.linalg_builder import generalize
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

__all__ = ["floats", "integers", "rewrite"]

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
