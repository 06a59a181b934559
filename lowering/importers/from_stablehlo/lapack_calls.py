"""Lower JAX's calls of LAPACK (`custom_call @lapack_dgetrf_ffi` and others) by the decompositions of torch's operators.

A call is traced as a torch program of the routine's results, lowered to linalg, and its body put in the call's place.
Signs of vectors, which LAPACK does not define, may be others than JAX's.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Any

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.bindings.mlir import ir, operations_named, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.inline_entry import INLINE
from mlirtri.lowering.mlir_common.cloning import inlined, replace
from mlirtri.lowering.toolchain.mlir_passes import run_passes

if TYPE_CHECKING:
    from mlirtri.lowering.importers.from_torch.graph_to_torch import TorchGraph

CONFIGURATION, OPTIONS = "mhlo.backend_config", "mlirtri.lapack"
NAME = re.compile(r"lapack_[sdcz]([a-z]+)_ffi")


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Replace the calls of routines that torch's operators compute, in place; others stay."""
    for operation in operations_named(module, "stablehlo.custom_call"):
        found = NAME.fullmatch(ir.StringAttr(operation.attributes["call_target_name"]).value)
        kinds = [value.type for value in operation.operands]
        if found is None or not all(isinstance(kind, ir.RankedTensorType) and kind.has_static_shape for kind in kinds):
            continue
        body = _lowered(found[1], _options(operation), kinds, context)
        if body is None:
            continue
        with operation.location, ir.InsertionPoint(operation):
            function = ir.Module.parse(body, module.context)
            [entry] = public_functions(function)
            results = inlined(entry.regions[0].blocks[0], list(operation.operands))
        replace(operation, results)


def keep_options(operation: ir.Operation) -> None:
    """Keep the options of a call of LAPACK under a name of ours, before attributes of other dialects are dropped."""
    target = operation.attributes["call_target_name"]
    if CONFIGURATION in operation.attributes and NAME.fullmatch(ir.StringAttr(target).value):
        operation.attributes[OPTIONS] = operation.attributes[CONFIGURATION]


def _options(operation: ir.Operation) -> dict[str, int]:
    if OPTIONS not in operation.attributes:
        return {}
    numbers = {attribute.name: attribute.attr for attribute in ir.DictAttr(operation.attributes[OPTIONS])}
    return {key: ir.IntegerAttr(value).value for key, value in numbers.items() if isinstance(value, ir.IntegerAttr)}


def _lowered(
    routine: str, options: dict[str, int], kinds: list[ir.RankedTensorType], context: CompileContext
) -> str | None:
    """Return a module with one function of the routine's results, as text, None for a routine without rule."""
    # torch takes a second to load, and few programs have such calls.
    from mlirtri.lowering.importers.from_torch import graph_to_torch, torch_to_linalg
    from mlirtri.lowering.importers.from_torch.decompositions.matrices.lapack import OPTIONS_OF, ROUTINES

    if routine not in ROUTINES or any(name not in options for name in OPTIONS_OF.get(routine, ())):
        return None
    own = with_fields(context, kernel=f"lapack_{routine}", passes={})
    graph = _traced(routine, options, kinds)
    module = torch_to_linalg.to_linalg(graph_to_torch.lower(graph, own), own)
    with module.context:
        run_passes(module, INLINE, own)
    return str(module)


def _traced(routine: str, options: dict[str, int], kinds: list[ir.RankedTensorType]) -> TorchGraph:
    import torch

    from mlirtri.lowering.importers.from_torch.decompositions.decomposed_programs import decomposed
    from mlirtri.lowering.importers.from_torch.decompositions.matrices.lapack import Routine
    from mlirtri.lowering.importers.from_torch.graph_passes import items, known_results, python_numbers
    from mlirtri.lowering.importers.from_torch.graph_to_torch import TorchGraph
    from mlirtri.lowering.importers.from_torch.tracing.traceable_modules import EXPORTING

    examples = tuple(torch.ones(tuple(kind.shape), dtype=_dtype(kind)) for kind in kinds)
    with EXPORTING, warnings.catch_warnings():
        # torch warns about its own use of its own class.
        warnings.simplefilter("ignore", FutureWarning)
        exported = torch.export.export(Routine(routine, options), examples)
        module = decomposed(exported).graph_module
    items.rewrite(module.graph)
    python_numbers.rewrite(module.graph)
    known_results.fold_quotients(module.graph)
    known_results.empty_results(module.graph)
    module.recompile()
    return TorchGraph(module, {})


def _dtype(type_: ir.RankedTensorType) -> Any:
    import torch

    dtype = find_dtype(str(type_.element_type))
    return getattr(torch, dtype.name if dtype is not None else "float32")
