"""ONNX → `torch`: torch-mlir's importer, and its lowering of ONNX's operators to torch's."""

from __future__ import annotations

import re

from mlirtri.dialect.bindings.locations import location_of, name_of, span_of
from mlirtri.dialect.bindings.mlir import (
    all_operations,
    ir,
    load_torch,
    onnx_importer,
    operations_named,
    public_functions,
)
from mlirtri.dialect.definition import new_context
from mlirtri.errors import PassFailedError, Span, UnsupportedOperationError
from mlirtri.lowering.core.interface import unique_name
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.from_onnx import torch_loops
from mlirtri.lowering.importers.from_onnx.graph import OnnxGraph
from mlirtri.lowering.importers.from_torch.builder import cast, element_of, integer, tensor_op
from mlirtri.lowering.importers.from_torch.refused import refuse_operators
from mlirtri.lowering.mlir_common.attributes import (
    BOUND,
    NAME,
    SIZES,
    argument_attributes,
    note_signs,
    result_attributes,
    set_signature,
)
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.toolchain.isolated_passes import run_isolated
from mlirtri.lowering.toolchain.mlir_passes import Pass

TO_TORCH = (Pass("torch-onnx-to-torch-backend-pipeline", "ONNX's operators become torch's"),)


def lower(graph: OnnxGraph, context: CompileContext) -> ir.Module:
    """Import `graph` as the only function of the module; raises `UnsupportedOperationError`."""
    module_context = new_context()
    load_torch(module_context)
    module = imported(graph, module_context)
    with module_context, ir.Location.unknown():
        _bitcast(module)
        _cast_to_16_bits(module)
        torch_loops.rewrite(module)
        _describe(module, graph)
    try:
        return _lowered(module, context)
    except PassFailedError as error:
        refuse_operators(module, error, _lowered, context)


def _lowered(module: ir.Module, context: CompileContext) -> ir.Module:
    return run_isolated(module, TO_TORCH, context)


def imported(graph: OnnxGraph, context: ir.Context) -> ir.Module:
    """Return the model as ONNX operators in the torch dialect; raises `UnsupportedOperationError`."""
    importer = onnx_importer()
    info = importer.ModelInfo(graph.model, config=importer.Config())
    module = info.create_module(context=context)
    try:
        importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        module.operation.verify()
        _locate(module, graph)
    except Exception as error:  # the importer looks at nothing before it does it
        message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnsupportedOperationError(f"torch-mlir does not import this ONNX model: {message}") from error
    return module


def _locate(module: ir.Module, graph: OnnxGraph) -> None:
    """Give every operation the line of its node, and a name that MLIR prints; the importer records the node's alone."""
    lines = graph.lines
    with module.context:
        for operation in all_operations(module):
            name = name_of(operation.location)
            line = _line(name, lines)
            if line:
                operation.location = location_of(Span(graph.file, line, 1), _value_name(name))


def _value_name(name: str | None) -> str | None:
    """Return a name without what MLIR prints as hexadecimal digits: the slashes, colons and the like of exporters."""
    return re.sub(r"[^\w.$-]+", "_", re.sub(r"/+", ".", name.strip("/:")), flags=re.ASCII) or None if name else None


def _bitcast(module: ir.Module) -> None:
    """Make torch's views of `BitCast`, which torch-mlir does not lower from ONNX."""
    for operation in operations_named(module, "torch.operator"):
        if ir.StringAttr(operation.attributes["name"]).value == "onnx.BitCast":
            with operation.location, ir.InsertionPoint(operation):
                [source], kind = operation.operands, operation.results[0].type
                # The repair of the view reads its types, not this number.
                view = tensor_op("view.dtype", kind, source, integer(0))
                replace(operation, [view])


SIXTEEN_BITS = {4: "ui16", 5: "si16"}
"""ONNX's numbers of 16-bit integers, to which torch-mlir lowers no casts."""


def _cast_to_16_bits(module: ir.Module) -> None:
    """Cast to a signed integer by torch's operator, and view its bits as those of an unsigned one."""
    for operation in operations_named(module, "torch.operator"):
        if ir.StringAttr(operation.attributes["name"]).value != "onnx.Cast":
            continue
        [source], kind = operation.operands, operation.results[0].type
        element = SIXTEEN_BITS.get(ir.IntegerAttr(operation.attributes["torch.onnx.to"]).value)
        if element is None or element_of(source) in (element, "ui64"):
            continue
        with operation.location, ir.InsertionPoint(operation):
            value = cast(cast(source, "si32"), "si16")
            if element == "ui16":
                value = tensor_op("view.dtype", kind, value, integer(0))
            replace(operation, [value])


def _line(name: str | None, lines: dict[str, int]) -> int:
    """Return the line of a node, or of the node that it was made from, whose name stands before a dot."""
    while name and name not in lines:
        name = name.rpartition(".")[0]
    return lines[name] if name else 0


def _describe(module: ir.Module, graph: OnnxGraph) -> None:
    [function] = public_functions(module)
    function = function.opview
    note_signs(function)
    arguments, values = argument_attributes(function), list(graph.model.graph.input)
    taken = {value.name for value in values}
    for argument, attributes, value in zip(function.arguments, arguments, values, strict=True):
        if (name := _value_name(value.name) or "input") != value.name:
            name = unique_name(name, taken)
            taken.add(name)
            argument.set_location(location_of(span_of(argument.location), name))
            attributes[NAME] = ir.StringAttr.get(value.name)
        if value.name in graph.bound:
            attributes[BOUND] = ir.StringAttr.get(value.name)
            attributes.pop(NAME, None)
        # Sizes of one name are equal sizes.
        names = [size.dim_param for size in value.type.tensor_type.shape.dim]
        if any(names):
            attributes[SIZES] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
    for name in [attribute for attribute in function.attributes if attribute.startswith("torch.onnx_meta")]:
        if name != "torch.onnx_meta.opset_version":
            del function.attributes[name]
    set_signature(function, arguments, result_attributes(function))
