"""Stores of bf16 values that contain `Let`, as the rounding before a `max` does.

Takes the stores of a contraction, for one element each. Gives them with a private buffer, and a store to it, for each
`Let`: TVM rounds a value by a formula that repeats it, and rejects vectors with a variable bound twice. `Let` in the
arms of a condition, which may only be computed where it holds, stays where it is.
"""

from __future__ import annotations

from typing import Any

from mlirtri.lowering.elementary.tir_pass import always_bound, with_loads
from mlirtri.lowering.tir.bfloat16_storage import HALF
from mlirtri.lowering.toolchain.tvm_names import Buffer, Stmt, tirx


def without_lets(stores: list[Stmt]) -> tuple[list[Stmt], list[Buffer]]:
    """Return the stores without `Let`, and the private buffers that have been added."""
    rewritten: list[Any] = []
    private: list[Any] = []
    for store in stores:
        loads: dict[Any, Any] = {}
        for let in always_bound(store.value) if _uses_names(store) else ():
            buffer = tirx.decl_buffer(store.buffer.ty.shape, str(let.var.ty.dtype), let.var.name, layout=None)
            private.append(buffer)
            rewritten.append(tirx.BufferStore(buffer, with_loads(let.value, loads), store.indices))
            loads[let.var] = tirx.BufferLoad(buffer, store.indices)
        rewritten.append(tirx.BufferStore(store.buffer, with_loads(store.value, loads), store.indices))
    return rewritten, private


def _uses_names(store: Any) -> bool:
    """Whether a bf16 value uses `Let` for more than to round it by its bits."""
    value = store.value
    if str(store.buffer.dtype) != HALF or not always_bound(value):
        return False
    while isinstance(value, tirx.Let):
        value = value.body
    return not str(getattr(getattr(value, "op", None), "name", "")).endswith(".reinterpret")
