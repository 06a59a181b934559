"""Find all operators of a torch-dialect module that torch-mlir cannot lower, each with the user's source line.

torch-mlir stops at the first; here each operation is lowered alone, in a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations_in, func, ir
from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all
from mlirtri.lowering.core.stage import CompileContext

Lower = Callable[[ir.Module, CompileContext], Any]
"""What fails for a module that cannot be lowered."""


def refuse_operators(module: ir.Module, failure: KernelError, lower: Lower, context: CompileContext) -> NoReturn:
    """Raise for every operator of `module` that cannot be lowered; raise `failure` if each can be lowered alone."""
    refused: dict[str, list[ir.Operation]] = {}
    silent = replace(context, keep_passes=False, passes={})
    tried: dict[str, bool] = {}
    with module.context, ir.Location.unknown():
        for operation in all_operations_in(module.operation):
            if not operation.name.startswith(("torch.aten.", "torch.prims.", "torch.operator", "torch.torchvision")):
                continue
            alone = None if operation.name == "torch.operator_terminator" else _alone(operation)
            if alone is None:
                continue
            text = str(alone)
            if text not in tried:
                tried[text] = _lowers(alone, lower, silent)
            if not tried[text]:
                refused.setdefault(_operator(operation), []).append(operation)
        raise_all([_refusal(name, operations) for name, operations in refused.items()])
    raise UnsupportedOperationError(
        f"torch-mlir does not lower this module: {failure.message}",
        failure.span,
        help=failure.help,
        notes=failure.notes,
    )


def _operator(operation: ir.Operation) -> str:
    if operation.name == "torch.operator":
        return ir.StringAttr(operation.attributes["name"]).value.removeprefix("torch.")
    return operation.name.removeprefix("torch.")


def _refusal(name: str, operations: list[ir.Operation]) -> UnsupportedOperationError:
    types = ", ".join(str(operand.type) for operand in operations[0].operands if "tensor" in str(operand.type))
    times = f", {len(operations)} times" if len(operations) > 1 else ""
    return UnsupportedOperationError(
        f"torch-mlir has no lowering of {name} on {types or 'these arguments'}{times}",
        span_of(operations[0].location),
        help="write it with other operators, or compute it outside of the module",
    )


def _lowers(alone: ir.Module, lower: Lower, context: CompileContext) -> bool:
    try:
        lower(alone, context)
    except KernelError:
        return False
    except ir.MLIRError:
        # A pass printed something that is no module: the operator itself may be fine.
        return True
    return True


def _alone(operation: ir.Operation) -> ir.Module | None:
    results = [result.type for result in operation.results]
    if not all("tensor" in str(kind) or str(kind) in ("!torch.int", "!torch.float", "!torch.bool") for kind in results):
        return None
    module = ir.Module.create()
    kinds = [argument.type for argument in _arguments(operation)]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("alone", (kinds, results))
    function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()
    for name, value in _opset_attributes(operation).items():
        function.attributes[name] = value
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        clone = _clone(operation, iter(block.arguments))
        func.ReturnOp(list(clone.results))
    return module


def _clone(operation: ir.Operation, arguments: Iterator[ir.Value]) -> ir.Operation:
    operands = []
    for operand in operation.operands:
        if _is_argument(operand):
            operands.append(next(arguments))
        else:
            operands.append(_clone(operand.owner, arguments).results[ir.OpResult(operand).result_number])
    clone = operation.clone()
    for position, operand in enumerate(operands):
        clone.operands[position] = operand
    return clone


def _arguments(operation: ir.Operation) -> list[ir.Value]:
    arguments: list[ir.Value] = []
    for operand in operation.operands:
        arguments += [operand] if _is_argument(operand) else _arguments(operand.owner)
    return arguments


def _is_argument(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return True
    producer = value.owner.operation
    if producer.name == "torch.operator":
        return ir.StringAttr(producer.attributes["name"]).value != "onnx.Constant"
    return not producer.name.startswith("torch.constant.") and producer.name != "torch.prim.ListConstruct"


def _opset_attributes(operation: ir.Operation) -> dict[str, ir.Attribute]:
    parent = operation.parent
    while parent.name != "func.func":
        parent = parent.parent
    return {name: parent.attributes[name] for name in parent.attributes if name.startswith("torch.onnx_meta.")}
