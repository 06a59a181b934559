"""List what a loop's body reads and writes of each loop-carried value, and find which of these are reductions.

A loop-carried array is written by `tri.insert_slice` and read by `tri.extract_slice`; any other use reads all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mlirtri.dialect.base.sizes import DYNAMIC, Size
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.dependence.congruences import Fact, of_condition, of_loop
from mlirtri.lowering.dependence.index_forms import ATOMIC, IndexForms
from mlirtri.lowering.mlir_common.reading import only_user

COMBINING = frozenset(
    f"tri.{name}"
    for name in """add subtract multiply maximum minimum fmax fmin logical_or logical_and logical_xor bitwise_or
    bitwise_and bitwise_xor""".split()
)
"""Operations that a reduction may apply to its accumulator; of a difference the accumulator is the minuend."""

_ATOMIC_UPDATE = "atomic"
_ORDERED = frozenset({"tri.greater", "tri.greater_equal", "tri.less", "tri.less_equal"})


@dataclass(frozen=True)
class Interval:
    """The indices of one axis from `start` on, `extent` of them; None where their number is not known."""

    start: Size
    extent: int | None


@dataclass(frozen=True)
class Access:
    """One read or write of elements of a loop-carried array."""

    operation: ir.Operation
    is_write: bool
    region: tuple[Interval, ...] | None
    """By axis; None for the whole array."""
    update: str | None = None
    """The combining operation, where the access is a part of ``array[index] = array[index] + x`` or atomic."""
    facts: tuple[Fact, ...] = ()
    """What conditions and loops around it say."""


@dataclass
class BodyAccesses:
    """The accesses in the body of one `scf.for`, by the number of the loop-carried value."""

    loop: ir.Operation
    forms: IndexForms
    by_slot: dict[int, list[Access]] = field(default_factory=dict)
    _slots: dict[ir.Value, int] = field(default_factory=dict)
    _facts: tuple[Fact, ...] = ()
    """What holds in the block that is visited."""

    def collect(self, slots: set[int]) -> None:
        """Find the accesses of these loop-carried values."""
        block = self.loop.regions[0].blocks[0]
        for slot in slots:
            self._slots[block.arguments[slot + 1]] = slot
            self.by_slot[slot] = []
        self._visit(block, of_loop(self.loop, self.forms))
        self._yielded(block, {slot: slot for slot in slots})
        for accesses in self.by_slot.values():
            _mark_updates(accesses)
            _mark_tickets(accesses, self.forms)

    def _visit(self, block: ir.Block, facts: Sequence[Fact] = ()) -> None:
        before = self._facts
        self._facts = (*before, *facts)
        for operation in block.operations:
            self._visit_operation(operation.operation)
        self._facts = before

    def _visit_operation(self, operation: ir.Operation) -> None:
        if operation.name == "scf.for":
            return self._for(operation)
        if operation.name == "scf.if":
            return self._if(operation)
        if operation.name == "scf.while":
            return self._while(operation)
        if operation.name in ("scf.yield", "scf.condition"):
            return None
        operands = list(operation.operands)
        for number, operand in enumerate(operands):
            if operand not in self._slots:
                continue
            slot = self._slots[operand]
            if number == 0 and operation.name == "tri.insert_slice":
                region = _region(operation, self.forms, 2)
                self.by_slot[slot].append(Access(operation, True, region, _atomic(operation), self._facts))
                self._slots[operation.results[0]] = slot
            elif number == 0 and operation.name == "tri.extract_slice":
                region = _region(operation, self.forms, 1)
                self.by_slot[slot].append(Access(operation, False, region, _atomic(operation), self._facts))
            else:
                self.by_slot[slot].append(Access(operation, False, None))
        return None

    def _for(self, operation: ir.Operation) -> None:
        block, passed = operation.regions[0].blocks[0], {}
        for number, operand in enumerate(list(operation.operands)[3:]):
            if operand in self._slots:
                passed[number] = self._slots[operand]
                self._slots[block.arguments[number + 1]] = passed[number]
        self._visit(block, of_loop(operation, self.forms))
        self._yielded(block, passed)
        for number, slot in passed.items():
            self._slots[operation.results[number]] = slot

    def _if(self, operation: ir.Operation) -> None:
        results: dict[int, int] = {}
        blocks = [region.blocks[0] for region in operation.regions if list(region.blocks)]
        for block, holds in zip(blocks, (True, False), strict=False):
            self._visit(block, of_condition(operation.operands[0], holds, self.forms))
            for number, operand in enumerate(_last(block).operands):
                if operand in self._slots:
                    results[number] = self._slots[operand]
        for block in blocks:
            self._yielded(block, results)
        for number, slot in results.items():
            self._slots[operation.results[number]] = slot

    def _while(self, operation: ir.Operation) -> None:
        before, after = (region.blocks[0] for region in operation.regions)
        passed = {n: self._slots[operand] for n, operand in enumerate(operation.operands) if operand in self._slots}
        for block in (before, after):
            for number, slot in passed.items():
                self._slots[block.arguments[number]] = slot
            self._visit(block)
            self._yielded(block, passed, skipped=1 if block == before else 0)
        for number, slot in passed.items():
            self._slots[operation.results[number]] = slot

    def _yielded(self, block: ir.Block, passed: dict[int, int], skipped: int = 0) -> None:
        """Record a write of the whole array where a block yields what is no state of it."""
        operands = list(_last(block).operands)[skipped:]
        for number, slot in passed.items():
            value = operands[number]
            if self._slots.get(value) != slot:
                owner = _last(block) if isinstance(value.owner, ir.Block) else value.owner.operation
                self.by_slot[slot].append(Access(owner, True, None))


def _region(operation: ir.Operation, forms: IndexForms, first: int) -> tuple[Interval, ...] | None:
    """Return the region of a slice, whose dynamic offsets and sizes are the operands from `first` on."""
    dynamic = iter(list(operation.operands)[first:])
    lists = [list(ir.DenseI64ArrayAttr(operation.attributes[name])) for name in ("offsets", "sizes", "strides")]
    offsets = [forms.of(next(dynamic)) if offset == DYNAMIC else Size.of(offset) for offset in lists[0]]
    extents = [
        None if DYNAMIC in (size, stride) or stride < 1 else max(0, (size - 1) * stride + 1)
        for size, stride in zip(lists[1], lists[2], strict=True)
    ]
    return tuple(Interval(offset, extent) for offset, extent in zip(offsets, extents, strict=True))


def _atomic(operation: ir.Operation) -> str | None:
    return _ATOMIC_UPDATE if ATOMIC in operation.attributes else None


def _mark_tickets(accesses: list[Access], forms: IndexForms) -> None:
    """Mark what `old = atomic_add(counter[i], 1)` returns, where all accesses of counters are such.

    No two are equal of one counter.
    """
    regions = {access.region for access in accesses}
    if not accesses or None in regions or len(regions) != 1 or any(not access.update for access in accesses):
        return
    [region] = regions
    starts = [interval.start for interval in region or ()]
    among = tuple(start for start in starts if any(forms.varies(symbol) for symbol, _ in start.terms))
    if all(_adds_positive_constant(access.operation, forms) for access in accesses if access.is_write):
        for access in accesses:
            if not access.is_write:
                forms.unique |= {symbol: among for symbol, _ in forms.of(access.operation.results[0]).terms}


def _adds_positive_constant(write: ir.Operation, forms: IndexForms) -> bool:
    update = write.operands[1].owner
    while not isinstance(update, ir.Block) and update.operation.name in ("tri.reshape", "tri.cast"):
        update = update.operation.operands[0].owner
    if isinstance(update, ir.Block) or update.operation.name != "tri.add":
        return False
    added = forms.of(update.operation.operands[1])
    return added.is_constant and added.constant > 0


def _mark_updates(accesses: list[Access]) -> None:
    """Mark the reads and writes that are parts of ``array[index] = array[index] + x``."""
    writes = {id(access): number for number, access in enumerate(accesses) if access.is_write and access.region}
    for number, read in enumerate(accesses):
        if read.is_write or read.region is None or read.update or len(list(read.operation.results[0].uses)) != 1:
            continue
        combined = only_user(read.operation.results[0])
        if not _combines(combined, read.operation.results[0]):
            continue
        written = only_user(combined.results[0])
        for position in writes.values():
            write = accesses[position]
            if written is not None and write.operation == written and write.region == read.region:
                accesses[number] = replace(read, update=_kind(combined))
                accesses[position] = replace(write, update=_kind(combined))


def _kind(operation: ir.Operation) -> str:
    return "tri.add" if operation.name == "tri.subtract" else operation.name


def _combines(operation: ir.Operation | None, accumulator: ir.Value) -> bool:
    if operation is None or operation.name not in COMBINING:
        return False
    operands = list(operation.operands)
    uses = sum(operand == accumulator for operand in operands)
    return uses == 1 and (operation.name != "tri.subtract" or operands[0] == accumulator)


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def is_reduction(loop: ir.Operation, slot: int) -> bool:
    """Return whether each iteration only combines the loop-carried value with others, by one operation."""
    derived, kinds = [loop.regions[0].blocks[0].arguments[slot + 1]], set()
    pending, yields = list(derived), []
    while pending:
        value = pending.pop()
        for use in value.uses:
            user, number = use.owner.operation, use.operand_number
            if user.name in ("scf.yield", "scf.condition"):
                yields.append((user, number, value))
                continue
            following = _following(user, number, value)
            if following is None:
                return False
            kinds |= {_kind(user)} if user.name in COMBINING else set()
            pending += [new for new in following if new not in derived]
            derived += [new for new in following if new not in derived]
        # What a block yields is the result of the operation around it.
        while yields:
            user, number, _ = yields.pop()
            around = user.parent.operation
            if around == loop:
                if number != slot:
                    return False
                continue
            if around.name not in ("scf.if", "scf.for"):
                return False
            result = around.results[number]
            if result not in derived:
                derived.append(result)
                pending.append(result)
    return len(kinds) <= 1 and _all_arms_derive(loop, slot, derived)


def _following(user: ir.Operation, number: int, value: ir.Value) -> list[ir.Value] | None:
    """Return the values that continue the chain after a use, or None where the use is no reduction."""
    if user.name == "scf.for" and number >= 3:
        return [user.regions[0].blocks[0].arguments[number - 2], user.results[number - 3]]
    if (extremum := _extremum(user)) is not None:
        return [extremum.results[0]]
    return [user.results[0]] if _combines(user, value) else None


def _extremum(user: ir.Operation) -> ir.Operation | None:
    """Return the `tri.where` of ``where(x > best, x, best)``, Python's `max` and `min`, for it or its comparison."""
    selection = only_user(user.results[0]) if user.name in _ORDERED else user
    if selection is None or selection.name != "tri.where":
        return None
    comparison = selection.operands[0].owner
    if isinstance(comparison, ir.Block) or comparison.operation.name not in _ORDERED:
        return None
    compared, selected = list(comparison.operation.operands), list(selection.operands)[1:]
    return selection if compared in (selected, selected[::-1]) else None


def _all_arms_derive(loop: ir.Operation, slot: int, derived: list[ir.Value]) -> bool:
    """Return whether nothing else replaces the value: each arm and iteration yields a combination of it."""
    for value in derived:
        if isinstance(value.owner, ir.Block) or not list(value.owner.operation.regions):
            continue
        operation = value.owner.operation
        number = list(operation.results).index(value)
        if any(_last(region.blocks[0]).operands[number] not in derived for region in operation.regions):
            return False
    return _last(loop.regions[0].blocks[0]).operands[slot] in derived
