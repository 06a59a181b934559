"""One store for several neighbouring iterations, as vectors; complex numbers by way of a buffer of both parts.

Takes a store in which a variable counts iterations. Gives statements that do `lanes` of them at once. TVM would read
every second element one by one, as the parts of complex numbers are; read as a whole first, they are shuffled::

    y[j, 0] = x[j, 0] * x[j, 1]     ──►     parts[0:16] = x[j:j+8, 0:2]
                                            other[0:16] = y[j:j+8, 0:2]
                                            other[0:16:2] = parts[0:16:2] * parts[1:16:2]
                                            y[j:j+8, 0:2] = other[0:16]
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import depends_on, index, new_buffer, plus, sequence, substituted
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, ir, structural_equal, structural_map, tirx

PARTS = 2


def vector_store(store: Any, offset: Any, first: Any, lanes: int) -> Any:
    """`store` for the iterations ``offset = first, first + 1, …``; as many as there are lanes."""
    return _Vectors(offset, first, lanes).store(structural_map(store, (ir.Call, _vectorizable), order="post"))


def is_part(buffer: Any, indices: Any, offset: Any) -> bool:
    """Whether an access is to one part of a complex number, and that of the next iteration beside it."""
    size = buffer.ty.shape[-1] if len(indices) > 1 else None
    if not isinstance(size, tirx.IntImm) or size.value != PARTS or not isinstance(indices[-1], tirx.IntImm):
        return False
    place = linear(indices[-2], {})
    if place is None or place.factor(offset) != 1:
        return False
    return not any(depends_on(each, [offset]) for each in indices[:-2])


class _Vectors:
    """The statements for one store, as they are found to be needed."""

    def __init__(self, offset: Any, first: Any, lanes: int):
        self.offset, self.first, self.lanes = offset, first, lanes
        self.lane = tirx.Var("lane", "int64")
        self.before: list[Any] = []
        self.parts: list[tuple[Any, Any, Any]] = []
        """Complex arrays, the indices of their numbers, and the buffers that have both parts of these."""

    def store(self, store: Any) -> Any:
        value = structural_map(store.value, (TensorLoad, self._load), order="post")
        buffer, indices, after = store.buffer, store.indices, []
        if is_part(buffer, indices, self.offset):
            both = self._both_parts(buffer, indices)
            after = [self._copied(buffer, indices, both, is_back=True)]
            buffer, indices = both, [self._place_of(indices)]
        body = tirx.BufferStore(buffer, value, indices)
        body = substituted(body, self.offset, plus(self.first, self.lane))
        # TVM makes no vectors of bf16 constants; LLVM does.
        is_constant = isinstance(value, tirx.FloatImm) and str(value.ty.dtype) == "bfloat16"
        kind = tirx.ForKind.SERIAL if is_constant else tirx.ForKind.VECTORIZED
        loop = tirx.For(self.lane, index(0), index(self.lanes), kind, body)
        return sequence(*self.before, loop, *after)

    def _load(self, load: Any) -> Any:
        if not is_part(load.source, load.indices, self.offset):
            return load
        return tirx.BufferLoad(self._both_parts(load.source, load.indices), [self._place_of(load.indices)])

    def _place_of(self, indices: Any) -> Any:
        """Where this part is among both parts of all numbers."""
        return plus(self.lane * index(PARTS), indices[-1])

    def _both_parts(self, buffer: Any, indices: Any) -> Any:
        """The buffer into which both parts are read."""
        for known, places, both in self.parts:
            if known.same_as(buffer) and all(map(structural_equal, places, indices[:-1])):
                return both
        both = new_buffer(f"{buffer.name}_parts", buffer.dtype, PARTS * self.lanes)
        self.parts.append((buffer, indices[:-1], both))
        self.before += [tirx.AllocBuffer(both), self._copied(buffer, indices, both, is_back=False)]
        return both

    def _copied(self, buffer: Any, indices: Any, both: Any, *, is_back: bool) -> Any:
        """Both parts of all numbers, in one vector, out of the array or back into it."""
        at = tirx.Var("part", "int64")
        number, part = tirx.floordiv(at, index(PARTS)), tirx.floormod(at, index(PARTS))
        places = [substituted(each, self.offset, plus(self.first, number)) for each in indices[:-1]]
        if is_back:
            body = tirx.BufferStore(buffer, tirx.BufferLoad(both, [at]), [*places, part])
        else:
            body = tirx.BufferStore(both, tirx.BufferLoad(buffer, [*places, part]), [at])
        return tirx.For(at, index(0), index(PARTS * self.lanes), tirx.ForKind.VECTORIZED, body)


def _vectorizable(call: Any) -> Any:
    """A test for NaN in a form that TVM makes vectors of; the plain ones it folds as if there were no NaN."""
    if str(getattr(call.op, "name", "")) != "tirx.isnan":
        return call
    [x] = call.args
    is_number = tirx.LE(tirx.abs(x), tirx.FloatImm(str(x.ty), float("inf")))
    return tirx.bitwise_xor(is_number, tirx.IntImm("bool", 1))
