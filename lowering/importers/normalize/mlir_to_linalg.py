"""Imported MLIR → `linalg`: lower any module of linalg on tensors to the normal form that later stages take.

What the runtime has to know about arguments and results is in their attributes (`lowering/mlir_common/attributes.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize import (
    asserts,
    bodies,
    complex_numbers,
    constants,
    control_flow,
    decompositions,
    empty_tensors,
    global_variables,
    inline_entry,
    partial_outputs,
    refused_programs,
    signatures,
    storage_types,
    tm_tensor,
)
from mlirtri.lowering.importers.normalize.arithmetic import floats, integers, total_arithmetic  # noqa: F401 - rules
from mlirtri.lowering.importers.normalize.sizes import infer_sizes
from mlirtri.lowering.mlir_common.attributes import IMPORTED
from mlirtri.lowering.toolchain.mlir_passes import run_rewrite

Step = Callable[[ir.Module, CompileContext], None]

STEPS: tuple[tuple[str, Step], ...] = (
    ("one-entry", inline_entry.rewrite),
    ("control-flow", control_flow.rewrite),
    ("globals-to-states", global_variables.rewrite),
    ("constants-to-parameters", constants.rewrite),
    ("limits", refused_programs.check),
    ("scalars-to-tensors", signatures.rewrite),
    ("stored-types-to-integers", storage_types.rewrite),
    ("sizes-of-arguments", infer_sizes.rewrite),
    ("structured-operations", decompositions.rewrite),
    ("complex-to-parts", complex_numbers.rewrite),
    ("tm-tensor-to-loops", tm_tensor.rewrite),
    ("asserts-to-checks", asserts.rewrite),
    ("zero-sized-tensors", empty_tensors.replace_zero_sized),
    ("undefined-elements", empty_tensors.fill_undefined),
    ("partial-outputs-to-loops", partial_outputs.rewrite),
    ("total-arithmetic", total_arithmetic.rewrite),
    ("straight-line-bodies", bodies.rewrite),
    ("new-constants-to-parameters", constants.rewrite),
)
"""The name of each step, as it shows among the passes of the stage, and its rewrite."""


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module` to the normal form, in place; raises `KernelError`."""
    with module.context, ir.Location.unknown():
        for name, rewrite in STEPS:
            run_rewrite(name, lambda module, rewrite=rewrite: rewrite(module, context), module, context)
        [function] = public_functions(module)
        function.attributes[IMPORTED] = ir.UnitAttr.get()
    return module
