"""Loops that find the first index with a property: vectors of comparisons, until one of them is true.

for k: first = min(select(p(k), k, LARGEST), first)      ──►

while position + 64 <= n and not hit:  flags = p(position … position + 63);  hit = any(flags)
if hit:  first = min(first, position + the first of the flags)
else:    the scalar loop over the rest

Rows of one array have ``offset + k`` in place of k: a row after the one that has it is skipped, since its indices are
larger. Where p is ``select(c, q(k), r(k))``, as for the place of a number or of NaN, the search is for r, and the
loop itself runs where c holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.schedule.cpu.common.strips import Shape, rest_loop, strip
from mlirtri.lowering.schedule.cpu.loops.carried_reductions import combined
from mlirtri.lowering.schedule.imperative.accesses import accesses_of
from mlirtri.lowering.schedule.imperative.carried_sums import Sum
from mlirtri.lowering.tir.statements import depends_on, fresh, index, is_load, new_buffer, nodes_in, plus, sequence
from mlirtri.lowering.tir.tiles import for_loop
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Extent, Stmt, Var, tirx, with_values

VECTORS = 4
"""Vectors of comparisons between two branches."""
LARGEST = 2**62
"""Numbers from which on a constant stands for no index."""
_ZERO = index(0)
_NO, _YES = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)


@dataclass(frozen=True)
class _Search:
    """What a loop finds: the first ``offset + k`` with a property."""

    condition: Expr
    offset: Expr | None
    """None for 0."""
    unlikely: Expr | None
    """Where this holds it is another property; None where it never is."""


def first_index(loop: Stmt, count: Extent) -> Stmt | None:
    """Return a loop of `count` iterations that finds such an index as a search; None for any other loop."""
    store = _store_of(loop)
    search = None if store is None else _search_of(store, loop)
    if search is None:
        return None
    lanes = _lanes(loop, store.buffer)
    if lanes < 2 or not isinstance(loop.min, tirx.IntImm) or loop.min.value != 0 or loop.step is not None:
        return None
    statement = _searched(loop, count, store, search, lanes)
    if statement is None:
        return None
    if search.unlikely is not None:
        statement = tirx.IfThenElse(search.unlikely, fresh(loop), statement)
    if search.offset is None:
        return statement
    later = tirx.IfThenElse(tirx.GT(tirx.BufferLoad(store.buffer, [_ZERO]), search.offset), statement, None)
    # The indices of a row grow unless their sum wraps.
    is_whole = tirx.And(tirx.GE(search.offset, _ZERO), tirx.LT(search.offset, index(LARGEST)))
    return tirx.IfThenElse(is_whole, later, fresh(loop))


def _searched(loop: Stmt, count: Extent, store: Any, search: _Search, lanes: int) -> Any:
    width = VECTORS * lanes
    position, hit = new_buffer("position", "int64", 1), new_buffer("hit", "int32", 1)
    flag, flags = new_buffer("flag", "int32", 1), new_buffer("flags", "int32", 1, width)
    mark = tirx.BufferStore(flag, tirx.Select(search.condition, _YES, _NO), [_ZERO])
    here = tirx.BufferLoad(position, [_ZERO])
    compared = strip(_with(loop.body, store, mark), loop.loop_var, here, Shape(VECTORS, lanes), {flag: flags})
    if compared is None:
        return None
    after = tirx.Select(tirx.NE(tirx.BufferLoad(hit, [_ZERO]), _NO), here, here + index(width))
    goes = tirx.And(tirx.LE(here + index(width), count), tirx.EQ(tirx.BufferLoad(hit, [_ZERO]), _NO))
    steps = sequence(
        compared, tirx.BufferStore(hit, _any(flags, lanes), [_ZERO]), tirx.BufferStore(position, after, [_ZERO])
    )
    [rest] = rest_loop(loop, here, count) or [None]
    found = _found(store.buffer, here if search.offset is None else search.offset + here, flags, lanes)
    return sequence(
        *(tirx.AllocBuffer(buffer) for buffer in (position, hit, flags)),
        tirx.BufferStore(position, _ZERO, [_ZERO]),
        tirx.BufferStore(hit, _NO, [_ZERO]),
        tirx.While(goes, steps),
        tirx.IfThenElse(tirx.NE(tirx.BufferLoad(hit, [_ZERO]), _NO), found, rest),
    )


def _store_of(loop: Stmt) -> Any:
    """Return the one store of a loop of definitions and a store to a scalar buffer; None for any other loop."""
    statements = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    stores = [statement for statement in statements if isinstance(statement, tirx.BufferStore)]
    binds = [statement for statement in statements if isinstance(statement, tirx.Bind)]
    if len(stores) != 1 or len(stores) + len(binds) != len(statements):
        return None
    is_own = not any(depends_on(bind.value, [stores[0].buffer]) for bind in binds)
    return stores[0] if is_own and str(stores[0].buffer.dtype) == "int64" else None


def _search_of(store: Stmt, loop: Any) -> _Search | None:
    """Return the search of ``first = min(select(p(k), offset + k, LARGEST), first)``; None for any other store."""
    value = store.value
    if not isinstance(value, tirx.Min):
        return None
    choice, old = (value.b, value.a) if is_load(value.a, store.buffer) else (value.a, value.b)
    if not is_load(old, store.buffer) or not isinstance(choice, tirx.Select):
        return None
    changing = [loop.loop_var, store.buffer]
    offset = _offset_in(choice.true_value, loop.loop_var)
    is_none = isinstance(choice.false_value, tirx.IntImm) and choice.false_value.value >= LARGEST
    if offset is None or not is_none or depends_on(choice.condition, [store.buffer]) or depends_on(offset, changing):
        return None
    binds = {bind.var: bind.value for bind in nodes_in(loop.body, tirx.Bind)}
    if depends_on(offset, binds):
        return None
    is_first = isinstance(offset, tirx.IntImm) and offset.value == 0
    condition, unlikely = choice.condition, None
    if isinstance(condition, tirx.Select):
        unlikely = with_values(condition.condition, binds)
        if depends_on(unlikely, [*changing, *binds]):
            unlikely = None
        else:
            condition = condition.false_value
    return _Search(condition, None if is_first else offset, unlikely)


def _offset_in(value: Expr, variable: Var) -> Expr | None:
    """Return x of ``x + variable``, which may be a sum that wraps; None for any other expression."""
    if isinstance(value, tirx.Var) and value.same_as(variable):
        return _ZERO
    if isinstance(value, tirx.Cast) and str(value.value.ty) == "int128":
        value = value.value
    if not isinstance(value, tirx.Add):
        return None
    sides = [side.value if isinstance(side, tirx.Cast) else side for side in (value.a, value.b)]
    others = [side for side in sides if not (isinstance(side, tirx.Var) and side.same_as(variable))]
    return others[0] if len(others) == 1 and str(others[0].ty) == "int64" else None


def _lanes(loop: Stmt, result: Buffer) -> int:
    """Return the lanes of a vector of the widest element that is compared; 1 where there is none."""
    accesses = accesses_of(loop.body)
    buffers = [access.buffer for access in accesses.all if not access.buffer.same_as(result)]
    if accesses.is_opaque or not buffers or any(str(buffer.dtype) == "bfloat16" for buffer in buffers):
        return 1
    return lanes_in_register(*(int(buffer.dtype.bits) for buffer in buffers), least_bits=32)


def _with(body: Stmt, store: Stmt, other: Stmt) -> Stmt:
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    return sequence(*(other if statement.same_as(store) else statement for statement in statements))


def _any(flags: Buffer, lanes: int) -> Expr:
    """Return a number that is not 0 if one of the flags is not."""
    vectors = [
        tirx.BufferLoad(flags, [_ZERO, tirx.Ramp(index(vector * lanes), index(1), lanes)]) for vector in range(VECTORS)
    ]
    while len(vectors) > 1:
        vectors = [tirx.bitwise_or(first, second) for first, second in zip(vectors[::2], vectors[1::2], strict=True)]
    return tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", vectors[0])


def _found(first: Buffer, position: Expr, flags: Buffer, lanes: int) -> Stmt:
    """Return statements that store the smaller one of `first` and `position` plus the number of the first flag."""
    width = VECTORS * lanes
    number, numbers = new_buffer("number", "int32", 1), new_buffer("numbers", "int32", 1, width)

    def numbered(start: int, lane: Any) -> Stmt:
        indices = [_ZERO, plus(index(start), lane)]
        value = tirx.Select(
            tirx.NE(tirx.BufferLoad(flags, indices), _NO), tirx.Cast("int32", indices[1]), tirx.IntImm("int32", width)
        )
        return tirx.BufferStore(numbers, value, indices)

    vectors = [
        for_loop("lane", lanes, lambda lane, start=start: numbered(start, lane), tirx.ForKind.VECTORIZED)
        for start in range(0, width, lanes)
    ]
    smallest = Sum(number, tirx.Min, None, tirx.BufferLoad(number, [_ZERO]))
    position_of_match = position + tirx.Cast("int64", tirx.BufferLoad(number, [_ZERO]))
    return sequence(
        tirx.AllocBuffer(number),
        tirx.AllocBuffer(numbers),
        tirx.BufferStore(number, tirx.IntImm("int32", width), [_ZERO]),
        *vectors,
        combined(smallest, numbers, lanes, width),
        tirx.BufferStore(first, tirx.min(tirx.BufferLoad(first, [_ZERO]), position_of_match), [_ZERO]),
    )
