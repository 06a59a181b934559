"""What stands between kernels as kernels of one thread; the host keeps control flow around kernels, and integers.

    %x = memref.load %a[%0]; memref.store %x, %b[%0]   ──►   scf.parallel 0 to 1 { … }

Statements that follow each other are one kernel. A number that it computes and others read is kept in a buffer of its
own. The host computes bounds and conditions of its loops and branches, and reads the numbers in memory that decide.
Refuses arrays that a loop around kernels carries.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlirtri.dialect.bindings.mlir import all_operations_in, ir, memref, public_functions, scf
from mlirtri.lowering.core.size_program import OPERATIONS
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, is_block_argument
from mlirtri.lowering.spirv.parallel_loops import HOST_FLOW, KEPT, is_in

HOST_KINDS = frozenset({"index", "i1", "i8", "i16", "i32", "i64", "f32", "f64"})
"""Types of numbers that the host computes with."""
_MEMORY = (*ALLOCATIONS, "memref.dealloc", "memref.get_global")


def rewrite(module: ir.Module) -> None:
    """Put statements of each function, and of the loops and branches that the host runs, into kernels."""
    for function in public_functions(module):
        _visit(function.entry_block)


def is_on_host(operation: ir.Operation) -> bool:
    """Return whether the host can compute an operation on numbers."""
    if operation.name == "arith.constant":
        return True
    values = [*operation.operands, *operation.results]
    return operation.name in OPERATIONS and all(str(value.type) in HOST_KINDS for value in values)


def _visit(block: ir.Block) -> None:
    *steps, _ = [view.operation for view in block.operations]
    allocations = [each for each in steps if each.name in ALLOCATIONS and not len(each.operands)]
    for allocation in reversed(allocations):
        allocation.move_before(block.operations[0].operation)
    pending: list[ir.Operation] = []
    steps = [operation for operation in steps if operation not in allocations]
    for operation in steps:
        if operation.name == "scf.parallel" or operation.name in _MEMORY or _has_kernels(operation):
            _offload(pending)
            pending = []
            for region in operation.regions if operation.name in HOST_FLOW else ():
                for inner in region.blocks:
                    _visit(inner)
        elif operation.name != "arith.constant":
            pending.append(operation)
    _offload(pending)


def _has_kernels(operation: ir.Operation) -> bool:
    return operation.name in HOST_FLOW and any(each.name == "scf.parallel" for each in all_operations_in(operation))


def _offload(statements: list[ir.Operation]) -> None:
    """Move statements into a kernel of one thread, unless they are numbers for the host and for kernels."""
    if all(_is_number(operation) for operation in statements) and not _are_needed(statements):
        return
    first, last = statements[0], statements[-1]
    with ir.InsertionPoint(first), _located(statements):
        nest = scf.ParallelOp([], *([index_constant(number)] for number in (0, 1, 1)), [])
    inside = set(statements)
    results = [result for operation in statements for result in operation.results]
    kept = [result for result in results if not all(is_in(use.owner.operation, inside) for use in result.uses)]
    target = nest.regions[0].blocks.append(ir.IndexType.get())
    after = ir.InsertionPoint.after(last)
    values = _computed_before(kept, inside, nest.operation)
    for value in kept:
        if value not in values:
            values[value] = _kept_in_memory(value, nest.operation, after)
    for value, new in values.items():
        for use in list(value.uses):
            if not is_in(use.owner.operation, inside):
                use.owner.operation.operands[use.operand_number] = new
    for operation in statements:
        target.append(operation)
    with ir.InsertionPoint(target), first.location:
        for value, new in values.items():
            if new.owner.operation.name == "memref.load":
                memref.store(value, new.owner.operation.operands[0], [])
        scf.ReduceOp([], 0)


def _is_number(operation: ir.Operation) -> bool:
    return operation.name == "memref.load" or operation.name.startswith(("arith.", "math."))


def _are_needed(statements: list[ir.Operation]) -> bool:
    """Return whether the host reads a number that it cannot compute."""
    inside = set(statements)
    pending = [operation for operation in statements if any(map(_is_host_use, operation.results[0].uses))]
    while pending:
        operation = pending.pop()
        if operation.name != "memref.load" and not is_on_host(operation):
            return True
        owners = [operand.owner for operand in operation.operands if not is_block_argument(operand)]
        pending += [owner.operation for owner in owners if owner.operation in inside]
    return False


def _is_host_use(use: ir.OpOperand) -> bool:
    around = use.owner.operation
    if around.name == "memref.load" or _is_number(around):
        return False  # followed from there
    while around.name != "func.func":
        around = around.parent.operation
        if around.name == "scf.parallel":
            return False
    return True


def _located(statements: Iterable[ir.Operation]) -> ir.Location:
    return next(operation.location for operation in statements if operation.name != "memref.load")


def _computed_before(kept: list[ir.Value], inside: set[ir.Operation], nest: ir.Operation) -> dict[ir.Value, ir.Value]:
    """Return those of the values that the host computes from what was there before, cloned in front of the kernel."""
    values: dict[ir.Value, ir.Value] = {}

    def cloned(value: ir.Value) -> ir.Value | None:
        if value in values or is_block_argument(value) or value.owner.operation not in inside:
            return values.get(value, value)
        operation = value.owner.operation
        operands = [cloned(operand) for operand in operation.operands] if is_on_host(operation) else [None]
        if any(operand is None for operand in operands):
            return None
        with ir.InsertionPoint(nest):
            copy = operation.clone().operation
        for number, operand in enumerate(operands):
            if operand is not None:
                copy.operands[number] = operand
        values[value] = copy.results[0]
        return values[value]

    return {value: new for value in kept if (new := cloned(value)) is not None}


def _kept_in_memory(value: ir.Value, nest: ir.Operation, after: ir.InsertionPoint) -> ir.Value:
    """Return the value as it is loaded after the kernel that computes it."""
    location = value.owner.operation.location
    with ir.InsertionPoint(nest), location:
        buffer = memref.alloca(ir.MemRefType.get([], value.type), [], [])
    buffer.owner.operation.attributes[KEPT] = ir.UnitAttr.get()
    with after, location:
        return memref.load(buffer, [])
