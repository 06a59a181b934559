"""Loops and branches that hand on bits: whether anything failed inside of them.

Takes an `scf` operation and, for each of its regions, bits that are known at the region's end (None: false).
Gives the bits of the whole operation, which is replaced by one with as many results more. Of a loop a bit is true when
it was in any iteration. Refuses nothing; what has no rule here cannot hand on anything.

    scf.for … { …; %failed }   ──►   %any = scf.for … iter_args(%before = %false) { …; yield %before or %failed }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirtri.dialect.bindings.mlir import arith, ir, scf
from mlirtri.lowering.mlir.aliasing import terminator

Bits = Sequence[ir.Value | None]
Rule = Callable[[ir.Operation, Sequence[Bits], int], list[ir.Value]]


def _branch(operation: ir.Operation, groups: Sequence[Bits], count: int) -> list[ir.Value]:
    """Each arm hands on its own bits; an arm that is missing fails nothing."""
    made = _with_more(operation, [], count)
    for region, new, bits in zip(operation.regions, made.regions, groups, strict=True):
        if not region.blocks:
            new.blocks.append()
            with ir.InsertionPoint(new.blocks[0]), operation.location:
                scf.YieldOp([_false() for _ in range(count)])
            continue
        region.blocks[0].append_to(new)
        _hand_on(new.blocks[0], bits)
    return _replaced(operation, made)


def _counted_loop(operation: ir.Operation, groups: Sequence[Bits], count: int) -> list[ir.Value]:
    made = _with_more(operation, _falses(operation, count), count)
    operation.regions[0].blocks[0].append_to(made.regions[0])
    block = made.regions[0].blocks[0]
    _hand_on(block, groups[0], _more_arguments(block, count))
    return _replaced(operation, made)


def _while_loop(operation: ir.Operation, groups: Sequence[Bits], count: int) -> list[ir.Value]:
    """The condition runs once more than the body: it hands on what failed in it too."""
    made = _with_more(operation, _falses(operation, count), count)
    for region, new, bits in zip(operation.regions, made.regions, groups, strict=True):
        region.blocks[0].append_to(new)
        _hand_on(new.blocks[0], bits, _more_arguments(new.blocks[0], count))
    return _replaced(operation, made)


RULES: dict[str, Rule] = {"scf.if": _branch, "scf.for": _counted_loop, "scf.while": _while_loop}


def _with_more(operation: ir.Operation, operands: Sequence[ir.Value], count: int) -> ir.Operation:
    """The same operation with operands and `count` results more, its regions empty."""
    bit = ir.IntegerType.get_signless(1)
    return ir.Operation.create(
        operation.name,
        results=[*(each.type for each in operation.results), *[bit] * count],
        operands=[*operation.operands, *operands],
        attributes={name: operation.attributes[name] for name in operation.attributes},
        regions=len(operation.regions),
        loc=operation.location,
        ip=ir.InsertionPoint(operation),
    )


def _replaced(operation: ir.Operation, made: ir.Operation) -> list[ir.Value]:
    """The results that came to it, after `made` took the place of `operation`."""
    count = len(operation.results)
    for old, new in zip(operation.results, list(made.results)[:count], strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
    return list(made.results)[count:]


def _more_arguments(block: ir.Block, count: int) -> list[ir.Value]:
    bit = ir.IntegerType.get_signless(1)
    return [block.add_argument(bit, ir.Location.unknown()) for _ in range(count)]


def _hand_on(block: ir.Block, bits: Bits, before: Bits = ()) -> None:
    """Let the terminator hand on `bits` as well, or-ed to what was so `before`."""
    end = terminator(block)
    with ir.InsertionPoint(end), end.location:
        earlier = list(before) or [None] * len(bits)
        values = [_either(*pair) for pair in zip(earlier, bits, strict=True)]
        ir.Operation.create(end.name, operands=[*end.operands, *values])
    end.erase()


def _either(first: ir.Value | None, second: ir.Value | None) -> ir.Value:
    if first is None or second is None:
        return first or second or _false()
    return arith.ori(first, second)


def _falses(operation: ir.Operation, count: int) -> list[ir.Value]:
    with ir.InsertionPoint(operation), operation.location:
        return [_false() for _ in range(count)]


def _false() -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(1), 0)
