"""Accumulators of another dtype than their results, which a CPU can vectorise.

Takes the statements of a reduction. Gives them on cells: a bool is a byte, an unsigned byte held in a signed one is
unsigned, bf16 is fp32, and a position has 32 bits where no row is longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlirtri.lowering.tir.arithmetic import widened_bfloat16
from mlirtri.lowering.tir.statements import depends_on, index, sequence
from mlirtri.lowering.toolchain.tvm_names import TensorLoad, ir, structural_equal, structural_map, structural_walk, tirx

INT32_MAX = 2**31 - 1
_JOINED = {"BitwiseOr": tirx.bitwise_or, "Or": tirx.bitwise_or, "BitwiseAnd": tirx.bitwise_and,
           "And": tirx.bitwise_and, "BitwiseXor": tirx.bitwise_xor}  # fmt: skip


def cell_dtype(made: Any, statement: Any, *, is_position: bool) -> str:
    """Return the dtype of the cell for a result that `statement` stores to."""
    dtype = str(made.dtype)
    if is_position:
        return "int32"
    stores: list[Any] = []
    structural_walk(statement, (tirx.BufferStore, stores.append), order="pre")
    values = [each.value for each in stores if each.buffer.same_as(made)]
    if dtype == "bool" and all(type(each).__name__ in _JOINED for each in values):
        return "int8"
    if dtype.startswith("int") and all(_is_reinterpreted(each, "u" + dtype) for each in values):
        return "u" + dtype
    if dtype == "bfloat16" and all(isinstance(each, tirx.Select) for each in values):
        return "float32"
    return dtype


def stored_at_once(statement: Any) -> Any:
    """Return `statement` with its first result stored directly, not through a bf16 scratch buffer."""
    statements = list(statement.seq) if isinstance(statement, tirx.SeqStmt) else [statement]
    own = [each.buffer for each in statements if isinstance(each, tirx.AllocBuffer)]
    stores = [each for each in statements if isinstance(each, tirx.BufferStore)]
    first = next((each for each in stores if each.buffer not in own), None)
    if len(stores) + len(own) != len(statements) or first is None or not isinstance(first.value, TensorLoad):
        return statement
    scratch = first.value.source
    makers = [each for each in stores if each.buffer.same_as(scratch)]
    if str(scratch.dtype) != "bfloat16" or scratch not in own or len(makers) != 1:
        return statement
    between = [each.buffer for each in stores[stores.index(makers[0]) + 1 : stores.index(first)]]
    others = [each.value for each in stores if each is not first]
    if depends_on(makers[0].value, between) or any(depends_on(each, [scratch]) for each in others):
        return statement
    kept = [each for each in statements if each is not makers[0] and not _allocates(each, scratch)]
    store = tirx.BufferStore(first.buffer, makers[0].value, first.indices)
    return sequence(*(store if each is first else each for each in kept))


def _allocates(statement: Any, buffer: Any) -> bool:
    return isinstance(statement, tirx.AllocBuffer) and statement.buffer.same_as(buffer)


def on_cells(statement: Any, cells: Mapping[Any, Any]) -> Any:
    """Return `statement` with cells in place of the elements of results."""

    wide = [(_widened(cell), cell) for made, cell in cells.items() if str(made.dtype) == "bfloat16" != str(cell.dtype)]

    def load(node: Any) -> Any:
        return result_of(cells[node.source], str(node.source.dtype)) if node.source in cells else node

    def call(node: Any) -> Any:
        """A bf16 cell that is widened is the fp32 that it holds."""
        own = [cell for value, cell in wide if structural_equal(node, value)]
        return tirx.BufferLoad(own[0], [index(0)]) if own else node

    def store(node: Any) -> Any:
        if node.buffer not in cells:
            return node
        cell = cells[node.buffer]
        value = node.value if cell.dtype == node.buffer.dtype else _in_cell(node.value, cell)
        return tirx.BufferStore(cell, _in_two_choices(value), [index(0)])

    rules = [(TensorLoad, load), (tirx.BufferStore, store), *([(ir.Call, call)] if wide else [])]
    return structural_map(statement, rules, order="post")


def result_of(cell: Any, dtype: str) -> Any:
    """Return the value of a cell in the dtype of the result."""
    load = tirx.BufferLoad(cell, [index(0)])
    if str(cell.dtype) == dtype:
        return load
    return tirx.reinterpret(dtype, load) if str(cell.dtype) == "u" + dtype else tirx.Cast(dtype, load)


def _in_cell(value: Any, cell: Any) -> Any:
    """Return a value of the result's dtype in the cell's dtype."""
    dtype, kind = str(cell.dtype), str(value.ty.dtype)
    own = result_of(cell, kind)
    if structural_equal(value, own):
        return tirx.BufferLoad(cell, [index(0)])
    if kind == "bool":
        if type(value).__name__ in _JOINED:
            return _JOINED[type(value).__name__](_in_cell(value.a, cell), _in_cell(value.b, cell))
        return tirx.IntImm(dtype, value.value) if isinstance(value, tirx.IntImm) else tirx.Cast(dtype, value)
    if kind == "bfloat16":
        return _in_fp32(value, cell)
    if isinstance(value, tirx.IntImm):
        low, high = (0, 2 ** int(dtype[4:]) - 1) if dtype.startswith("u") else (-INT32_MAX - 1, INT32_MAX)
        return tirx.IntImm(dtype, value.value & high if low == 0 else max(low, min(high, value.value)))
    if dtype == "u" + kind:
        return _unwrapped(value.args[0], cell) if _is_reinterpreted(value, dtype) else tirx.reinterpret(dtype, value)
    return tirx.Cast(dtype, value)


def _unwrapped(value: Any, cell: Any) -> Any:
    """Return an unsigned value in terms of the cell, without the conversion of the cell's bits to a signed number."""
    signed = str(cell.dtype)[1:]

    def call(node: Any) -> Any:
        is_own = _is_reinterpreted(node, signed) and structural_equal(node.args[0], result_of(cell, signed))
        return tirx.BufferLoad(cell, [index(0)]) if is_own else node

    return structural_map(value, (ir.Call, call), order="post")


def _in_fp32(value: Any, cell: Any) -> Any:
    if isinstance(value, tirx.FloatImm):
        return tirx.FloatImm("float32", float(value.value))
    if isinstance(value, tirx.Select):
        return tirx.Select(value.condition, _in_cell(value.true_value, cell), _in_cell(value.false_value, cell))
    if isinstance(value, TensorLoad):
        return widened_bfloat16(tirx.reinterpret("uint16", value))
    return tirx.Cast("float32", value)


def _widened(cell: Any) -> Any:
    """Return the bf16 value of a cell as fp32."""
    return widened_bfloat16(tirx.reinterpret("uint16", result_of(cell, "bfloat16")))


def _is_reinterpreted(value: Any, source: str) -> bool:
    is_call = isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith(".reinterpret")
    return is_call and str(value.args[0].ty.dtype) == source


def _in_two_choices(value: Any) -> Any:
    """Return ``select(a > b or isnan(a), a, b)`` as a maximum and a select, which are one instruction each."""
    if not isinstance(value, tirx.Select) or not isinstance(value.condition, tirx.Or):
        return value
    larger = tirx.Select(value.condition.a, value.true_value, value.false_value)
    return tirx.Select(value.condition.b, value.true_value, larger)
