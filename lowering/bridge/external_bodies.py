"""Give calls of Relax operators and TensorIR functions bodies: in a function with loops they are compiled with it.

    func.func private @relax.sigmoid(tensor<4xf32>) -> tensor<4xf32> attributes {mlirtri.external = "relax", …}
        ──►  func.func private @relax.sigmoid(%x: tensor<4xf32>) { %0 = linalg.generic … }, and its calls are inlined

TVM legalises the operator to TIR, which the importer of Relax programs brings into linalg. Refuses what that refuses:
operators without TIR, and TensorIR that is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import func, ir, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.external.calls import calls_in
from mlirtri.lowering.importers.from_relax import relax_to_linalg
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite
from mlirtri.lowering.toolchain.tvm_names import IRModule

INLINE = (
    Pass("inline{default-pipeline= max-iterations=1000}", "what a loop calls is compiled with it"),
    Pass("symbol-dce", "functions that were inlined everywhere are dead"),
)
_BODY = "body"
"""The name of a function that is lowered by itself: a symbol that TVM takes as it is."""


def inline_calls(module: ir.Module, context: CompileContext, to_relax: Callable[[ir.Module], IRModule]) -> None:
    """Replace the external calls of `module` by what they compute; `to_relax` makes Relax of straight-line code."""
    with module.context, ir.Location.unknown():
        if not calls_in(module):
            return
        run_rewrite("external-bodies", lambda module: define(module, context, to_relax), module, context)
        run_passes(module, INLINE, context)


def define(module: ir.Module, context: CompileContext, to_relax: Callable[[ir.Module], IRModule]) -> None:
    """Give each declaration of an external function a body, in place; `to_relax` as in `inline_calls`."""
    declarations = {declaration.attributes["sym_name"].value: call for call, declaration in calls_in(module)}
    for symbol, call in declarations.items():
        with errors_at(call):
            # What its passes do is not this stage's.
            apart = replace(context, kernel=_BODY, passes={}, on_pass=None, keep_passes=False, params={})
            body = relax_to_linalg.lower(to_relax(_alone(module, call)), apart)
        parsed = ir.Module.parse(body.operation.get_asm(enable_debug_info=True))
        [function] = public_functions(parsed)
        next(each for each in module.body.operations if each.attributes["sym_name"].value == symbol).operation.erase()
        function.attributes["sym_name"] = ir.StringAttr.get(symbol)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        module.body.append(function)


def _alone(module: ir.Module, call: ir.Operation) -> ir.Module:
    """Return a module of one function that does nothing but such a call."""
    result = ir.Module.create()
    symbol = call.attributes["callee"].value
    declaration = next(each for each in module.body.operations if each.attributes["sym_name"].value == symbol)
    result.body.append(declaration.operation.clone())
    with ir.InsertionPoint(result.body), call.location:
        types = [value.type for value in call.operands], [value.type for value in call.results]
        function = func.FuncOp(_BODY, types)
        with ir.InsertionPoint(function.add_entry_block()):
            callee = call.attributes["callee"]
            func.ReturnOp(func.CallOp(types[1], callee, list(function.arguments)).operation.results)
    return result
