"""Imported MLIR → `linalg`: any module of linalg on tensors becomes what the rooms below take.

Takes a module as somebody else's tool wrote it, of several functions perhaps, and `context.entry`, the one that is
wanted. Gives one public function of tensors in the normal form, whose facts for the runtime are attributes of its
arguments and results (`imports.py`). The steps stand in the order in which they run, each in a file of its own.
Refuses what no step and no later room has a translation for.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize import (
    asserts as import_asserts,
)
from mlirtri.lowering.importers.normalize import (
    bodies as import_bodies,
)
from mlirtri.lowering.importers.normalize import (
    boundary as import_boundary,
)
from mlirtri.lowering.importers.normalize import (
    complex_numbers as import_complex,
)
from mlirtri.lowering.importers.normalize import (
    constants as import_constants,
)
from mlirtri.lowering.importers.normalize import (
    control as import_control,
)
from mlirtri.lowering.importers.normalize import (
    elementless as import_elementless,
)
from mlirtri.lowering.importers.normalize import (
    empties as import_empties,
)
from mlirtri.lowering.importers.normalize import (
    entry as import_entry,
)
from mlirtri.lowering.importers.normalize import (
    globals as import_globals,
)
from mlirtri.lowering.importers.normalize import (
    limits as import_limits,
)
from mlirtri.lowering.importers.normalize import (
    partial_outputs as import_partial_outputs,
)
from mlirtri.lowering.importers.normalize import (
    storage as import_storage,
)
from mlirtri.lowering.importers.normalize import (
    structured as import_structured,
)
from mlirtri.lowering.importers.normalize import (
    tm_tensor as import_tm_tensor,
)
from mlirtri.lowering.importers.normalize.arithmetic import step as import_arithmetic
from mlirtri.lowering.importers.normalize.sizes import step as import_sizes
from mlirtri.lowering.mlir.attributes import IMPORTED
from mlirtri.lowering.toolchain.mlir_passes import run_rewrite

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
