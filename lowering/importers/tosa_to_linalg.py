"""TOSA → `linalg`: upstream's lowering, then the steps of all imported MLIR."""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.untranslatable import refuse
from mlirtri.lowering.importers.normalize import inline_entry, mlir_to_linalg
from mlirtri.lowering.mlir_common.attributes import note_signs
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.reading import integer_constant
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

TO_LINALG = (
    Pass("func.func(tosa-convert-integer-type-to-signless)", "linalg has no signs"),
    Pass("func.func(tosa-optional-decompositions)", "some convolutions are products"),
    Pass("func.func(canonicalize)", "dead operations of the decompositions"),
    Pass("func.func(tosa-infer-shapes)", "sizes that follow from those of the arguments"),
    Pass("func.func(tosa-make-broadcastable)", "operands of one rank"),
    Pass("func.func(tosa-to-linalg-named)", "convolutions, products and pools keep their names"),
    Pass("func.func(canonicalize)", "dead operations of the lowering to named operations"),
    Pass("func.func(tosa-layerwise-constant-fold)", "constants of weights are transposed now"),
    Pass("func.func(tosa-make-broadcastable)", "operands of one rank, also of what was folded"),
    Pass("func.func(tosa-to-linalg)", "the others become structured operations"),
    Pass("func.func(tosa-to-tensor)", "padding, slices and concatenations"),
    Pass("func.func(tosa-to-scf)", "loops and branches"),
    Pass("func.func(tosa-to-arith{include-apply-rescale=true})", "constants, and the scaling of quantised values"),
    Pass("tosa-to-mlprogram", "variables are globals"),
    Pass("canonicalize", "dead operations of the lowering"),
)


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Lower `module`, in place; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("one-entry", lambda module: inline_entry.rewrite(module, context), module, context)
        run_rewrite("signs-as-attributes", _note_signs, module, context)
        run_passes(module, TO_LINALG, context)
        run_rewrite("static-paddings", _static_paddings, module, context)
        refuse(_not_lowered(module), "linalg", "compute it outside of the program, or write it with other operations")
    return mlir_to_linalg.lower(module, context)


def _note_signs(module: ir.Module) -> None:
    for function in public_functions(module):
        note_signs(function.opview)


def _static_paddings(module: ir.Module) -> None:
    """Make constant widths of paddings static, which no pass does."""
    for operation in operations_named(module, "tensor.pad"):
        low, high = _widths(operation, "static_low", 1), _widths(operation, "static_high", 2)
        if low is None or high is None or len(operation.operands) == 1:
            continue
        attributes = {
            "static_low": ir.DenseI64ArrayAttr.get(low),
            "static_high": ir.DenseI64ArrayAttr.get(high),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
        }
        with operation.location, ir.InsertionPoint(operation):
            types = [result.type for result in operation.results]
            pad = ir.Operation.create("tensor.pad", types, [operation.operands[0]], attributes, regions=1)
        operation.regions[0].blocks[0].append_to(pad.regions[0])
        replace(operation, [pad.results[0]])


def _widths(operation: ir.Operation, name: str, segment: int) -> list[int] | None:
    sizes = list(ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"]))
    start = sum(sizes[:segment])
    dynamic_widths = iter(list(operation.operands)[start : start + sizes[segment]])
    dynamic = ir.ShapedType.get_dynamic_size()
    static = list(ir.DenseI64ArrayAttr(operation.attributes[name]))
    widths = [integer_constant(next(dynamic_widths)) if width == dynamic else width for width in static]
    constants = [width for width in widths if width is not None]
    return constants if len(constants) == len(widths) else None


def _not_lowered(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    for operation in all_operations(module):
        if operation.name.startswith("tosa."):
            yield operation, operation.name
