"""Use non-temporal stores for results larger than the last cache, which would be fetched only to be overwritten.

Only vectors of whole cache lines, in buffers that the function does not read. Where a result does not begin with a
line, its stores are plain ones. Other threads see them after a launch, which ends with locked instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import Any

from mlirtri.lowering.core.cpu import cache_bytes
from mlirtri.lowering.runtime.memory import LINE
from mlirtri.lowering.tir.statements import nodes_in, operator_name
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    PrimFunc,
    Stmt,
    TensorLoad,
    ir,
    structural_map,
    structural_walk,
    tirx,
)

_IN_LLVM = """
define linkonce_odr void @{name}(ptr %pointer, {vector} %value) alwaysinline {{
  %address = ptrtoint ptr %pointer to i64
  %offset = and i64 %address, {last}
  %begins = icmp eq i64 %offset, 0
  br i1 %begins, label %aligned, label %unaligned
aligned:
  store {vector} %value, ptr %pointer, align {line}, !nontemporal !0
  ret void
unaligned:
  store {vector} %value, ptr %pointer, align {element}
  ret void
}}
!0 = !{{i32 1}}
"""
_TYPES = {"float16": "half", "float32": "float", "float64": "double"}


def with_streaming_stores(function: PrimFunc) -> PrimFunc:
    """Return the function with non-temporal stores into large buffers that it does not read."""
    has_large = any(_is_large(node.buffer) for node in nodes_in(function.body, tirx.DeclBuffer))
    streamed = _streamed(function) if has_large else set()
    used: dict[str, str] = {}

    def store(node: Node) -> Any:
        if node.buffer not in streamed or not _is_lines(node):
            return node
        dtype = str(node.value.ty.dtype)
        used[dtype] = f"mlirtri_stream_{dtype}"
        first = tirx.BufferLoad(node.buffer, [node.indices[0].base])
        address = tirx.call_intrin("handle", "tirx.address_of", first)
        return tirx.Evaluate(tirx.call_extern("void", used[dtype], address, node.value))

    body = structural_map(function.body, (tirx.BufferStore, store), order="post") if streamed else function.body
    for dtype, name in sorted(used.items()):
        body = tirx.AttrStmt(tirx.IntImm("int64", 0), "pragma_import_llvm", ir.StringImm(_in_llvm(dtype, name)), body)
    return function.with_body(body) if used else function


def _is_lines(store: Stmt) -> bool:
    """Return whether a store fills whole cache lines if aligned: partial lines would be fetched."""
    index = store.indices[0] if len(store.indices) == 1 else None
    is_row = isinstance(index, tirx.Ramp) and isinstance(index.stride, tirx.IntImm) and index.stride.value == 1
    match = re.fullmatch(r"(?:float|u?int)(8|16|32|64)x(\d+)", str(store.value.ty.dtype))
    return is_row and match is not None and int(match[1]) * int(match[2]) % (8 * LINE) == 0


def _in_llvm(dtype: str, name: str) -> str:
    element, lanes = dtype.split("x")
    bits = int(element.lstrip("abcdefghijklmnopqrstuvwxyz"))
    vector = f"<{lanes} x {_TYPES.get(element, f'i{bits}')}>"
    return _IN_LLVM.format(name=name, vector=vector, last=LINE - 1, line=LINE, element=bits // 8)


def _streamed(function: PrimFunc) -> set[Any]:
    declared: dict[Any, Any] = {}
    uses: Counter[Any] = Counter()
    stored: set[Any] = set()
    read: set[Any] = set()

    def declare(node: Node) -> None:
        source = _memory_of(node.data)
        declared[node.buffer] = source
        if source is not None:
            uses[source] -= 1

    def use(call: Expr) -> None:
        if (source := _memory_of(call)) is not None:
            uses[source] += 1

    structural_walk(function.body, [
        (tirx.DeclBuffer, declare),
        (ir.Call, use),
        (tirx.BufferStore, lambda node: stored.add(node.buffer)),
        (TensorLoad, lambda node: read.add(node.source)),
    ])  # fmt: skip

    def root(buffer: Buffer) -> Any:
        while (source := declared.get(buffer)) is not None:
            buffer = source
        return buffer

    # Memory that is passed to a call may be read there.
    read_roots = {root(result) for result in (*read, *(buffer for buffer, count in uses.items() if count))}
    written = {result for result in stored if root(result) in declared and root(result) not in read_roots}
    return set(filter(_is_large, written))


def _memory_of(expression: Expr) -> Any:
    return expression.args[0] if operator_name(expression) == "tirx.buffer_data" else None


def _is_large(buffer: Buffer) -> bool:
    if not all(isinstance(size, tirx.IntImm) for size in buffer.shape):
        return False
    bits = re.search(r"\d+", str(buffer.dtype))
    elements = prod(size.value for size in buffer.shape)
    return bits is not None and elements * int(bits[0]) // 8 >= cache_bytes()[3]
