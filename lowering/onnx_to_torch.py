"""ONNX → `torch`: torch-mlir's importer, and its lowering of ONNX's operators to torch's.

Takes an `OnnxGraph`. Gives a module with one function in the torch dialect, whose bound arguments are marked, and whose
operations have the names of the nodes as locations. Refuses, all at once, the nodes that torch-mlir cannot lower.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.definition import new_context
from mlirtri.dialect.mlir import ir, load_torch, onnx_importer, public_functions
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.imports import BOUND, argument_attributes, note_signs, result_attributes, set_signature
from mlirtri.lowering.isolated_passes import run_isolated
from mlirtri.lowering.mlir_passes import Pass
from mlirtri.lowering.onnx_graph import OnnxGraph
from mlirtri.lowering.stage import CompileContext

TO_TORCH = (Pass("torch-onnx-to-torch-backend-pipeline", "ONNX's operators become torch's"),)
EXPANDED = {"": {"MeanVarianceNormalization"}}
"""Operators without a lowering whose definition in terms of others torch-mlir can lower, by domain."""


def lower(graph: OnnxGraph, context: CompileContext) -> ir.Module:
    """Import `graph` as its only function; raises `UnsupportedOperationError`."""
    module_context = new_context()
    load_torch(module_context)
    module = imported(graph.model, module_context)
    with module_context, ir.Location.unknown():
        _describe(module, graph)
    return run_isolated(module, TO_TORCH, context)


def imported(model: Any, context: ir.Context) -> ir.Module:
    """The model in torch's dialect as operators of ONNX; raises `UnsupportedOperationError`."""
    importer = onnx_importer()
    config = importer.Config(function_expansion_allowlists_by_domain=EXPANDED)
    info = importer.ModelInfo(model, config=config)
    module = info.create_module(context=context)
    try:
        importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        module.operation.verify()
    except (importer.OnnxImportError, ir.MLIRError, AssertionError, KeyError, ValueError, TypeError) as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnsupportedOperationError(f"torch-mlir does not import this ONNX model: {message}") from error
    return module


def _describe(module: ir.Module, graph: OnnxGraph) -> None:
    """Say which arguments are bound and which are unsigned."""
    [function] = public_functions(module)
    function = function.opview
    note_signs(function)
    arguments = argument_attributes(function)
    for attributes, value in zip(arguments, graph.model.graph.input, strict=True):
        if value.name in graph.bound:
            attributes[BOUND] = ir.StringAttr.get(value.name)
    for name in [each for each in function.attributes if each.startswith("torch.onnx_meta")]:
        if name != "torch.onnx_meta.opset_version":
            del function.attributes[name]
    set_signature(function, arguments, result_attributes(function))
