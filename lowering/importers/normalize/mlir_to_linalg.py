"""Imported MLIR → `linalg`: any module of linalg on tensors becomes what the rooms below take.

Takes a module as somebody else's tool wrote it, of several functions perhaps, and `context.entry`, the one that is
wanted. Gives one public function of tensors in the normal form, whose facts for the runtime are attributes of its
arguments and results (`imports.py`). The steps stand in the order in which they run, each in a file of its own.
Refuses what no step and no later room has a translation for.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.lowering.importers.normalize.arithmetic import step as import_arithmetic
from mlirtri.lowering.importers.normalize import (
    asserts as import_asserts,
    bodies as import_bodies,
    boundary as import_boundary,
    complex_numbers as import_complex,
    constants as import_constants,
    control as import_control,
    elementless as import_elementless,
    empties as import_empties,
    entry as import_entry,
    globals as import_globals,
    limits as import_limits,
    partial_outputs as import_partial_outputs,
    storage as import_storage,
    structured as import_structured,
    tm_tensor as import_tm_tensor,
)
from mlirtri.lowering.importers.normalize.sizes import step as import_sizes
from mlirtri.lowering.mlir.attributes import IMPORTED
from mlirtri.lowering.toolchain.mlir_passes import run_rewrite
from mlirtri.lowering.core.stage import CompileContext

Step = Callable[[ir.Module, CompileContext], None]

STEPS: tuple[tuple[str, Step], ...] = (
    ("one-entry", import_entry.rewrite),
    ("control-flow", import_control.rewrite),
    ("globals-to-states", import_globals.rewrite),
    ("constants-to-parameters", import_constants.rewrite),
    ("limits", import_limits.rewrite),
    ("numbers-to-tensors", import_boundary.rewrite),
    ("stored-types-to-integers", import_storage.rewrite),
    ("sizes-of-arguments", import_sizes.rewrite),
    ("structured-operations", import_structured.rewrite),
    ("complex-to-parts", import_complex.rewrite),
    ("torch-operations", import_tm_tensor.rewrite),
    ("asserts-to-checks", import_asserts.rewrite),
    ("no-elements", import_elementless.rewrite),
    ("undefined-elements", import_empties.rewrite),
    ("partial-outputs-to-loops", import_partial_outputs.rewrite),
    ("total-arithmetic", import_arithmetic.rewrite),
    ("straight-bodies", import_bodies.rewrite),
    ("new-constants-to-parameters", import_constants.rewrite),
)
"""Name of a step, as it shows among the passes of the stage, and what it does."""


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Bring `module` into the normal form, in place; raises `KernelError`."""
    with module.context, ir.Location.unknown():
        for name, step in STEPS:
            run_rewrite(name, lambda each, step=step: step(each, context), module, context)
        [function] = public_functions(module)
        function.attributes[IMPORTED] = ir.UnitAttr.get()
    return module
