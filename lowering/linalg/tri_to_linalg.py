"""Lower `tri` operations to `linalg`, `tensor` and `arith`: the stage `linalg`.

Composite operations are decomposed first. Elementwise operations become one `linalg.generic` each, with their scalar
rule as the body; the next stage fuses them. Imperative functions are lowered by `imperative_functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import all_operations, func, ir
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops.arrays import LOOPS
from mlirtri.dialect.ops.op import Op
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import TILE_KERNEL, CompileContext
from mlirtri.lowering.external.calls import declaration_of, is_declaration, refuse_regions_beside_loops, without_signs
from mlirtri.lowering.linalg import arrays, imperative_functions, indexing, matmul, reductions, windows  # noqa: F401 - they hold rules
from mlirtri.lowering.linalg.elementwise import RULES, SCALAR_RULES, elementwise
from mlirtri.lowering.linalg.rewrites import decompose_all, has_masks, select_by_masks, tri_operations
from mlirtri.lowering.linalg.scans_as_reductions import is_marked, mark_scans
from mlirtri.lowering.mlir_common import memory_spaces
from mlirtri.lowering.mlir_common.attributes import KEEPS_BOUNDS
from mlirtri.lowering.mlir_common.imperative import is_imperative
from mlirtri.lowering.mlir_common.linalg_builder import tensor_type
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

MERGE = (Pass("cse", "the same mask is one value"),)
STRAIGHT = ("gather",)
"""Operations of the group `indexing` that straight-line code may contain."""


def lower(module: ir.Module, context: CompileContext) -> ir.Module:
    """Return the linalg module of a `tri` module, which is unchanged; raises what a rule refuses at its operation."""
    with module.context, ir.Location.unknown():
        # Work on a copy: the user can ask for the module of the previous stage later.
        source = copied(module, context)
        run_rewrite("decompose", decompose_all, source, context)
        if has_masks(source):
            run_passes(source, MERGE, context)
            run_rewrite("masks-to-where", select_by_masks, source, context)
        result = translate(source)
        if memory_spaces.has_tiles(result):
            memory_spaces.note(result)
        return result


def copied(module: ir.Module, context: CompileContext) -> ir.Module:
    """Return a copy of the module, in which scans for CUDA are marked as reductions, which need no loops."""
    copy = module.operation.clone()
    if context.target.is_cuda:
        mark_scans(copy)
    return copy


def translate(source: ir.Module) -> ir.Module:
    """Return a new module without `tri` operations."""
    result = ir.Module.create(loc=source.operation.location)
    fill = _fill_function
    if has_control(source):
        refuse_regions_beside_loops(source, next(filter(_is_control, all_operations(source)), None))
        fill = imperative_functions.fill_function
    with ir.InsertionPoint(result.body):
        for function in source.body.operations:
            if is_declaration(function):
                without_signs(function, tensor_type)
                continue
            with errors_at(function.operation):
                _require_body(function)
                declared = _declared(function)
            fill(function, declared)
    return result


def _require_body(function: Any) -> None:
    if function.operation.name != "func.func":
        raise UnsupportedOperationError(f"a module of stage tri has functions, not {function.operation.name}")
    if not len(function.regions[0].blocks):
        raise UnsupportedOperationError(f"the function @{function.name.value} has no body")


def has_control(source: ir.Module) -> bool:
    """Return whether rank-0 values are scalars: loops, branches, updates and run-time indices compute with them."""
    return is_imperative(source) or any(map(_is_control, tri_operations(source)))


def _is_control(operation: ir.Operation) -> bool:
    """Return whether an operation alone makes a function imperative: a loop or branch, or lowered to one."""
    if not operation.name.startswith("tri."):
        return operation.name.startswith("scf.")
    op = op_of(operation)
    return (op.group == "indexing" and op.name not in STRAIGHT) or (op.name in LOOPS and not is_marked(operation))


def _declared(function: func.FuncOp) -> func.FuncOp:
    [block] = function.regions[0].blocks
    inputs = [tensor_type(type_of(argument.type)) for argument in block.arguments]
    outputs = [tensor_type(type_of(t)) for t in function.type.results]
    with function.location:
        declared = func.FuncOp(function.name.value, (inputs, outputs))
    for name in ("arg_attrs", KEEPS_BOUNDS, TILE_KERNEL):
        if name in function.attributes:
            declared.attributes[name] = function.attributes[name]
    declared.add_entry_block(arg_locs=[argument.location for argument in block.arguments])
    return declared


def _fill_function(function: func.FuncOp, target: func.FuncOp) -> None:
    [block] = function.regions[0].blocks
    values = dict(zip(block.arguments, target.entry_block.arguments, strict=True))
    with ir.InsertionPoint(target.entry_block):
        for operation in block.operations:
            _translate_operation(operation.operation, values)


def _translate_operation(operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    operands = [values[operand] for operand in operation.operands]
    with errors_at(operation), operation.location:
        if operation.name == "func.return":
            func.ReturnOp(operands)
            return
        if declaration_of(operation) is not None:
            results = [tensor_type(type_of(result.type)) for result in operation.results]
            call = func.CallOp(results, operation.attributes["callee"].value, operands)
            values.update(zip(operation.results, call.operation.results, strict=True))
            return
        op = op_of(operation)
        values[operation.results[0]] = rule_of(op)(op, operation, operands)


def rules() -> set[str]:
    """Return the names of the structured operations that have a rule."""
    return {*RULES, *SCALAR_RULES}


def rule_of(op: Op) -> Callable[..., ir.Value]:
    """Return the rule of an operation, ``rule(op, operation, operands) -> value``: elementwise ones share one."""
    return elementwise if op.scalar is not None else RULES[op.name]
