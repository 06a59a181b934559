"""Branches past the bounds checks of loaded indices, in scalar loops.

The checks of one loaded index are eight instructions, more than what most loops do with it. A predicted branch is one.

for k in range(start, stop):                  if likely(start >= 0):
    k' = k + n if k < 0 else k                    for k in range(start, stop):
    v = index[k']                                     v = index[k]
    outside |= v >= m or v < -m       ──►             if likely(0 <= v < m): total += x[v]
    v' = 0 if v >= m or v < -m else …                 else: the rest of the loop's own body
    total += x[v']                                else: the loop's own body

Long loops go a cache line at a time, and fetch a later one, where they access an array that is larger than L1 at the
loaded indices: a core that waits for those elements fetches too little of the others by itself.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

from mlirtri.lowering.schedule.cpu.common.strips import rest_loop
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import (
    chunks_in,
    depends_on,
    fresh,
    index,
    loads_in,
    nodes_in,
    plus,
    sequence,
    substituted,
    whole_chunks,
    with_body,
)
from mlirtri.lowering.tir.vectors import expected, fetch
from mlirtri.lowering.toolchain.tvm_names import Expr, Node, Stmt, TensorLoad, structural_equal, structural_map, tirx

MAX_STORES = 12
"""Stores of a body that is copied once for each of its indices."""
MAX_INDICES = 4
"""Loaded indices that get a branch."""
LINE = 64
"""Bytes of a cache line."""
AHEAD = 2048
"""Iterations before which a line is fetched."""
ENOUGH = 2 * AHEAD
"""Iterations from which on this pays."""
LARGE = 1 << 18
"""Bytes of an array whose elements at loaded indices are not in L1, from which on this pays: half an L2, or less."""
_FALSE = tirx.IntImm("bool", 0)


def with_in_range_branches(loop: Stmt, count: Expr) -> Stmt | None:
    """Return a scalar loop with branches past its bounds checks; None where it checks no index that it loads."""
    if nodes_in(loop.body, tirx.For, tirx.While) or len(nodes_in(loop.body, tirx.BufferStore)) > MAX_STORES:
        return None
    body = _branches(loop.body, MAX_INDICES)
    if body is None:
        return None
    if loop.step is not None:
        return with_body(loop, body)
    signs = _signs_along(loop)
    if not signs:
        return _by_lines(with_body(loop, body), count)
    starts = (_negated(substituted(sign, loop.loop_var, loop.min)) for sign in signs)
    fast = _branches(_where_false(loop.body, signs), MAX_INDICES)
    return tirx.IfThenElse(expected(reduce(tirx.And, starts)), with_body(loop, fast), fresh(loop))


def _branches(body: Stmt, left: int) -> Any:
    """Return the statements with a branch after the first load of a checked index; None without one."""
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    for position, statement in enumerate(statements):
        rest = sequence(*statements[position + 1 :])
        is_loaded = isinstance(statement, tirx.Bind) and isinstance(_uncast(statement.value), TensorLoad)
        tests = _tests_of(statement.var, rest) if left and is_loaded else []
        if not tests:
            continue
        inside = _where_false(rest, tests)
        fast = _branches(inside, left - 1)
        likely = expected(reduce(tirx.And, map(_negated, _distinct(tests))))
        branch = tirx.IfThenElse(likely, inside if fast is None else fast, fresh(rest))
        return sequence(*statements[: position + 1], branch)
    return None


def _uncast(value: Expr) -> Expr:
    return value.value if isinstance(value, tirx.Cast) else value


def _tests_of(name: Any, rest: Stmt) -> list[Any]:
    """Return the comparisons of a loaded index with its bounds; none where it is not compared with both."""
    tests = [test for test in nodes_in(rest, tirx.GE, tirx.LT) if _uncast(test.a).same_as(name)]
    is_bounded = any(isinstance(test, tirx.GE) for test in tests) and any(_is_sign_test(test) for test in tests)
    return tests if is_bounded else []


def _is_sign_test(test: Any) -> bool:
    return isinstance(test, tirx.LT) and isinstance(test.b, tirx.IntImm) and test.b.value == 0


def _signs_along(loop: Any) -> list[Any]:
    """Return the tests for a negative index that grows with the loop, so that the first iteration has the least."""
    bound = [statement.var for statement in nodes_in(loop.body, tirx.Bind)]
    tests = [test for test in nodes_in(loop.body, tirx.LT) if _is_sign_test(test)]
    forms = [(test, linear(test.a, {})) for test in tests]
    grows = [test for test, form in forms if form is not None and form.factor(loop.loop_var) > 0]
    return _distinct([test for test in grows if not depends_on(test.a, bound)])


def _distinct(tests: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for test in tests:
        if not any(structural_equal(test, other) for other in kept):
            kept.append(test)
    return kept


def _negated(test: Any) -> Expr:
    return (tirx.LT if isinstance(test, tirx.GE) else tirx.GE)(test.a, test.b)


def _where_false(body: Stmt, tests: list[Any]) -> Any:
    """Return the statements where none of the comparisons holds."""

    def replaced(node: Node) -> Any:
        return _FALSE if any(structural_equal(node, test) for test in tests) else node

    return structural_map(body, [(tirx.GE, replaced), (tirx.LT, replaced)], order="post")


def _by_lines(loop: Any, count: Expr) -> Any:
    """Return a long loop with a loop over each cache line's iterations, which fetches what is read later."""
    loads = _loads_along(loop)
    is_short = isinstance(count, tirx.IntImm) and count.value < ENOUGH
    if not loads or is_short or not any(map(_is_large, _accesses_elsewhere(loop))):
        return loop
    width = max(LINE * 8 // int(load.source.dtype.bits) for load in loads)
    line, step = tirx.Var("line", "int64"), tirx.Var("step", "int64")
    first = plus(loop.min, line * index(width))
    later = plus(first, index(AHEAD))
    fetches = [fetch(substituted(load, loop.loop_var, later)) for load in loads]
    body = substituted(loop.body, loop.loop_var, first + step)
    steps = tirx.For(step, index(0), index(width), tirx.ForKind.UNROLLED, body, None, dict(loop.annotations))
    lines = tirx.For(line, index(0), chunks_in(count, width), tirx.ForKind.SERIAL, sequence(*fetches, steps))
    return sequence(lines, *rest_loop(loop, whole_chunks(count, width), count))


def _loads_along(loop: Any) -> list[Any]:
    """Return one load of each array that the loop only reads, in the order of memory."""
    stored = {store.buffer for store in nodes_in(loop.body, tirx.BufferStore)}
    bound = [statement.var for statement in nodes_in(loop.body, tirx.Bind)]
    along: dict[Any, Any] = {}
    for load in loads_in(loop.body):
        form = linear(load.indices[0], {}) if len(load.indices) == 1 and load.source not in stored else None
        if form is not None and form.factor(loop.loop_var) == 1 and not depends_on(load.indices[0], bound):
            along.setdefault(load.source, load)
    return list(along.values())


def _accesses_elsewhere(loop: Any) -> list[Any]:
    """Return the arrays that the loop accesses at what it binds: at loaded indices."""
    bound = [statement.var for statement in nodes_in(loop.body, tirx.Bind)]
    accesses = [(load.source, load.indices) for load in loads_in(loop.body)]
    accesses += [(store.buffer, store.indices) for store in nodes_in(loop.body, tirx.BufferStore)]
    return [buffer for buffer, indices in accesses if any(depends_on(position, bound) for position in indices)]


def _is_large(buffer: Any) -> bool:
    """Return whether an array is large, or may be, by its size at run time."""
    sizes = [size.value if isinstance(size, tirx.IntImm) else LARGE for size in buffer.shape]
    return prod(sizes) * int(buffer.dtype.bits) // 8 >= LARGE
