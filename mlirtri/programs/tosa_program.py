"""`mt.from_tosa`: a module of TOSA, MLIR's operator set for networks, as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import shown_to_user
from mlirtri.programs.mlir_program import contents_of, read_source
from mlirtri.programs.program import Program


def from_tosa(source: str | bytes | Path | Any) -> Program:
    """The program of a TOSA module: its text, bytecode, a file of either, or an `ir.Module`.

    Raises `ParseError` at the place that does not parse.
    """
    try:
        data, file = contents_of(source, (".mlir", ".mlirbc", ".tosa"))
        read = read_source(data, file)
        return Program("tosa", read.module, read.functions, file, read.params)
    except KernelError as error:
        raise shown_to_user(error)
