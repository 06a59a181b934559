"""Hoist temporary buffers out of loops, and return an error status from functions whose allocations fail.

`hoist` takes a module in loops form: an allocation whose sizes are known before a loop or branch moves out of it, with
its deallocation; not out of `scf.parallel`, where each iteration needs its own buffer. `check` takes a module in LLVM's
dialect: a public function that calls `malloc` outside of parallel regions returns an `i64`, which is 1 where a call
failed, else 0. Earlier allocations are freed first, where they are known. Allocations of other threads are of known and
small size. Both change the module in place.

    for { %t = alloc; …; dealloc %t }   ──►   %t = alloc; for { … }; dealloc %t
    %p = call @malloc(%n)   ──►   %p = call @malloc(%n); cond_br (%p == null), ^failed, ^rest
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirtri.dialect.bindings.mlir import ir, operations_named, public_functions
from mlirtri.lowering.mlir_common.aliasing import is_inside, terminator
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS

_EQUAL = 0
"""LLVM's comparison predicate for equality."""


def check(module: ir.Module) -> None:
    """Check the result of `malloc` in every public function."""
    calls = operations_named(module, "llvm.call")
    for function in public_functions(module):
        calls_inside = [call for call in calls if call.parent.operation == function.operation]
        allocations = [call for call in calls_inside if _callee(call) == "malloc"]
        if allocations:
            _return_a_status(function)
            _end_where_none_is_given(function, allocations, [call for call in calls_inside if _callee(call) == "free"])


def gives_status(function: ir.OpView) -> bool:
    """Return whether the function, in LLVM's dialect, returns something."""
    return "void" not in str(function.attributes["function_type"]).partition("(")[0]


def _callee(call: ir.Operation) -> str | None:
    return call.attributes["callee"].value if "callee" in call.attributes else None


def _return_a_status(function: ir.OpView) -> None:
    kind = str(function.attributes["function_type"]).replace("!llvm.func<void", "!llvm.func<i64", 1)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(kind))
    for block in function.regions[0].blocks:
        end = terminator(block)
        if end.name == "llvm.return":
            with ir.InsertionPoint(end), end.location:
                ir.Operation.create("llvm.return", operands=[_number(0)])
            end.erase()


def _end_where_none_is_given(
    function: ir.OpView, allocations: Sequence[ir.Operation], releases: Sequence[ir.Operation]
) -> None:
    blocks, location = list(function.regions[0].blocks), function.location
    entry, failed = blocks[0], blocks[-1].create_after()
    pointers = [allocation.results[0] for allocation in allocations]
    is_plain = all(release.operands[0] in pointers for release in releases)
    slots = _slots(entry, len(pointers)) if is_plain and releases else []
    for slot, value in zip(slots, pointers, strict=False):
        with ir.InsertionPoint.after(value.owner), location:
            _store(value, slot)
        for release in releases:
            if release.operands[0] == value:
                with ir.InsertionPoint(release), location:
                    _store(_null(), slot)
    for allocation in allocations:
        _branch(allocation, failed)
    with ir.InsertionPoint(failed), location:
        for slot in slots:
            release = releases[0].clone().operation
            release.operands[0] = ir.Operation.create("llvm.load", [_pointer()], [slot]).result
        ir.Operation.create("llvm.return", operands=[_number(1)])


def _slots(entry: ir.Block, count: int) -> list[ir.Value]:
    """Allocate a slot for each pointer, null while unallocated; LLVM promotes them to registers."""
    with ir.InsertionPoint.at_block_begin(entry), entry.owner.location:
        one = _number(1)
        kind = {"elem_type": ir.TypeAttr.get(_pointer())}
        slots = [ir.Operation.create("llvm.alloca", [_pointer()], [one], kind).result for _ in range(count)]
        for slot in slots:
            _store(_null(), slot)
    return slots


def _branch(allocation: ir.Operation, failed: ir.Block) -> None:
    """Move what follows the allocation into a block of its own, and branch on failure."""
    block = allocation.block
    success = block.create_after()
    following = list(block.operations)
    position = next(number for number, view in enumerate(following) if view.operation == allocation)
    for view in following[position + 1 :]:
        success.append(view.operation)
    with ir.InsertionPoint(block), allocation.location:
        equal = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _EQUAL)}
        bit = ir.IntegerType.get_signless(1)
        is_null = ir.Operation.create("llvm.icmp", [bit], [allocation.results[0], _null()], equal).result
        sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])}
        ir.Operation.create("llvm.cond_br", [], [is_null], sizes, [failed, success])


def _store(value: ir.Value, slot: ir.Value) -> None:
    ir.Operation.create("llvm.store", operands=[value, slot])


def _null() -> ir.Value:
    return ir.Operation.create("llvm.mlir.zero", [_pointer()]).result


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


def _number(value: int) -> ir.Value:
    kind = ir.IntegerType.get_signless(64)
    number = {"value": ir.IntegerAttr.get(kind, value)}
    return ir.Operation.create("llvm.mlir.constant", [kind], attributes=number).result


LEFT = ("scf.for", "scf.while", "scf.if")
"""Operations that buffers are hoisted out of."""


def hoist(module: ir.Module) -> None:
    """Hoist every buffer as far as possible."""
    for allocation in operations_named(module, *ALLOCATIONS):
        releases = [use.owner.operation for use in allocation.result.uses if use.owner.name == "memref.dealloc"]
        while _can_leave(allocation, releases):
            around = allocation.parent.operation
            allocation.move_before(around)
            for release in releases:
                release.move_after(around)


def _can_leave(allocation: ir.Operation, releases: list[ir.Operation]) -> bool:
    around = allocation.parent.operation
    if around.name not in LEFT or any(release.block != allocation.block for release in releases):
        return False
    if _is_yielded(allocation, around) or (allocation.name == "memref.alloc" and not releases):
        return False
    return not any(is_inside(size, around) for size in allocation.operands)


def _is_yielded(allocation: ir.Operation, around: ir.Operation) -> bool:
    """Return whether another iteration, or the code after the branch, sees the buffer."""
    terminators = ("scf.yield", "scf.condition")
    return any(use.owner.name in terminators and use.owner.parent == around for use in allocation.result.uses)
