"""Write the user's lines into generated code: `.loc` directives of assembly, and `#line` directives of CUDA source.

TVM's LLVM code generator makes `.loc` directives from the spans of stores. A store gets the location of the innermost
block around it, else the last one of the function. The line table names one file: stores of other files than the
function's get the latter.

CUDA source has `#line` at the head of each kernel, and around each loop whose line in Python is known. So nvcc's
messages, a profiler's lines and the emulation's errors name the kernel's Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mlirtri.errors import Span
from mlirtri.lowering.tir.statements import nodes_in
from mlirtri.lowering.toolchain.tvm_names import LOCATION, PrimFunc, SBlock, Stmt, ir, structural_map, tirx
from mlirtri.lowering.toolchain.tvm_passes import source_span, span_of

_NO_FILE = "IRModule.CodeGenLLVM"
"""TVM's file name in every line table."""
_CALL = " //"
"""What ends the name of a call that is printed as a directive."""
_EMPTY_LINE = re.compile(r"^ *\n(?=(?: *// .*:\d+\n)*#line )", re.MULTILINE)
_PRINTED_CALL = re.compile(rf"(?<=\"){_CALL}\(\);$", re.MULTILINE)


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

    def visit(store: Stmt) -> Any:
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


def with_source_lines(function: PrimFunc, spans: Sequence[Span]) -> PrimFunc:
    """Return a device function with the lines of its loops, and those of `spans`, its expressions, at its head."""
    if not spans:
        return function
    comments = "".join(f"\n  // {span.file}:{span.line}" for span in spans)
    body = _with_lines_of_loops(function.body, spans[-1])
    return function.with_body(tirx.SeqStmt([_directive(spans[-1], comments), body]))


def _directive(span: Span, comments: str = "") -> Any:
    """Return a statement that TVM prints as `comments` and ``#line``."""
    file = span.file.replace("\\", "\\\\").replace('"', '\\"')
    # The call's own "();" is printed after the comment sign, which `without_calls` removes; ``#line`` applies to the
    # line after it.
    return tirx.Evaluate(tirx.call_extern("int32", f'{comments}\n#line {span.line} "{file}"{_CALL}'))


def without_calls(source: str) -> str:
    """Return CUDA source without the parentheses of the calls that printed its directives, and their empty lines."""
    return _PRINTED_CALL.sub("", _EMPTY_LINE.sub("", source))


def _with_lines_of_loops(body: Stmt, own: Span) -> Any:
    """Return a body whose located loops begin with their line; what follows them has that of the loop around them."""
    around: dict[Any, Span] = {}
    # Those outside first.
    for loop in reversed(nodes_in(body, tirx.For)):
        for inner in nodes_in(loop.body, tirx.For):
            around[inner.loop_var] = _span(loop) or around.get(loop.loop_var, own)
    for part in nodes_in(body, tirx.AttrStmt):
        for inner in nodes_in(part.body, tirx.For) if part.attr_key == LOCATION else ():
            if around.get(inner.loop_var, own) == own:
                around[inner.loop_var] = _located(part) or own

    def located(loop: Stmt) -> Any:
        return _between_directives(loop, _span(loop), around.get(loop.loop_var, own))

    def located_part(part: Stmt) -> Any:
        return _between_directives(part, _located(part), own)

    return structural_map(body, [(tirx.For, located), (tirx.AttrStmt, located_part)], order="post")


def _located(part: Stmt) -> Span | None:
    return span_of(str(part.value.value)) if part.attr_key == LOCATION else None


def _between_directives(statement: Stmt, span: Span | None, outer: Span) -> Any:
    if span is None or (span.file, span.line) == (outer.file, outer.line):
        return statement
    return tirx.SeqStmt([_directive(span), statement, _directive(outer)])


def _span(loop: Stmt) -> Span | None:
    return span_of(str(loop.annotations[LOCATION])) if LOCATION in loop.annotations else None
