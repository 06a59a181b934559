"""`#line` in CUDA source: at the head of each kernel, and around each loop whose line in Python is known.

So nvcc's messages, a profiler's lines and the emulation's errors name the kernel's Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirtri.errors import Span
from mlirtri.lowering.tir.statements import nodes_in
from mlirtri.lowering.toolchain.tvm_names import LOCATION, PrimFunc, structural_map, tirx
from mlirtri.lowering.toolchain.tvm_passes import span_of


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
    # The call's own "();" is printed behind the comment sign; ``#line`` applies to the line after it.
    return tirx.Evaluate(tirx.call_extern("int32", f'{comments}\n#line {span.line} "{file}" //'))


def _with_lines_of_loops(body: Any, own: Span) -> Any:
    """Return a body whose located loops begin with their line; what follows them has that of the loop around them."""
    around: dict[Any, Span] = {}
    # Those outside first.
    for loop in reversed(nodes_in(body, tirx.For)):
        for inner in nodes_in(loop.body, tirx.For):
            around[inner.loop_var] = _span(loop) or around.get(loop.loop_var, own)

    def located(loop: Any) -> Any:
        span, outer = _span(loop), around.get(loop.loop_var, own)
        if span is None or (span.file, span.line) == (outer.file, outer.line):
            return loop
        return tirx.SeqStmt([_directive(span), loop, _directive(outer)])

    return structural_map(body, (tirx.For, located), order="post")


def _span(loop: Any) -> Span | None:
    return span_of(str(loop.annotations[LOCATION])) if LOCATION in loop.annotations else None
