"""CHLO and StableHLO → `stablehlo`: one function, `context.kernel`, in the smaller language that upstream lowers.

Shapes are static wherever they follow from the arguments', and the signs of arguments and results are in attributes.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named, public_functions, tensor
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.importers.from_stablehlo import quantized_types
from mlirtri.lowering.importers.from_stablehlo.lapack_calls import keep_options
from mlirtri.lowering.importers.normalize import inline_entry
from mlirtri.lowering.mlir_common.attributes import argument_attributes, note_signs, result_attributes, set_signature
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.reading import defined_by
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_rewrite

COMPOSITES = (Pass("func.func(stablehlo-legalize-composite-to-call)", "a composite operation calls its decomposition"),)
SIMPLER = (
    Pass("func.func(chlo-legalize-to-stablehlo)", "functions such as erf become formulas"),
    Pass(
        "func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false})",
        "deprecated operations become those that are lowered",
    ),
    Pass("func.func(shape-legalize-to-stablehlo)", "sizes are tensors too"),
    Pass("stablehlo-refine-shapes", "sizes that follow from those of the arguments"),
    Pass("func.func(stablehlo-canonicalize-dynamism)", "operations whose sizes are constants are static"),
    Pass("func.func(canonicalize)", "dead operations are no reason to refuse"),
)
FOREIGN = ("mhlo.", "jax.", "sdy.", "xla.", "tf.", "stablehlo.", "mosaic.")
"""Prefixes of attributes that these pipelines ignore."""
FUNCTIONS = {
    f"mhlo.{name}": f"chlo.{name}"
    for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erf_inv", "sinh", "tan")
}
"""Calls by which JAX exports functions of CHLO."""
PLACEMENTS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
"""Calls that say on which device a tensor lies: on a single one, the tensor itself."""


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Simplify `module`, in place; raises `KernelError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("known-calls", _replace_known_calls, module, context)
        run_rewrite("without-foreign-attributes", _drop_foreign_attributes, module, context)
    module = run_isolated(module, COMPOSITES, context)
    with module.context, ir.Location.unknown():
        run_rewrite("one-entry", lambda module: inline_entry.rewrite(module, context), module, context)
        run_rewrite("quantized-types", quantized_types.rewrite, module, context)
    module = run_isolated(module, SIMPLER, context)
    with module.context, ir.Location.unknown():
        generators = [(operation, operation.name) for operation in operations_named(module, "stablehlo.rng")]
        refuse(generators, "linalg", "draw numbers by rng_bit_generator, whose state is an argument and a result")
        run_rewrite("without-trivial-operations", _fold_trivial, module, context)
        run_rewrite("sums-of-booleans", _or_booleans, module, context)
        run_rewrite("signs-as-attributes", _note_signs, module, context)
    return module


def _note_signs(module: ir.Module) -> None:
    for function in public_functions(module):
        note_signs(function)


def _replace_known_calls(module: ir.Module) -> None:
    for operation in operations_named(module, "stablehlo.custom_call"):
        with operation.location, ir.InsertionPoint(operation):
            values = _values_of_call(operation)
        if values is not None:
            replace(operation, values)


def _values_of_call(operation: ir.Operation) -> list[ir.Value] | None:
    name = ir.StringAttr(operation.attributes["call_target_name"]).value
    operands, types = list(operation.operands), [result.type for result in operation.results]
    if name in PLACEMENTS and [operand.type for operand in operands] == types:
        return operands
    if name in FUNCTIONS and len(operands) == len(types) == 1:
        return list(ir.Operation.create(FUNCTIONS[name], types, operands).results)
    options = operation.attributes["mhlo.attributes"] if "mhlo.attributes" in operation.attributes else {}
    if name == "mhlo.topk" and "k" in options and "largest" in options and ir.BoolAttr(options["largest"]).value:
        count = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ir.IntegerAttr(options["k"]).value)
        return list(ir.Operation.create("chlo.top_k", types, operands, {"k": count}).results)
    return None


def _drop_foreign_attributes(module: ir.Module) -> None:
    for operation in all_operations(module):
        if operation.name == "stablehlo.custom_call":
            keep_options(operation)
        for name in [name for name in operation.attributes if name.startswith(FOREIGN)]:
            del operation.attributes[name]
        if operation.name == "func.func" and len(operation.regions[0].blocks):
            _drop_from_signature(operation)


def _drop_from_signature(operation: ir.Operation) -> None:
    function = operation.opview
    set_signature(function, _own(argument_attributes(function)), _own(result_attributes(function)))


def _own(groups: list[dict[str, ir.Attribute]]) -> list[dict[str, ir.Attribute]]:
    return [
        {name: value for name, value in attributes.items() if not name.startswith(FOREIGN)} for attributes in groups
    ]


KEPT = ("stablehlo.while", "stablehlo.if", "stablehlo.case", "stablehlo.return", "stablehlo.custom_call")


def _fold_trivial(module: ir.Module) -> None:
    """Replace operations that compute nothing: on tensors without elements, barriers, casts to the same type."""
    # Operations in regions come after their parents and are erased with them: walk backwards.
    for operation in reversed(operations_named(module, "stablehlo.*")):
        if operation.name in KEPT or not len(operation.results):
            continue
        with operation.location, ir.InsertionPoint(operation):
            values = _values(operation)
        if values is None:
            continue
        replace(operation, values)


def _values(operation: ir.Operation) -> list[ir.Value] | None:
    if operation.name == "stablehlo.optimization_barrier":
        return list(operation.operands)
    if operation.name == "stablehlo.get_tuple_element":
        elements = defined_by(operation.operands[0], "stablehlo.tuple")
        return elements and [elements.operands[ir.IntegerAttr(operation.attributes["index"]).value]]
    types = [result.type for result in operation.results]
    if operation.name == "stablehlo.bitcast_convert" and operation.operands[0].type == types[0]:
        # Upstream's lowering of a complex one ends the process.
        return list(operation.operands)
    if all(_is_empty(kind) for kind in types):
        return [tensor.empty(list(kind.shape), kind.element_type) for kind in types]
    if operation.name == "stablehlo.reduce" and _is_empty(operation.operands[0].type):
        initial = list(operation.operands)[len(types) :]
        return [_filled(value, kind) for value, kind in zip(initial, types, strict=True)]
    if operation.name == "stablehlo.reduce" and not len(ir.DenseI64ArrayAttr(operation.attributes["dimensions"])):
        # StableHLO requires the initial values to be identities of the reduction.
        return list(operation.operands)[: len(types)]
    return None


def _or_booleans(module: ir.Module) -> None:
    """Replace sums of booleans: StableHLO defines them as a logical or, and upstream adds numbers of one bit."""
    for operation in operations_named(module, "stablehlo.add"):
        kind = operation.results[0].type
        if str(ir.ShapedType(kind).element_type) == "i1":
            with operation.location, ir.InsertionPoint(operation):
                either = ir.Operation.create("stablehlo.or", [kind], list(operation.operands)).result
            replace(operation, [either])


def _is_empty(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape and 0 in type_.shape


def _filled(scalar: ir.Value, type_: ir.Type) -> ir.Value:
    dimensions = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
    return ir.Operation.create("stablehlo.broadcast_in_dim", [type_], [scalar], dimensions).result
