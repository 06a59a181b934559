"""Source spans on the stores of a PrimFunc, from which TVM's LLVM code generator makes `.loc` directives.

A store gets the location of the innermost block around it, else the last one of the function. The line table names one
file: stores of other files than the function's get the latter.
"""

from __future__ import annotations

import re
from typing import Any

from mlirtri.lowering.toolchain.tvm_names import LOCATION, PrimFunc, SBlock, ir, structural_map, tirx
from mlirtri.lowering.toolchain.tvm_passes import source_span, span_of

_NO_FILE = "IRModule.CodeGenLLVM"
"""TVM's file name in every line table."""


def with_spans(function: PrimFunc) -> PrimFunc:
    """Return the function with a span on every store whose line is known."""
    own = source_span(function)
    if own is None:
        return function

    def in_block(block: Any) -> Any:
        inner = span_of(block.annotations[LOCATION]) if LOCATION in block.annotations else None
        if inner is None or inner.file != own.file:
            return block
        return structural_map(block, (tirx.BufferStore, _marker(inner.line, inner.column)), order="post")

    body = structural_map(function.body, (SBlock, in_block), order="post")
    return function.with_body(structural_map(body, (tirx.BufferStore, _marker(own.line, own.column)), order="post"))


def _marker(line: int, column: int) -> Any:
    span = ir.Span(ir.SourceName("kernel"), line, line, column, column)

    def visit(store: Any) -> Any:
        return tirx.BufferStore(store.buffer, store.value, store.indices, span=span) if store.span is None else store

    return visit


def named_file(text: str, files: set[str]) -> str:
    """Return LLVM IR with the kernels' file in its line table, if they come from one file."""
    if len(files) != 1:
        return text
    file = files.pop().replace("\\", "\\\\").replace('"', '\\"')
    return text.replace(f'filename: "{_NO_FILE}", directory: "."', f'filename: "{file}", directory: "/"')


def named_as(assembly: str, llvm: str) -> str:
    """Return assembly with the file name that the LLVM IR's line table has."""
    file = re.search(r'!DIFile\(filename: "(.*)", directory: "/"\)', llvm)
    return assembly.replace(f'"." "{_NO_FILE}"', f'"/" "{file.group(1)}"') if file else assembly
