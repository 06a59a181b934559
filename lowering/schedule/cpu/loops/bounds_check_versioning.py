"""Loop versioning for bounds checks of indices that are read from memory.

A chunk of 1024 iterations whose loaded indices are all in range runs a copy of the body without checks.

for i:                                        for chunk:
    v = index[i]                                  outside = 0
    outside |= v >= n or v < -n       ──►         for i in chunk: outside |= index[i] < 0 or index[i] >= n  # vectors
    k = 0 if v >= n or v < -n else …              if outside == 0: for i in chunk: count[index[i]] += 1
    count[k] += 1                                 else: for i in chunk: the loop's own body
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import (
    chunks_in,
    depends_on,
    fresh,
    index,
    new_buffer,
    nodes_in,
    plus,
    sequence,
    substituted,
)
from mlirtri.lowering.toolchain.tvm_names import (
    Expr,
    Node,
    Stmt,
    TensorLoad,
    structural_map,
    tirx,
)

CHUNK = 1024
"""Iterations whose indices are tested together: they stay in L1."""
ENOUGH = 4 * CHUNK
"""Iterations from which on this pays."""


def with_checks_hoisted(loop: Stmt, count: Expr) -> Stmt | None:
    """Return a serial loop in chunks, with a test per chunk; None where it checks no index that it loads."""
    if isinstance(count, tirx.IntImm) and count.value < ENOUGH:
        return None
    if loop.step is not None or nodes_in(loop.body, tirx.For, tirx.While, tirx.IfThenElse):
        return None
    sizes = _checked_indices(loop)
    if not sizes:
        return None
    chunk, step = tirx.Var("chunk", "int64"), tirx.Var("step", "int64")
    start = chunk * index(CHUNK)
    length = tirx.min(index(CHUNK), count - start)

    def part(body: Stmt) -> Any:
        shifted = substituted(body, loop.loop_var, plus(loop.min, start + step))
        return fresh(tirx.For(step, index(0), length, tirx.ForKind.SERIAL, shifted, None, dict(loop.annotations)))

    outside = new_buffer("outside", "int64", 1)
    flag = tirx.BufferLoad(outside, [index(0)])
    note = tirx.BufferStore(outside, flag | _outside_flag(sizes), [index(0)])
    branch = tirx.IfThenElse(tirx.EQ(flag, index(0)), part(_without_checks(loop.body, sizes)), part(loop.body))
    clear = tirx.BufferStore(outside, index(0), [index(0)])
    body = sequence(tirx.AllocBuffer(outside), clear, part(note), branch)
    return tirx.For(chunk, index(0), chunks_in(count + index(CHUNK - 1), CHUNK), tirx.ForKind.SERIAL, body)


Sizes = dict[Any, tuple[Any, int]]
"""Bound variable of an index → (its load, exclusive upper bound)."""


def _checked_indices(loop: Stmt) -> Sizes:
    """Return the integers that the body reads from memory, and compares with a size and with 0 or less."""
    body = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    stored = {store.buffer for store in nodes_in(loop.body, tirx.BufferStore)}
    names = [statement.var for statement in body if isinstance(statement, tirx.Bind)]
    least: dict[Any, int] = {}
    for test in nodes_in(loop.body, tirx.GE):
        if isinstance(test.b, tirx.IntImm) and any(test.a.same_as(name) for name in names) and test.b.value > 0:
            size = int(test.b.value)
            least[test.a] = min(size, least.get(test.a, size))
    tests = [test for test in nodes_in(loop.body, tirx.LT) if isinstance(test.b, tirx.IntImm) and test.b.value <= 0]
    sizes = {}
    for statement in body:
        load = statement.value if isinstance(statement, tirx.Bind) else None
        is_checked = isinstance(load, TensorLoad) and statement.var in least and load.source not in stored
        if not is_checked or not any(test.a.same_as(statement.var) for test in tests):
            continue
        if len(load.indices) == 1 and not depends_on(load.indices[0], names) and linear(load.indices[0], {}):
            sizes[statement.var] = (load, least[statement.var])
    return sizes


def _outside_flag(sizes: Sizes) -> Expr:
    """Return 1 where an index of the iteration is out of range, else 0, as int64: vectors of it are or-ed."""
    tests = [tirx.Or(load < _of(load, 0), load >= _of(load, size)) for load, size in sizes.values()]
    condition = tests[0]
    for test in tests[1:]:
        condition = tirx.Or(condition, test)
    return tirx.Select(condition, index(1), index(0))


def _of(load: TensorLoad, value: int) -> Any:
    return tirx.IntImm(str(load.ty.dtype), value)


def _without_checks(body: Stmt, sizes: Sizes) -> Any:
    """Return the body where each index is known to be from 0 to below its size."""
    false = tirx.IntImm("bool", 0)

    def size_of(node: Node) -> int | None:
        is_test = isinstance(node.a, tirx.Var) and isinstance(node.b, tirx.IntImm)
        return sizes[node.a][1] if is_test and node.a in sizes else None

    def at_least(node: Node) -> Any:
        size = size_of(node)
        return false if size is not None and node.b.value >= size else node

    def below(node: Node) -> Any:
        return false if size_of(node) is not None and node.b.value <= 0 else node

    return structural_map(body, [(tirx.GE, at_least), (tirx.LT, below)], order="post")
