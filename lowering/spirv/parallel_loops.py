"""The loops of element kernels as parallel nests, each of which becomes a kernel.

    scf.for %i { scf.for %j { … } }   ──►   scf.parallel (%j, %i) { … }

Takes a function of loops on memrefs. Outermost loops whose iterations are independent become parallel, with those that
they consist of; what is inside stays in order. Numbers that the host would compute from arguments are computed in each
kernel. Leaves all else, which `bufferized_to_gpu` refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, operations_named, public_functions, scf
from mlirtri.lowering.mlir.aliasing import is_inside
from mlirtri.lowering.mlir.reading import integer_constant, is_block_argument
from mlirtri.lowering.mlir_backend.loops.reduction_chunks import in_order, is_independent

MOST_AXES = 3
"""Axes of a grid of blocks."""
_COMPUTED = ("arith.", "math.")


def rewrite(module: ir.Module) -> None:
    """Make the outermost independent loops of each function parallel, and what is inside of them sequential."""
    for function in public_functions(module):
        for operation in [view.operation for view in function.entry_block.operations]:
            if operation.name == "scf.for" and not len(operation.results) and is_independent(operation):
                _parallel(_nest(operation))
        for nest in _outermost(function):
            for inner in [each for each in operations_named(nest, "scf.parallel") if each.operation != nest]:
                in_order(inner.operation)
            _compute_inside(nest)


def _outermost(function: ir.OpView) -> list[ir.Operation]:
    return [
        view.operation for view in function.regions[0].blocks[0].operations if view.operation.name == "scf.parallel"
    ]


def _nest(loop: ir.Operation) -> list[ir.Operation]:
    """Return a loop and those inside that it consists of, whose bounds do not depend on it."""
    nest = [loop]
    while len(nest) < MOST_AXES:
        *before, _ = [view.operation for view in nest[-1].regions[0].blocks[0].operations]
        loops = [each for each in before if each.name == "scf.for"]
        others = [each for each in before if each.name != "scf.for" and not each.name.startswith("arith.")]
        if len(loops) != 1 or before[-1] != loops[0] or others or len(loops[0].results):
            break
        bounds = list(loops[0].operands)[:3]
        varies = any(is_inside(bound, loop) and not _is_constant(bound) for bound in bounds)
        if varies or not is_independent(loops[0]):
            break
        nest.append(loops[0])
    return nest


def _is_constant(value: ir.Value) -> bool:
    return not is_block_argument(value) and value.owner.name == "arith.constant"


def _parallel(nest: list[ir.Operation]) -> None:
    """Replace nested loops by one parallel loop, whose first axis is the innermost."""
    outer, steps = nest[0], []
    for loop in nest:
        *before, _ = [view.operation for view in loop.regions[0].blocks[0].operations]
        steps += [operation for operation in before if operation not in nest]
    for constant in [operation for operation in steps if operation.name == "arith.constant"]:
        constant.move_before(outer)
    bounds = [list(loop.operands)[:3] for loop in reversed(nest)]
    with ir.InsertionPoint(outer), outer.location:
        parallel = scf.ParallelOp([], *([bound[part] for bound in bounds] for part in range(3)), [])
    parallel.regions[0].blocks.append(*[ir.IndexType.get()] * len(nest))
    target = parallel.regions[0].blocks[0]
    for loop, argument in zip(reversed(nest), target.arguments, strict=True):
        loop.regions[0].blocks[0].arguments[0].replace_all_uses_with(argument)
    for step in steps:
        if step.name != "arith.constant":
            target.append(step)
    with ir.InsertionPoint(target), outer.location:
        scf.ReduceOp([], 0)
    outer.erase()
    for argument, (lower, *_) in zip(target.arguments, bounds, strict=True):
        if (integer_constant(lower) or 0) >= 0 and _is_constant(lower):
            _widen_without_sign(argument)


def _widen_without_sign(index: ir.Value) -> None:
    """Extend an index that is never less than 0 with zeros: lavapipe extends the number of a block by a wrong sign."""
    for use in list(index.uses):
        cast = use.owner.operation
        if cast.name == "arith.index_cast":
            with ir.InsertionPoint(cast), cast.location:
                cast.results[0].replace_all_uses_with(arith.index_castui(cast.results[0].type, index))
            cast.erase()


def _compute_inside(nest: ir.Operation) -> None:
    """Compute the numbers that a parallel loop reads from arguments inside of it."""
    top = nest.regions[0].blocks[0]
    while found := next(_from_outside(nest), None):
        with ir.InsertionPoint.at_block_begin(top):
            inner = found.operation.clone()
        for use in list(found.results[0].uses):
            if _is_in(use.owner.operation, nest):
                use.owner.operation.operands[use.operand_number] = inner.results[0]


def _from_outside(nest: ir.Operation) -> Iterator[ir.Operation]:
    for operation in all_operations_in(nest):
        for operand in operation.operands:
            is_result = not is_block_argument(operand)
            if is_result and not is_inside(operand, nest) and _is_number(operand.owner.operation):
                yield operand.owner.operation


def _is_number(operation: ir.Operation) -> bool:
    """Return whether an operation computes a number from constants and arguments that nothing writes."""
    if operation.name == "memref.load":
        buffer = operation.operands[0]
        stores = [use.owner.operation.name for use in buffer.uses if use.owner.operation.name != "memref.load"]
        return is_block_argument(buffer) and not stores and len(operation.operands) == 1
    return operation.name.startswith(_COMPUTED) and operation.name != "arith.constant"


def _is_in(operation: ir.Operation, nest: ir.Operation) -> bool:
    while operation is not None and operation.name != "func.func":
        if operation == nest:
            return True
        operation = operation.parent.operation
    return False
