"""`mt.from_mlir`: MLIR of any tool as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlirtri.dumps import read_text
from mlirtri.errors import KernelError
from mlirtri.printing import parse
from mlirtri.program import Program
from mlirtri.tracebacks import shown_to_user


def from_mlir(text_or_path: str | Path) -> Program:
    """The program of a module of MLIR on tensors: its text, or the path of a file.

    Raises `ParseError` at the place that does not parse.
    """
    try:
        return _program(text_or_path)
    except KernelError as error:
        raise shown_to_user(error)


def _program(text_or_path: str | Path) -> Program:
    from mlirtri.dialect.mlir import public_functions

    is_path = isinstance(text_or_path, Path) or ("\n" not in text_or_path and text_or_path.endswith(".mlir"))
    text, file = (read_text(Path(text_or_path)), str(text_or_path)) if is_path else (str(text_or_path), "<text>")

    def read() -> Any:
        return parse("mlir", text, file)

    functions = [each.attributes["sym_name"].value for each in public_functions(read())]
    return Program("mlir", read, functions, file)
