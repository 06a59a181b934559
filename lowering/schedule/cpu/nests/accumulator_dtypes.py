"""Accumulators of another dtype than their results, which a CPU can vectorise.

A bool is a byte, an unsigned byte held in a signed one is unsigned, bf16 is fp32, and a position has 32 bits where no
row is longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlirtri.lowering.tir.arithmetic import widened_bfloat16
from mlirtri.lowering.tir.statements import depends_on, index, sequence
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    Stmt,
    TensorLoad,
    ir,
    structural_equal,
    structural_map,
    structural_walk,
    tirx,
)

INT32_MAX = 2**31 - 1
_JOINED = {"BitwiseOr": tirx.bitwise_or, "Or": tirx.bitwise_or, "BitwiseAnd": tirx.bitwise_and,
           "And": tirx.bitwise_and, "BitwiseXor": tirx.bitwise_xor}  # fmt: skip


def accumulator_dtype(result: Buffer, statement: Stmt, *, is_position: bool) -> str:
    """Return the dtype of the accumulator for a result that `statement` stores to."""
    dtype = str(result.dtype)
    if is_position:
        return "int32"
    stores: list[Any] = []
    structural_walk(statement, (tirx.BufferStore, stores.append), order="pre")
    values = [store.value for store in stores if store.buffer.same_as(result)]
    if dtype == "bool" and all(type(value).__name__ in _JOINED for value in values):
        return "int8"
    if dtype.startswith("int") and all(_is_reinterpreted(value, "u" + dtype) for value in values):
        return "u" + dtype
    if dtype == "bfloat16" and all(isinstance(value, tirx.Select) for value in values):
        return "float32"
    return dtype


def stored_at_once(statement: Stmt) -> Stmt:
    """Return `statement` with its first result stored directly, not through a bf16 scratch buffer."""
    statements = list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    allocated = [child.buffer for child in statements if isinstance(child, tirx.AllocBuffer)]
    stores = [child for child in statements if isinstance(child, tirx.BufferStore)]
    first = next((store for store in stores if store.buffer not in allocated), None)
    if len(stores) + len(allocated) != len(statements) or first is None or not isinstance(first.value, TensorLoad):
        return statement
    scratch = first.value.source
    makers = [store for store in stores if store.buffer.same_as(scratch)]
    if str(scratch.dtype) != "bfloat16" or scratch not in allocated or len(makers) != 1:
        return statement
    between = [store.buffer for store in stores[stores.index(makers[0]) + 1 : stores.index(first)]]
    others = [store.value for store in stores if store is not first]
    if depends_on(makers[0].value, between) or any(depends_on(value, [scratch]) for value in others):
        return statement
    remaining = [child for child in statements if child is not makers[0] and not _allocates(child, scratch)]
    store = tirx.BufferStore(first.buffer, makers[0].value, first.indices)
    return sequence(*(store if child is first else child for child in remaining))


def _allocates(statement: Stmt, buffer: Buffer) -> bool:
    return isinstance(statement, tirx.AllocBuffer) and statement.buffer.same_as(buffer)


def on_accumulators(statement: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """Return `statement` with accumulators in place of the elements of results."""

    wide = [
        (widened_bfloat16(tirx.reinterpret("uint16", result_of(accumulator, "bfloat16"))), accumulator)
        for result, accumulator in buffers.items()
        if str(result.dtype) == "bfloat16" != str(accumulator.dtype)
    ]

    def load(node: Node) -> Any:
        return result_of(buffers[node.source], str(node.source.dtype)) if node.source in buffers else node

    def call(node: Node) -> Any:
        """A bf16 accumulator that is widened is the fp32 that it holds."""
        matches = [accumulator for value, accumulator in wide if structural_equal(node, value)]
        return tirx.BufferLoad(matches[0], [index(0)]) if matches else node

    def store(node: Node) -> Any:
        if node.buffer not in buffers:
            return node
        accumulator = buffers[node.buffer]
        value = node.value if accumulator.dtype == node.buffer.dtype else _as_accumulator(node.value, accumulator)
        return tirx.BufferStore(accumulator, _as_maximum(value), [index(0)])

    rules = [(TensorLoad, load), (tirx.BufferStore, store), *([(ir.Call, call)] if wide else [])]
    return structural_map(statement, rules, order="post")


def result_of(accumulator: Buffer, dtype: str) -> Expr:
    """Return the value of an accumulator in the dtype of the result."""
    load = tirx.BufferLoad(accumulator, [index(0)])
    if str(accumulator.dtype) == dtype:
        return load
    return tirx.reinterpret(dtype, load) if str(accumulator.dtype) == "u" + dtype else tirx.Cast(dtype, load)


def _as_accumulator(value: Expr, accumulator: Buffer) -> Any:
    dtype, kind = str(accumulator.dtype), str(value.ty.dtype)
    current = result_of(accumulator, kind)
    if structural_equal(value, current):
        return tirx.BufferLoad(accumulator, [index(0)])
    if kind == "bool":
        if type(value).__name__ in _JOINED:
            return _JOINED[type(value).__name__](
                _as_accumulator(value.a, accumulator), _as_accumulator(value.b, accumulator)
            )
        return tirx.IntImm(dtype, value.value) if isinstance(value, tirx.IntImm) else tirx.Cast(dtype, value)
    if kind == "bfloat16":
        return _in_fp32(value, accumulator)
    if isinstance(value, tirx.IntImm):
        low, high = (0, 2 ** int(dtype[4:]) - 1) if dtype.startswith("u") else (-INT32_MAX - 1, INT32_MAX)
        return tirx.IntImm(dtype, value.value & high if low == 0 else max(low, min(high, value.value)))
    if dtype == "u" + kind:
        return (
            _unwrapped(value.args[0], accumulator)
            if _is_reinterpreted(value, dtype)
            else tirx.reinterpret(dtype, value)
        )
    return tirx.Cast(dtype, value)


def _unwrapped(value: Expr, accumulator: Buffer) -> Any:
    """Return an unsigned value in terms of the accumulator, without the conversion of its bits to a signed number."""
    signed = str(accumulator.dtype)[1:]

    def call(node: Node) -> Any:
        is_own = _is_reinterpreted(node, signed) and structural_equal(node.args[0], result_of(accumulator, signed))
        return tirx.BufferLoad(accumulator, [index(0)]) if is_own else node

    return structural_map(value, (ir.Call, call), order="post")


def _in_fp32(value: Expr, accumulator: Buffer) -> Any:
    if isinstance(value, tirx.FloatImm):
        return tirx.FloatImm("float32", float(value.value))
    if isinstance(value, tirx.Select):
        return tirx.Select(
            value.condition,
            _as_accumulator(value.true_value, accumulator),
            _as_accumulator(value.false_value, accumulator),
        )
    if isinstance(value, TensorLoad):
        return widened_bfloat16(tirx.reinterpret("uint16", value))
    return tirx.Cast("float32", value)


def _is_reinterpreted(value: Expr, source: str) -> bool:
    is_call = isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith(".reinterpret")
    return is_call and str(value.args[0].ty.dtype) == source


def _as_maximum(value: Expr) -> Any:
    """Return ``select(a > b or isnan(a), a, b)`` as a maximum and a select, which are one instruction each."""
    if not isinstance(value, tirx.Select) or not isinstance(value.condition, tirx.Or):
        return value
    larger = tirx.Select(value.condition.a, value.true_value, value.false_value)
    return tirx.Select(value.condition.b, value.true_value, larger)
