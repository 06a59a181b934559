"""Print a stage as text, readable or complete, and parse it back: one row per kind of IR.

The complete text keeps locations and constants, so that resuming from it loses nothing.
TVM's parser runs TVMScript as Python: reading such a file is trusting it like code.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from mlirtri.compiler.isolation import text_of, try_parsing
from mlirtri.dialect.bindings.locations import locate_implied_bodies, name_arguments, name_file, parse_text
from mlirtri.dialect.bindings.mlir import print_complete, print_module
from mlirtri.dialect.definition import context_for
from mlirtri.errors import ParseError, Span
from mlirtri.lowering.core.stage import Code, StageIR
from mlirtri.lowering.frontend.python_to_ast import print_tree
from mlirtri.lowering.mlir_common.attribute_checks import check_attributes

SUFFIXES = {
    "python": "txt", "mlir": "mlir", "tvmscript": "py", "llvm": "ll", "cuda": "cu", "asm": "s", "ptx": "ptx",
    "spirv": "mlir", "listing": "txt",
}  # fmt: skip
RESUMABLE = ("mlir", "tvmscript")


def readable(kind: str, ir: StageIR) -> str:
    """Return the text that `kernel.ir` shows, with the names of source files but not their folders."""
    if kind == "python":
        return print_tree(ir)
    if kind == "mlir":
        return print_module(ir)
    if kind == "tvmscript":
        return _tvm_text().print_readable(ir)
    text = ir.text if isinstance(ir, Code) else str(ir)
    for pattern, without in _FOLDERS.get(kind, ()):
        text = pattern.sub(without, text)
    return text


_COMMENTED = r"^(\s*(?:;|//) )/[^\n\"]*/(?=[^/\n]*:\d+$)"
_FOLDERS = {
    kind: [(re.compile(pattern, re.MULTILINE), without) for pattern, without in patterns]
    for kind, patterns in {
        "llvm": [(r'(!DIFile\(filename: ")/[^"]*/([^"/]*", directory: )"[^"]*"', r'\1\2""')],
        "asm": [(r'^(\s*\.file\s+\d+ )"/" "/[^"]*/', r'\1"" "'), (_COMMENTED, r"\1")],
        "cuda": [(r'^(\s*#line \d+ ")/[^"]*/', r"\1"), (_COMMENTED, r"\1")],
    }.items()
}
"""By kind of code, what takes the folders of source files out of it, so that two checkouts print the same text."""


def complete(kind: str, ir: StageIR) -> str:
    """Return the text of a dump: the readable text if that loses nothing."""
    if kind == "mlir":
        return print_complete(ir)
    if kind == "tvmscript":
        return _tvm_text().print_complete(ir)
    return ir.text if isinstance(ir, Code) else readable(kind, ir)


def settle(kind: str, ir: StageIR) -> StageIR:
    """Return `ir` without what its text cannot represent, so that a printed and parsed module behaves alike."""
    if kind == "mlir":
        locate_implied_bodies(ir)
    if kind == "tvmscript":
        return _tvm_text().with_names_as_printed(ir)
    return ir


def parse(kind: str, text: str, file: str | None = None) -> StageIR:
    """Return the IR of a complete (or readable) text; raises `ParseError` at the line that does not parse.

    Operations that the text gives no location have their own in `file`, where that is known.
    """
    file, is_known = file or "<text>", file is not None
    if kind == "mlir":
        module = settle(kind, _parse_mlir(text, file))
        if is_known:
            name_file(module, file)
        return module
    if kind == "tvmscript":
        return _tvm_text().parse(text, file)
    raise ParseError(f"a stage of kind {kind} cannot be resumed from text", Span(file, 1, 1))


def parse_given(kind: str, text: str, file: str) -> StageIR:
    """Parse an untrusted text; raises `ParseError` also if it would crash MLIR's parser."""
    if kind == "mlir":
        text = text_of(text.encode("utf-8", "surrogatepass"), file)
        try_parsing(_parse_mlir, text, file)
    module = parse(kind, text, file)
    if kind == "mlir":
        check_attributes(module)
    return module


def _parse_mlir(text: str, file: str) -> Any:
    module = parse_text(text, file, context_for(text))
    name_arguments(module, text)
    return module


def _tvm_text() -> ModuleType:
    from mlirtri.lowering.toolchain import tvm_text  # loads TVM

    return tvm_text
