"""One vectorised store for several neighbouring iterations; complex elements through a buffer of both parts.

TVM would load the parts of complex elements, which have stride 2, one by one. Loaded as a whole vector first, they are
shuffled::

    y[j, 0] = x[j, 0] * x[j, 1]     ──►     parts[0:16] = x[j:j+8, 0:2]
                                            other[0:16] = y[j:j+8, 0:2]
                                            other[0:16:2] = parts[0:16:2] * parts[1:16:2]
                                            y[j:j+8, 0:2] = other[0:16]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import depends_on, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.tir.vectors import PARTS
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Stmt,
    TensorLoad,
    Var,
    ir,
    structural_equal,
    structural_map,
    tirx,
)


def vector_store(store: Stmt, offset: Var, first: Expr, lanes: int) -> Stmt:
    """Return `store` for the `lanes` iterations ``offset = first, first + 1, …`` as a vectorised loop."""
    return _Vectors(offset, first, lanes).store(structural_map(store, (ir.Call, _vectorizable), order="post"))


def is_part(buffer: Buffer, indices: Sequence[Expr], offset: Var) -> bool:
    """Return whether an access is to one part of a complex element, and the next iteration's to the next element."""
    size = buffer.ty.shape[-1] if len(indices) > 1 else None
    if not isinstance(size, tirx.IntImm) or size.value != PARTS or not isinstance(indices[-1], tirx.IntImm):
        return False
    form = linear(indices[-2], {})
    if form is None or form.factor(offset) != 1:
        return False
    return not any(depends_on(position, [offset]) for position in indices[:-2])


class _Vectors:
    def __init__(self, offset: Expr, first: Any, lanes: int):
        self.offset, self.first, self.lanes = offset, first, lanes
        self.lane = tirx.Var("lane", "int64")
        self.before: list[Any] = []
        self.parts: list[tuple[Any, Any, Any]] = []
        """Complex arrays, the indices of their elements, and the buffers of both parts."""

    def store(self, store: Stmt) -> Any:
        value = structural_map(store.value, (TensorLoad, self._load), order="post")
        buffer, indices, copies_back = store.buffer, store.indices, []
        if is_part(buffer, indices, self.offset):
            both = self._both_parts(buffer, indices)
            copies_back = [self._copied(buffer, indices, both, is_back=True)]
            buffer, indices = both, [self._index_of(indices)]
        body = tirx.BufferStore(buffer, value, indices)
        body = substituted(body, self.offset, plus(self.first, self.lane))
        # TVM does not vectorise bf16 constants; LLVM does.
        is_constant = isinstance(value, tirx.FloatImm) and str(value.ty.dtype) == "bfloat16"
        kind = tirx.ForKind.SERIAL if is_constant else tirx.ForKind.VECTORIZED
        loop = tirx.For(self.lane, index(0), index(self.lanes), kind, body)
        return sequence(*self.before, loop, *copies_back)

    def _load(self, load: TensorLoad) -> Any:
        if not is_part(load.source, load.indices, self.offset):
            return load
        return tirx.BufferLoad(self._both_parts(load.source, load.indices), [self._index_of(load.indices)])

    def _index_of(self, indices: Any) -> Any:
        return plus(self.lane * index(PARTS), indices[-1])

    def _both_parts(self, buffer: Buffer, indices: Any) -> Any:
        for array, element_indices, both in self.parts:
            if array.same_as(buffer) and all(map(structural_equal, element_indices, indices[:-1])):
                return both
        both = new_buffer(f"{buffer.name}_parts", buffer.dtype, PARTS * self.lanes)
        self.parts.append((buffer, indices[:-1], both))
        self.before += [tirx.AllocBuffer(both), self._copied(buffer, indices, both, is_back=False)]
        return both

    def _copied(self, buffer: Buffer, indices: Any, both: Any, *, is_back: bool) -> Any:
        """Return the copy of both parts of all elements, in one vector, from the array or back to it."""
        position = tirx.Var("part", "int64")
        number, part = tirx.floordiv(position, index(PARTS)), tirx.floormod(position, index(PARTS))
        element_indices = [
            substituted(expression, self.offset, plus(self.first, number)) for expression in indices[:-1]
        ]
        if is_back:
            body = tirx.BufferStore(buffer, tirx.BufferLoad(both, [position]), [*element_indices, part])
        else:
            body = tirx.BufferStore(both, tirx.BufferLoad(buffer, [*element_indices, part]), [position])
        return tirx.For(position, index(0), index(PARTS * self.lanes), tirx.ForKind.VECTORIZED, body)


def _vectorizable(call: Expr) -> Any:
    """Return `isnan` in a form that TVM vectorises; it folds a plain comparison as if there were no NaN."""
    if str(getattr(call.op, "name", "")) != "tirx.isnan":
        return call
    [x] = call.args
    is_number = tirx.LE(tirx.abs(x), tirx.FloatImm(str(x.ty), float("inf")))
    return tirx.bitwise_xor(is_number, tirx.IntImm("bool", 1))
