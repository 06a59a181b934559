"""CHLO and StableHLO → `stablehlo`: a program in the smaller language that upstream lowers to linalg.

Takes a module of `stablehlo` and `chlo` as JAX or another tool wrote it. Gives one public function, `context.kernel`,
of `stablehlo` alone, with static shapes wherever they follow from the arguments', and the signs of its arguments and
results in attributes (`imports.py`). Refuses functions that call themselves.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, ir, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_stablehlo import trivial as stablehlo_trivial
from mlirtri.lowering.importers.normalize import entry as import_entry
from mlirtri.lowering.mlir.attributes import argument_attributes, note_signs, result_attributes, set_signature
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_rewrite

COMPOSITES = (
    Pass("func.func(stablehlo-legalize-composite-to-call)", "a composite operation names the function that it means"),
)
SIMPLER = (
    Pass("func.func(chlo-legalize-to-stablehlo)", "functions such as erf become formulas"),
    Pass("func.func(stablehlo-legalize-deprecated-ops)", "older spellings become those that are lowered"),
    Pass("func.func(shape-legalize-to-stablehlo)", "sizes are tensors too"),
    Pass("stablehlo-refine-shapes", "sizes that follow from the arguments'"),
    Pass("func.func(stablehlo-canonicalize-dynamism)", "operations whose sizes are constants are static"),
    Pass("func.func(canonicalize)", "what nobody needs is no reason to refuse"),
)
FOREIGN = ("mhlo.", "jax.", "sdy.", "xla.", "tf.", "stablehlo.", "mosaic.")
"""Whose attributes say nothing to these pipelines."""


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Simplify `module`, in place; raises `KernelError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("without-foreign-attributes", _drop_foreign_attributes, module, context)
    module = run_isolated(module, COMPOSITES, context)
    with module.context, ir.Location.unknown():
        run_rewrite("one-entry", lambda each: import_entry.rewrite(each, context), module, context)
    module = run_isolated(module, SIMPLER, context)
    with module.context, ir.Location.unknown():
        run_rewrite("without-trivial-operations", stablehlo_trivial.rewrite, module, context)
        run_rewrite("signs-as-attributes", _note_signs, module, context)
    return module


def _note_signs(module: ir.Module) -> None:
    for function in public_functions(module):
        note_signs(function)


def _drop_foreign_attributes(module: ir.Module) -> None:
    for operation in all_operations(module):
        for name in [each for each in operation.attributes if each.startswith(FOREIGN)]:
            del operation.attributes[name]
        if operation.name == "func.func" and len(operation.regions[0].blocks):
            _drop_from_signature(operation)


def _drop_from_signature(operation: ir.Operation) -> None:
    function = operation.opview
    set_signature(function, _own(argument_attributes(function)), _own(result_attributes(function)))


def _own(groups: list[dict[str, ir.Attribute]]) -> list[dict[str, ir.Attribute]]:
    return [{name: value for name, value in each.items() if not name.startswith(FOREIGN)} for each in groups]
