"""Explain which calls of a Relax function were fused, by TVM and by rows, and why others were not.

Runs the passes of `relax_to_tir` once more, with each call's blocks marked by its number, and looks which marks ended
in one PrimFunc. Gives an `Edge` for each pair.
"""

from __future__ import annotations

from mlirtri.lowering.core.stage import CompileContext, Edge
from mlirtri.lowering.relax import relax_to_tir
from mlirtri.lowering.relax.call_merging import Dependencies
from mlirtri.lowering.relax.legalized import block_with
from mlirtri.lowering.relax.row_fusion import Separations
from mlirtri.lowering.tir.product_recognition import OP_PATTERN, OPAQUE
from mlirtri.lowering.toolchain.tvm_names import (
    BINDING_LOCATIONS,
    LOCATION,
    Binding,
    IRModule,
    PrimFunc,
    SBlock,
    relax,
    structural_map,
    structural_walk,
)
from mlirtri.lowering.toolchain.tvm_passes import bindings_of, operator_of, relax_functions


def explain(mod: IRModule, context: CompileContext) -> list[Edge]:
    """Return the edges of the module's Relax function, in the order of their consumers."""
    [(name, function)] = relax_functions(mod)
    calls = [binding for binding in bindings_of(function) if operator_of(binding) is not None]
    lines = {str(key): str(line) for key, line in ((function.attrs or {}).get(BINDING_LOCATIONS, {})).items()}
    marked = _marked(mod, name, function, calls)
    steps = relax_to_tir.fused(marked, context)
    groups = _groups(steps[0]), _groups(steps[1])
    separations = Separations(steps[0], context.target, _calls_in)
    edges = []
    for index, (binding, producers) in enumerate(zip(calls, Dependencies(calls).reads, strict=True)):
        for producer in producers:
            verdict = _verdict(mod, calls, (producer, index), groups, separations)
            names = (_shown(calls[producer]), _shown(binding))
            edges.append(Edge("tir", *names, lines.get(binding.var.name, ""), *verdict))
    return edges


def _shown(binding: Binding) -> str:
    call = binding.value
    callee = call.args[0].name_hint if operator_of(binding).startswith("relax.call_tir") else operator_of(binding)
    return f"{callee.removeprefix('relax.')} {binding.var.name}"


def _marked(mod: IRModule, name: str, function: relax.Function, calls: list[Binding]) -> IRModule:
    """Return the module in which the source line of each block is the index of the call that it belongs to."""

    def bare(block: SBlock) -> SBlock:
        others = {key: value for key, value in block.annotations.items() if key != LOCATION}
        return block_with(block, annotations=others)

    functions = {}
    for gv, callee in mod.functions_items():
        if isinstance(callee, PrimFunc):
            callee = callee.with_body(structural_map(callee.body, (SBlock, bare), order="post"))
        elif gv.name_hint == name:
            numbers = {binding.var.name: f"{index}:1:1" for index, binding in enumerate(calls)}
            callee = function.with_attrs({BINDING_LOCATIONS: numbers})
        functions[gv] = callee
    return IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def _groups(mod: IRModule) -> list[set[int]]:
    return [_calls_in(function) for _, function in mod.functions_items() if isinstance(function, PrimFunc)]


def _number(block: SBlock) -> set[int]:
    return {int(str(block.annotations[LOCATION]).partition(":")[0])} if LOCATION in block.annotations else set()


def _verdict(
    mod: IRModule,
    calls: list[Binding],
    edge: tuple[int, int],
    groups: tuple[list[set[int]], list[set[int]]],
    separations: Separations,
) -> tuple[bool, str, str]:
    """Return whether both calls are in one kernel, by which pass or for which obstacle, and why."""
    both, (by_tvm, final) = set(edge), groups
    if any(both <= group for group in by_tvm):
        return True, "epilogue", "TVM computes both in one loop nest, or one right after the other"
    for group in final:
        if both <= group:
            return True, "rows", "both go along the same rows, which stay in cache"
    producer, consumer = (calls[index] for index in edge)
    for call in (producer, consumer):
        if _is_opaque(mod, call):
            return False, "extern", f"{_shown(call).split()[0]} says no op_pattern: nothing looks into it"
    if not all(any(index in group for group in final) for index in edge):
        return True, "folded", "one of both is a view, or known before the kernel runs"
    reason = separations.reason(*edge)
    return False, reason.obstacle.value, str(reason)


def _calls_in(function: PrimFunc) -> set[int]:
    numbers: set[int] = set()
    structural_walk(function.body, (SBlock, lambda block: numbers.update(_number(block))))
    return numbers


def _is_opaque(mod: IRModule, binding: Binding) -> bool:
    operator = operator_of(binding)
    if operator.startswith("relax.call_") and operator != "relax.call_tir":
        return True
    if operator != "relax.call_tir":
        return False
    attributes = mod[binding.value.args[0]].attrs or {}
    return int(attributes.get(OP_PATTERN, 0)) == OPAQUE
