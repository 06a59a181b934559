"""The loops of element kernels as parallel nests, each of which becomes a kernel.

    scf.for %i { scf.for %j { … } }   ──►   scf.parallel (%j, %i) { … }

Takes a function of loops on memrefs. Loops whose iterations are independent, or become so by atomic updates, become
parallel where they stand in no other loop or branch than those that the host runs, with the loops that they consist of;
what is inside stays in order. Numbers that the host would compute from arguments are computed in each kernel. Leaves
all else, which `host_statements` puts into kernels of one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, operations_named, public_functions, scf
from mlirtri.lowering.mlir_backend.loops.reduction_chunks import in_order
from mlirtri.lowering.mlir_common.aliasing import is_inside
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.mlir_common.reading import defined_by, integer_constant, is_block_argument
from mlirtri.lowering.spirv import narrow_comparisons
from mlirtri.lowering.spirv.atomic_updates import Update, make_atomic, shared_updates
from mlirtri.lowering.spirv.flat_buffers import keep_in_function
from mlirtri.lowering.spirv.narrow_comparisons import widen_without_sign

MOST_AXES = 3
"""Axes of a grid of blocks."""
FEWEST_TRIPS = 16
"""Iterations of a loop inside of loops in order that are worth a launch, unless it is declared parallel."""
HOST_FLOW = ("scf.for", "scf.while", "scf.if")
"""Control flow that the host runs where it is around kernels."""
KEPT = "mlirtri.value"
"""Attribute of the allocation of a number that a kernel leaves to others, or to the host."""
_COMPUTED = ("arith.", "math.")


def rewrite(module: ir.Module, is_reversed: bool = False) -> None:
    """Make the outermost independent loops of each function parallel; `is_reversed` says that nests begin innermost."""
    for function in public_functions(module):
        _visit(function.entry_block, True, is_reversed)


def finish(module: ir.Module) -> None:
    """Let each nest run what is inside in order, compute numbers that it needs itself, and keep its arrays."""
    for function in public_functions(module):
        for nest in outermost_nests(function.operation):
            for inner in [each for each in operations_named(nest, "scf.parallel") if each.operation != nest]:
                in_order(inner.operation)
            _compute_inside(nest)
            keep_in_function(nest)
            _select_booleans(nest)
            narrow_comparisons.rewrite(nest)


def _select_booleans(nest: ir.Operation) -> None:
    """Replace conversions of i1 to index, which the conversion to SPIR-V lacks, by selections."""
    for cast in operations_named(nest, "arith.index_castui"):
        if str(cast.operands[0].type) == "i1":
            with ir.InsertionPoint(cast), cast.location:
                replace(cast, [arith.select(cast.operands[0], index_constant(1), index_constant(0))])


def outermost_nests(root: ir.Operation) -> list[ir.Operation]:
    """Return the parallel loops that are in no other one."""
    nests: list[ir.Operation] = []
    for operation in [view.operation for region in root.regions for block in region for view in block.operations]:
        nests += [operation] if operation.name == "scf.parallel" else outermost_nests(operation)
    return nests


def _visit(block: ir.Block, is_outermost: bool, is_reversed: bool) -> None:
    for operation in [view.operation for view in block.operations]:
        if operation.name == "scf.parallel":
            # Threads go along the innermost axis of a nest that is parallel already.
            if len(operation.regions[0].blocks[0].arguments) == 1:
                _parallel(_nest(operation))
            elif not is_reversed:
                _reverse(operation)
        elif operation.name in HOST_FLOW and not _became_parallel(operation, is_outermost):
            for region in operation.regions:
                for inner in region.blocks:
                    _visit(inner, is_outermost and operation.name == "scf.if", is_reversed)


def _became_parallel(loop: ir.Operation, is_outermost: bool) -> bool:
    """Make a loop parallel if its iterations are independent and worth a launch; return whether they are."""
    is_declared = DECLARED_PARALLEL in loop.attributes
    if loop.name != "scf.for" or len(loop.results) or not (is_outermost or is_declared or _is_long(loop)):
        return False
    updates = shared_updates(loop)
    if updates is None:
        return False
    _parallel(_nest(loop, updates))
    make_atomic(updates)
    return True


def _is_long(loop: ir.Operation) -> bool:
    lower, upper, _ = map(integer_constant, list(loop.operands)[:3])
    return lower is None or upper is None or upper - lower >= FEWEST_TRIPS


def _reverse(nest: ir.Operation) -> None:
    """Let the first axis be the innermost one, along which threads go."""
    count, operands = len(nest.regions[0].blocks[0].arguments), list(nest.operands)
    bounds = [operands[part * count : (part + 1) * count][::-1] for part in range(3)]
    with ir.InsertionPoint(nest), nest.location:
        parallel = scf.ParallelOp([], *bounds, [])
    block = nest.regions[0].blocks[0]
    target = parallel.regions[0].blocks.append(*[ir.IndexType.get()] * count)
    for old, new in zip(block.arguments, reversed(list(target.arguments)), strict=True):
        old.replace_all_uses_with(new)
    for step in [view.operation for view in block.operations]:
        target.append(step)
    nest.erase()


def _nest(loop: ir.Operation, updates: Sequence[Update] = ()) -> list[ir.Operation]:
    """Return a loop and those inside that it consists of, whose bounds do not depend on it.

    Their iterations share nothing but elements of `updates`, which become atomic.
    """
    nest, atomic = [loop], [update.store for update in updates]
    while len(nest) < MOST_AXES:
        *before, _ = [view.operation for view in nest[-1].regions[0].blocks[0].operations]
        loops = [each for each in before if each.name == "scf.for"]
        others = [each for each in before if each.name != "scf.for" and not each.name.startswith("arith.")]
        if len(loops) != 1 or before[-1] != loops[0] or others or len(loops[0].results):
            break
        bounds = list(loops[0].operands)[:3]
        varies = any(is_inside(bound, loop) and not _is_constant(bound) for bound in bounds)
        shared = shared_updates(loops[0])
        if varies or shared is None or any(update.store not in atomic for update in shared):
            break
        nest.append(loops[0])
    return nest


def _is_constant(value: ir.Value) -> bool:
    return defined_by(value, "arith.constant") is not None


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
        ranges = [_by_ones(*bound) for bound in bounds]
        parallel = scf.ParallelOp([], *([bound[part] for bound in ranges] for part in range(3)), [])
    target = parallel.regions[0].blocks.append(*[ir.IndexType.get()] * len(nest))
    for loop, argument, bound in zip(reversed(nest), target.arguments, bounds, strict=True):
        index = argument
        if integer_constant(bound[2]) != 1:
            with ir.InsertionPoint(target), outer.location:
                index = arith.addi(bound[0], arith.muli(argument, bound[2]))
        loop.regions[0].blocks[0].arguments[0].replace_all_uses_with(index)
    for step in steps:
        if step.name != "arith.constant":
            target.append(step)
    with ir.InsertionPoint(target), outer.location:
        scf.ReduceOp([], 0)
    outer.erase()
    for argument, (lower, *_) in zip(target.arguments, bounds, strict=True):
        if (integer_constant(lower) or 0) >= 0 and _is_constant(lower):
            widen_without_sign(argument)


def _by_ones(lower: ir.Value, upper: ir.Value, step: ir.Value) -> list[ir.Value]:
    """Return bounds of as many iterations with a step of 1: upstream tiles loops of other steps wrongly."""
    if integer_constant(step) == 1:
        return [lower, upper, step]
    zero, one = index_constant(0), index_constant(1)
    return [zero, arith.ceildivsi(arith.maxsi(arith.subi(upper, lower), zero), step), one]


def _compute_inside(nest: ir.Operation) -> None:
    """Compute the numbers that a parallel loop reads from arguments inside of it."""
    top = nest.regions[0].blocks[0]
    while found := next(_from_outside(nest), None):
        with ir.InsertionPoint.at_block_begin(top):
            inner = found.operation.clone()
        for use in list(found.results[0].uses):
            if use.owner.operation != nest and is_in(use.owner.operation, {nest}):
                use.owner.operation.operands[use.operand_number] = inner.results[0]


def _from_outside(nest: ir.Operation) -> Iterator[ir.Operation]:
    for operation in all_operations_in(nest)[1:]:
        for operand in operation.operands:
            is_result = not is_block_argument(operand)
            if is_result and not is_inside(operand, nest) and _is_number(operand.owner.operation):
                yield operand.owner.operation


def _is_number(operation: ir.Operation) -> bool:
    """Return whether an operation computes a number from constants, arguments that nothing writes, and kept values."""
    if operation.name == "memref.load":
        buffer = operation.operands[0]
        if not is_block_argument(buffer) and KEPT in buffer.owner.operation.attributes:
            return True
        stores = [use.owner.operation.name for use in buffer.uses if use.owner.operation.name != "memref.load"]
        return is_block_argument(buffer) and not stores and len(operation.operands) == 1
    return operation.name.startswith(_COMPUTED) and operation.name != "arith.constant"


def is_in(operation: ir.Operation, around: Set[ir.Operation]) -> bool:
    """Return whether an operation is one of these or inside of one."""
    while operation is not None and operation.name != "func.func":
        if operation in around:
            return True
        operation = operation.parent.operation
    return False
