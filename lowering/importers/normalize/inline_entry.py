"""Reduce an imported module to one public function: the entry, `context.kernel`, with all calls inlined."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations_in, ir, public_functions
from mlirtri.errors import KernelError, Note, ParseError, UnsupportedOperationError, raise_all
from mlirtri.lowering.core.interface import kernel_names
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.external.calls import KIND
from mlirtri.lowering.mlir_common.reading import symbol_name
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

DROP = (Pass("symbol-dce", "functions that the entry does not need are not checked"),)
STRUCTURED = (Pass("lift-cf-to-scf", "branches between blocks become loops and ifs"),)
INLINE = (
    Pass("inline{default-pipeline= max-iterations=1000}", "the bridge translates one function"),
    Pass("symbol-dce", "functions that were inlined everywhere are dead"),
)
LARGEST_PROGRAM = 4_000_000
"""The most operations after inlining: a few lines of nested calls can expand without end."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Keep the entry alone, named as its kernel; raises `KernelError`."""
    keep_entry(module, context)
    if any(len(function.regions[0].blocks) > 1 for function in _functions(module).values()):
        run_passes(module, STRUCTURED, context)
    functions = _functions(module)
    entry = functions[symbol_name(public_functions(module)[0])]
    if len(functions) > 1 or _calls(entry):
        _check_calls(entry, functions)
        run_passes(module, INLINE, context)
    [function] = public_functions(module)
    function.attributes["sym_name"] = ir.StringAttr.get(context.kernel)


def keep_entry(module: ir.Module, context: CompileContext) -> None:
    """Drop what the entry does not need; symbols keep their names. Raises `ParseError` without such an entry."""
    functions = public_functions(module)
    kernels = kernel_names([symbol_name(function) for function in functions])
    entries = [function for function in functions if kernels[symbol_name(function)] == context.kernel]
    if not entries:
        raise ParseError(f"the module has no public function {context.kernel!r}")
    for operation in module.body.operations:
        if "sym_name" in operation.attributes and operation not in entries:
            operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
    run_passes(module, DROP, context)


def _functions(module: ir.Module) -> dict[str, ir.OpView]:
    return {
        symbol_name(operation): operation
        for operation in module.body.operations
        if operation.operation.name == "func.func"
    }


def _calls(function: ir.OpView) -> list[ir.Operation]:
    return [operation for operation in all_operations_in(function) if operation.name == "func.call"]


def _callee(call: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _check_calls(entry: ir.OpView, functions: dict[str, ir.OpView]) -> None:
    calls = {name: _calls(function) for name, function in functions.items()}
    raise_all([problem for calls in calls.values() for call in calls if (problem := _error_of_call(call, functions))])
    graph = {name: [_callee(call) for call in calls] for name, calls in calls.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise _recursion_error(error.args[1][::-1], calls) from None
    sizes: dict[str, int] = {}
    for name in order:
        sizes[name] = len(all_operations_in(functions[name])) + sum(sizes[callee] for callee in graph[name])
    if sizes[symbol_name(entry)] > LARGEST_PROGRAM:
        raise UnsupportedOperationError(
            f"{symbol_name(entry)!r} has {sizes[symbol_name(entry)]} operations once all calls are inlined",
            span_of(entry.location),
            help=f"up to {LARGEST_PROGRAM} are compiled",
        )


def _error_of_call(call: ir.Operation, functions: dict[str, ir.OpView]) -> KernelError | None:
    callee = functions.get(_callee(call))
    if callee is not None and (len(callee.regions[0].blocks) or KIND in callee.attributes):
        return None
    return UnsupportedOperationError(
        f"{_callee(call)!r} is called, and has no body",
        span_of(call.location),
        help="a module has to hold all functions that it calls: link the modules, or remove the call",
    )


def _recursion_error(cycle: list[str], calls: dict[str, list[ir.Operation]]) -> KernelError:
    spans = [
        next(span_of(call.location) for call in calls[caller] if _callee(call) == callee)
        for caller, callee in pairwise(cycle)
    ]
    notes = [
        Note(f"{caller!r} calls {callee!r} here", span)
        for (caller, callee), span in list(zip(pairwise(cycle), spans, strict=True))[1:]
    ]
    return UnsupportedOperationError(
        f"{cycle[0]!r} calls itself" + f" through {', '.join(map(repr, cycle[1:-1]))}" * (len(cycle) > 2),
        spans[0],
        help="write it as a loop (scf.for, scf.while)",
        notes=notes,
    )
