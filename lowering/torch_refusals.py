"""Which operators of a module in the torch dialect torch-mlir cannot lower: all of them, each on the user's line.

torch-mlir stops at the first. Each operation is therefore tried alone, in a function of its own.
"""

from __future__ import annotations

from typing import NoReturn

from mlirtri.dialect.locations import span_of
from mlirtri.dialect.mlir import all_operations_in, ir, passmanager
from mlirtri.errors import KernelError, UnsupportedOperationError, raise_all

PIPELINE = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=},"
    "torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})"
)


def refuse_operators(module: ir.Operation, failure: KernelError) -> NoReturn:
    """Raise for every operator of `module` that cannot be lowered, or `failure` where each of them alone can."""
    refused: dict[str, list[ir.Operation]] = {}
    for operation in all_operations_in(module):
        if not operation.name.startswith(("torch.aten.", "torch.prims.", "torch.operator", "torch.torchvision")):
            continue
        if not _lowers(operation):
            refused.setdefault(_operator(operation), []).append(operation)
    raise_all([_refusal(name, found) for name, found in refused.items()])
    raise UnsupportedOperationError(
        f"torch-mlir does not lower this module: {failure.message}",
        failure.span,
        help=failure.help,
        notes=failure.notes,
    )


def _operator(operation: ir.Operation) -> str:
    """The operator's name as torch writes it."""
    if operation.name == "torch.operator":
        return ir.StringAttr(operation.attributes["name"]).value.removeprefix("torch.")
    return operation.name.removeprefix("torch.")


def _refusal(name: str, found: list[ir.Operation]) -> UnsupportedOperationError:
    types = ", ".join(str(operand.type) for operand in found[0].operands if "tensor" in str(operand.type))
    times = f", {len(found)} times" if len(found) > 1 else ""
    return UnsupportedOperationError(
        f"torch-mlir has no lowering of {name} on {types or 'these arguments'}{times}",
        span_of(found[0].location),
        help="write it with other operators, or compute it outside of the module",
    )


def _lowers(operation: ir.Operation) -> bool:
    """Whether the operation alone, with the constants that it takes, comes through torch-mlir's lowering."""
    module = ir.Module.create(ir.Location.unknown())
    kinds = [each.type for each in operation.operands if _is_tensor(each)]
    results = [each.type for each in operation.results]
    if not all("tensor" in str(kind) or str(kind) in ("!torch.int", "!torch.float", "!torch.bool") for kind in results):
        return True
    text = ", ".join(str(kind) for kind in kinds)
    function = ir.Operation.parse(
        f"func.func @alone({', '.join(f'%a{at}: {kind}' for at, kind in enumerate(kinds))}) attributes "
        f"{{torch.assume_strict_symbolic_shapes}} {{ return }} // {text}"
    )
    block = function.regions[0].blocks[0]
    block.operations[0].erase()
    arguments = iter(block.arguments)
    with ir.InsertionPoint(block):
        clone = operation.clone()
        for at, operand in enumerate(operation.operands):
            clone.operands[at] = next(arguments) if _is_tensor(operand) else _copied(operand, clone)
        ir.Operation.create("func.return", operands=list(clone.results))
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))
    module.body.append(function)
    try:
        passmanager.PassManager.parse(PIPELINE).run(module.operation)
    except ir.MLIRError:
        return False
    return True


def _is_tensor(value: ir.Value) -> bool:
    """Whether the value comes in as an argument: everything but what constants make."""
    return isinstance(value.owner, ir.Block) or "vtensor<" in str(value.type)


def _copied(value: ir.Value, before: ir.Operation) -> ir.Value:
    """The constant (or list of constants) that `value` is, made once more in front of `before`."""
    owner = value.owner
    with ir.InsertionPoint(before):
        clone = owner.clone()
    for at, operand in enumerate(owner.operands):
        clone.operands[at] = _copied(operand, clone)
    return clone.results[ir.OpResult(value).result_number]
