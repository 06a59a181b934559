"""Atomic updates of one element as calls of CUDA's functions, or as a loop around `atomicCAS` where there is none.

    h[i] = h[i] + x                    atomicAdd(&h[i], x)
    h[i] = select(h[i] < x, x, h[i])   seen = h[i]
                                       do: assumed = seen; seen = atomicCAS(&h[i], assumed, select(assumed < x, …))
                                       while seen != assumed

An element has 16, 32 or 64 bits: CUDA has no atomic functions on 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import CALL
from mlirtri.lowering.tir.primfunc import buffer as declare
from mlirtri.lowering.tir.statements import index, nodes_in, sequence
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    structural_equal,
    structural_map,
    tirx,
)

ATOMIC_UPDATE = "mlirtri.atomic_update"
"""Attribute around a store whose value loads the element that it writes, and around one before that keeps it."""


@dataclass(frozen=True)
class AtomicFunction:
    """``atomicAdd(&element, operand)`` for the name ``Add``."""

    name: str
    operand: Any


_NATIVE = {
    "Add": ("int32", "uint32", "float16", "float32", "float64"),
    **dict.fromkeys(("Min", "Max", "And", "Or", "Xor"), ("int32", "uint32")),
}
"""Dtypes that CUDA's function of a name takes."""
_LONG = {"int64": "long long", "uint64": "unsigned long long"}
_WORDS = {16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}
_HEAD = "__forceinline__ __device__"
_OF_LONG = """{head} {dtype}_t {name}({dtype}_t* at, {dtype}_t value) {{
  return static_cast<{dtype}_t>(atomic{function}(reinterpret_cast<{word}*>(at), static_cast<{word}>(value)));
}}
"""
_REPLACE = """{head} uint{bits}_t mlirtri_replace_{bits}(void* at, uint{bits}_t expected, uint{bits}_t desired) {{
  return atomicCAS(static_cast<{word}*>(at), static_cast<{word}>(expected), static_cast<{word}>(desired));
}}
"""
_KINDS = {
    tirx.Add: "Add", tirx.Sub: "Add", tirx.Min: "Min", tirx.Max: "Max", tirx.BitwiseAnd: "And", tirx.BitwiseOr: "Or",
    tirx.BitwiseXor: "Xor",
}  # fmt: skip


def is_supported(dtype: str) -> bool:
    """Return whether CUDA has atomic functions for elements of a dtype."""
    return dtype in {"float16", "bfloat16", "float32", "float64"} or dtype in {
        f"{sign}int{bits}" for sign in ("", "u") for bits in _WORDS
    }


def function_of(store: Stmt) -> AtomicFunction | None:
    """Return the function that computes an update of an element; None where CUDA has none."""
    dtype = str(store.buffer.dtype)
    value = _narrow(store.value, dtype)
    name = _KINDS.get(type(value))
    if name is None or not (dtype in _NATIVE[name] or dtype in _LONG):
        return None
    sides = [value.a, value.b]
    if _is_element(sides[1], store) and not isinstance(value, tirx.Sub):
        sides.reverse()
    if not _is_element(sides[0], store) or _loads(sides[1], store.buffer):
        return None
    operand = _as(sides[1], dtype, wraps=name not in ("Min", "Max"))
    if operand is None:
        return None
    return AtomicFunction(name, -operand if isinstance(value, tirx.Sub) else operand)


def _is_element(node: Node, store: Stmt) -> bool:
    node = _narrow(node, str(store.buffer.dtype))
    return isinstance(node, TensorLoad) and node.source.same_as(store.buffer)


def _loads(node: Node, buffer: Buffer) -> bool:
    return any(load.source.same_as(buffer) for load in nodes_in(node, TensorLoad))


def _narrow(value: Expr, dtype: str) -> Any:
    """Return an update without its casts to a wider dtype and back: integers wrap, and two 16-bit floats round once."""
    while isinstance(value, tirx.Cast) and _is_exact(str(value.value.ty.dtype), dtype):
        value = value.value
    return value


def _is_exact(inner: str, dtype: str) -> bool:
    if dtype == "float16":
        return inner in ("float16", "float32")
    return "int" in dtype and "int" in inner and _bits(inner) >= _bits(dtype)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("uint"))


def _as(value: Expr, dtype: str, wraps: bool) -> Any:
    """Return an operand in the dtype of the element, whose upper bits may be cut off; None where it has more digits."""
    inner = _narrow(value, dtype)
    if str(inner.ty.dtype) == dtype:
        return inner
    return tirx.Cast(dtype, value) if wraps and "int" in dtype and "int" in str(value.ty.dtype) else None


def atomic_call(update: Stmt) -> Stmt:
    """Return the statements of one thread for an update, which may keep what the element was before."""
    *keeping, store = update.seq if isinstance(update, tirx.SeqStmt) else [update]
    kept = keeping[0].buffer if keeping else None
    function = function_of(store)
    if function is None:
        return _replacing(store, kept)
    call = _call(store.buffer, store.indices, function)
    return tirx.Evaluate(call) if kept is None else tirx.BufferStore(kept, call, [index(0)])


def _call(buffer: Buffer, indices: Any, function: AtomicFunction) -> Any:
    dtype = str(buffer.dtype)
    arguments = (tirx.address_of(tirx.BufferLoad(buffer, indices)), function.operand)
    if dtype not in _LONG:
        return tirx.call_extern(dtype, f"atomic{function.name}", *arguments)
    word = _LONG[dtype] if function.name in ("Min", "Max") else _LONG["uint64"]
    name = f"mlirtri_atomic_{function.name.lower()}_{dtype}"
    code = _OF_LONG.format(head=_HEAD, dtype=dtype, name=name, function=function.name, word=word)
    return tirx.call_intrin(dtype, CALL, name, *arguments, code)


def _as_dtype(value: Expr, dtype: str) -> Expr:
    """Return the bits of a value as a value of another dtype."""
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


def _replacing(store: Stmt, kept: Any) -> Any:
    """Return a loop that replaces an element until no other thread has changed it meanwhile."""
    dtype, bits = str(store.buffer.dtype), int(store.buffer.dtype.bits)
    word = f"uint{bits}"
    seen, assumed = declare("seen", [1], word, "local"), declare("assumed", [1], word, "local")
    done = declare("done", [1], "int32", "local")
    at, zero = tirx.address_of(tirx.BufferLoad(store.buffer, store.indices)), tirx.IntImm(word, 0)

    def load(buffer: Buffer) -> Any:
        return tirx.BufferLoad(buffer, [index(0)])

    def put(buffer: Buffer, value: Expr) -> Any:
        return tirx.BufferStore(buffer, value, [index(0)])

    def replaced_by(expected: Any, desired: Any) -> Any:
        code = _REPLACE.format(head=_HEAD, bits=bits, word=_WORDS[bits])
        return tirx.call_intrin(word, CALL, f"mlirtri_replace_{bits}", at, expected, desired, code)

    before = _as_dtype(load(assumed), dtype)

    def element(node: Node) -> Any:
        is_it = node.source.same_as(store.buffer) and all(map(structural_equal, node.indices, store.indices))
        return before if is_it else node

    value = structural_map(store.value, (TensorLoad, element), order="post")
    return sequence(
        *(tirx.AllocBuffer(each) for each in (seen, assumed, done)),
        put(seen, replaced_by(zero, zero)),
        put(done, tirx.IntImm("int32", 0)),
        tirx.While(
            tirx.EQ(load(done), tirx.IntImm("int32", 0)),
            sequence(
                put(assumed, load(seen)),
                put(seen, replaced_by(load(assumed), _as_dtype(value, word))),
                put(done, tirx.Cast("int32", tirx.EQ(load(seen), load(assumed)))),
            ),
        ),
        *([] if kept is None else [put(kept, before)]),
    )


def with_calls(statement: Stmt) -> Stmt:
    """Return a thread's statement with calls of atomic functions for the updates that are marked."""

    def call(node: Node) -> Any:
        return atomic_call(node.body) if node.attr_key == ATOMIC_UPDATE else node

    return structural_map(statement, (tirx.AttrStmt, call), order="post")
