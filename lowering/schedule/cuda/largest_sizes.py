"""Largest sizes of arrays and loops whose sizes vary: CUDA's arrays and grids are made by the host before a launch.

    for i in range(9):                           for i in range(9):
        row = alloc(9 - i)             ──►           row = alloc(9)
        for j in range(9 - i):                       for j in range(9 - i):  # largest_extent: 9
            row[j] = …                                   row[j] = …

They come from the ranges of loops and of named values. An array whose size nothing bounds stays as it is.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from math import prod
from typing import Any

from mlirtri.lowering.schedule.cuda.tiles.tile_statements import with_buffers
from mlirtri.lowering.tir.statements import index, nodes_in
from mlirtri.lowering.toolchain.tvm_names import (
    Analyzer,
    Buffer,
    Expr,
    Node,
    Range,
    Stmt,
    TensorLoad,
    structural_map,
    structural_walk,
    tirx,
)

LARGEST_EXTENT = "mlirtri.largest_extent"
"""Annotation of a loop: the most iterations that it can have."""
MOST_ELEMENTS = 1 << 28
"""Elements of an array that takes the place of smaller ones."""
UNBOUNDED = 1 << 40
"""A size above which a bound is none."""


def with_largest_sizes(statement: Stmt) -> Stmt:
    """Return the statement with arrays of constant sizes, and annotated loops, wherever a largest size is known."""
    bounds = _Bounds(statement)
    buffers = {
        buffer: tirx.decl_buffer(list(map(index, shape)), buffer.dtype, buffer.name, scope=buffer.scope(), layout=None)
        for buffer, shape in bounds.shapes.items()
    }

    def annotated(loop: Stmt) -> Any:
        if (most := bounds.extents.get(loop.loop_var)) is None:
            return loop
        annotations = {**dict(loop.annotations), LARGEST_EXTENT: most}
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, None, annotations, loop.step)

    return structural_map(with_buffers(statement, buffers), (tirx.For, annotated), order="post")


class _Bounds:
    """What is known of the varying sizes in a statement."""

    def __init__(self, statement: Stmt) -> None:
        self.shapes: dict[Any, list[int]] = {}
        """By array of a varying size, the largest shape."""
        self.extents: dict[Any, int] = {}
        """By variable of a loop with a varying extent, the largest one."""
        self._analyzer = Analyzer()
        self._values = values_stored_once(statement)
        rules = [(tirx.Bind, self._name), (tirx.For, self._enter), (tirx.AllocBuffer, self._allocate)]
        structural_walk(statement, rules, order="pre")

    def _name(self, node: Node) -> None:
        is_load = isinstance(node.value, TensorLoad)
        value = self._values.get(node.value.source, node.value) if is_load else node.value
        # TVM raises where the interval of a value is past its dtype, as that of a hash is: it bounds no size then.
        with suppress(ValueError):
            self._analyzer.bind(node.var, value)

    def _enter(self, node: Node) -> None:
        self._analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        largest = self._largest(node.extent)
        if not isinstance(node.extent, tirx.IntImm) and largest < UNBOUNDED:
            self.extents[node.loop_var] = largest

    def _allocate(self, node: Node) -> None:
        shape = node.buffer.shape
        bounds = [max(1, self._largest(size)) for size in shape]
        if not all(isinstance(size, tirx.IntImm) for size in shape) and prod(bounds) <= MOST_ELEMENTS:
            self.shapes[node.buffer] = bounds

    def _largest(self, size: Any) -> int:
        return int(self._analyzer.const_int_bound(size).max_value)


def values_stored_once(statement: Stmt) -> dict[Buffer, Expr]:
    """Return the value of each scalar buffer that one statement alone stores."""
    scalars = {
        node.buffer
        for node in nodes_in(statement, tirx.AllocBuffer)
        if all(isinstance(size, tirx.IntImm) and size.value == 1 for size in node.buffer.shape)
    }
    stores = [store for store in nodes_in(statement, tirx.BufferStore) if store.buffer in scalars]
    times = Counter(store.buffer for store in stores)
    return {store.buffer: store.value for store in stores if times[store.buffer] == 1}
