"""Loop versioning for bounds checks of indices that are read from memory.

A chunk of 1024 iterations whose loaded indices are all in range runs a copy of the body without checks.

for i:                                        for chunk:
    v = index[i]                                  largest = 0
    outside |= v >= n or v < -n       ──►         for i in chunk: largest = max(largest, unsigned(index[i]))  # vectors
    k = 0 if v >= n or v < -n else …              if largest < n: for i in chunk: count[index[i]] += 1
    count[k] += 1                                 else: for i in chunk: the loop's own body

The copy tests the indices of the next chunk, a cache line at a time, and fetches those of the chunk after it: that is
free beside updates, of which a core does one in a cycle. A pass of its own would cost an eighth, and wait for memory.
"""

from __future__ import annotations

from functools import reduce
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
from mlirtri.lowering.tir.vectors import fetch
from mlirtri.lowering.toolchain.tvm_names import Expr, Node, Stmt, TensorLoad, structural_map, tirx

CHUNK = 1024
"""Iterations whose indices are tested together: they stay in L1."""
LINE = 64
"""Bytes of a cache line."""
ENOUGH = 4 * CHUNK
"""Iterations from which on this pays."""


Sizes = dict[Any, tuple[Any, int]]
"""Bound variable of an index → (its load, exclusive upper bound)."""


def with_checks_hoisted(loop: Stmt, count: Expr) -> Stmt | None:
    """Return a serial loop in chunks, with a test per chunk; None where it checks no index that it loads."""
    if isinstance(count, tirx.IntImm) and count.value < ENOUGH:
        return None
    if loop.step is not None or nodes_in(loop.body, tirx.For, tirx.While, tirx.IfThenElse):
        return None
    sizes = _checked_indices(loop)
    if not sizes:
        return None
    return _Versions(loop, count, sizes).build()


class _Versions:
    """A loop in chunks, while it is built."""

    def __init__(self, loop: Any, count: Expr, sizes: Sizes):
        self.loop, self.count, self.sizes = loop, count, sizes
        self.chunk = tirx.Var("chunk", "int64")
        self.length = tirx.min(index(CHUNK), count - self.chunk * index(CHUNK))
        self.largest = {name: new_buffer("largest", _unsigned(load), 1) for name, (load, _) in sizes.items()}
        self.is_tested = new_buffer("is_tested", "int64", 1)

    def build(self) -> Any:
        zero = index(0)
        tested = tirx.BufferLoad(self.is_tested, [zero])
        tests = [self._seen(name) < tirx.IntImm(_unsigned(load), size) for name, (load, size) in self.sizes.items()]
        test = tirx.IfThenElse(tirx.EQ(tested, zero), self._test(), None)
        body = _without_checks(self.loop.body, self.sizes)
        has_next = (self.chunk + index(1)) * index(CHUNK) < self.count
        fast = tirx.IfThenElse(has_next, self._fast(body), self._part(body, zero, self.length))
        branch = tirx.IfThenElse(reduce(tirx.And, tests), fast, self._part(self.loop.body, zero, self.length))
        reset = tirx.BufferStore(self.is_tested, zero, [zero])
        chunks = chunks_in(self.count + index(CHUNK - 1), CHUNK)
        over_chunks = tirx.For(self.chunk, zero, chunks, tirx.ForKind.SERIAL, sequence(test, fresh(reset), branch))
        allocated = [tirx.AllocBuffer(buffer) for buffer in (self.is_tested, *self.largest.values())]
        return sequence(*allocated, reset, over_chunks)

    def _seen(self, name: Any) -> Any:
        return tirx.BufferLoad(self.largest[name], [index(0)])

    def _note(self, name: Any, value: Expr) -> Stmt:
        return tirx.BufferStore(self.largest[name], value, [index(0)])

    def _clear(self) -> list[Stmt]:
        return [self._note(name, tirx.IntImm(_unsigned(load), 0)) for name, (load, _) in self.sizes.items()]

    def _part(self, body: Stmt, start: Any, stop: Any, kind: Any = tirx.ForKind.SERIAL) -> Any:
        """Return the iterations from `start` to before `stop`, of the chunk."""
        step = tirx.Var("step", "int64")
        shifted = substituted(body, self.loop.loop_var, self._iteration(plus(start, step)))
        return fresh(tirx.For(step, index(0), stop - start, kind, shifted, None, dict(self.loop.annotations)))

    def _iteration(self, step: Expr) -> Any:
        return plus(self.loop.min, self.chunk * index(CHUNK) + step)

    def _test(self) -> Stmt:
        """Return a pass over the indices of a chunk."""
        notes = [
            self._note(name, tirx.Max(self._seen(name), tirx.Cast(_unsigned(load), load)))
            for name, (load, _) in self.sizes.items()
        ]
        return sequence(*self._clear(), self._part(sequence(*notes), index(0), self.length))

    def _fast(self, body: Stmt) -> Stmt:
        """Return a chunk without checks, in groups whose indices are a cache line, with the test of the next chunk."""
        loads = {name: load for name, (load, _) in self.sizes.items()}
        width = max(LINE * 8 // _bits(load) for load in loads.values())
        line, lane, zero = tirx.Var("line", "int64"), tirx.Var("lane", "int64"), index(0)
        group = self._part(body, line * index(width), line * index(width) + index(width), tirx.ForKind.UNROLLED)
        lanes = {name: new_buffer("lanes", _unsigned(load), width) for name, load in loads.items()}
        # The last groups of a shorter chunk are its last indices again.
        offset = tirx.min(line * index(width) + index(CHUNK), self.count - self.chunk * index(CHUNK) - index(width))
        following = self._iteration(offset + lane)
        before, notes, after = [], [], []
        for name, load in loads.items():
            kind, buffer = _unsigned(load), lanes[name]
            value = tirx.Cast(kind, substituted(load, self.loop.loop_var, following))
            greater = tirx.Max(tirx.BufferLoad(buffer, [lane]), value)
            before += [tirx.AllocBuffer(buffer), _vector(lane, width, buffer, tirx.IntImm(kind, 0))]
            notes.append(_vector(lane, width, buffer, greater))
            later = self._iteration(line * index(width) + index(2 * CHUNK))
            notes.append(fetch(substituted(load, self.loop.loop_var, later)))
            every = self._note(name, tirx.Max(self._seen(name), tirx.BufferLoad(buffer, [lane])))
            after.append(fresh(tirx.For(lane, zero, index(width), tirx.ForKind.SERIAL, every)))
        over_lines = tirx.For(line, zero, index(CHUNK // width), tirx.ForKind.SERIAL, sequence(*notes, group))
        is_tested = tirx.BufferStore(self.is_tested, index(1), [zero])
        return sequence(*before, over_lines, *self._clear(), *after, is_tested)


def _vector(lane: Any, width: int, buffer: Any, value: Expr) -> Any:
    store = tirx.BufferStore(buffer, value, [lane])
    return fresh(tirx.For(lane, index(0), index(width), tirx.ForKind.VECTORIZED, store))


def _bits(load: TensorLoad) -> int:
    return int(str(load.ty.dtype).removeprefix("int"))


def _unsigned(load: TensorLoad) -> str:
    return f"u{load.ty.dtype}"


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
