"""Load the program of a file: MLIR, StableHLO, TOSA, ONNX, torch, or Relax."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlirtri.programs.mlir_program import from_mlir, from_tosa
from mlirtri.programs.mlir_sources import contents_of
from mlirtri.programs.onnx_program import from_onnx
from mlirtri.programs.program import Program
from mlirtri.programs.relax_program import from_relax
from mlirtri.programs.stablehlo_program import from_stablehlo
from mlirtri.sources.packed_files import unpacked

SUFFIXES = {
    ".mlir": None, ".mlirbc": None, ".stablehlo": "stablehlo", ".tosa": "tosa", ".onnx": "onnx", ".pt2": "torch",
}  # fmt: skip
"""Suffix of a file to its language; None where the content says it."""
STDIN = "-"
_LANGUAGES = ((rb"\b(stablehlo|chlo|vhlo|StableHLO_v[\d.]+)\b", "stablehlo"), (rb"\btosa\b", "tosa"))


def is_program(spec: str) -> bool:
    """Return whether ``FILE[::function]`` is a program's: by its suffix, or stdin, or packed by `mlirtri repro`."""
    file = spec.partition("::")[0]
    return file == STDIN or Path(file).suffix in SUFFIXES or unpacked(Path(file)) is not None


def load_program(file: str, language: str | None = None) -> Program:
    """Return the program of a file; `language`, a key of `IMPORT_STAGES`, overrides its suffix and content."""
    source = source_of(file)
    suffix = source.suffix if isinstance(source, Path) else ""
    language = language or SUFFIXES.get(suffix) or language_of(source)
    return READERS[language](source)


def source_of(file: str) -> bytes | Path:
    """Return the path of a file, or of the program that is packed in it, or what stdin holds."""
    return sys.stdin.buffer.read() if file == STDIN else unpacked(Path(file)) or Path(file)


def language_of(source: bytes | Path) -> str:
    """Return the language of MLIR text or bytecode by the dialects that it names."""
    data = contents_of(source)[0]
    # What a comment or a string says of a language is no operation of it.
    code = re.sub(rb'//[^\n]*|"[^"\\\n]*"(?!\()', b"", data) if not data.startswith(b"ML\xef") else data
    return next((name for pattern, name in _LANGUAGES if re.search(pattern, code)), "mlir")


def _torch(source: bytes | Path) -> Program:
    # loads torch, which the others do not need
    from mlirtri.programs.torch_programs.archives import load_archive
    from mlirtri.programs.torch_programs.program import from_torch

    return from_torch(load_archive(source) if isinstance(source, bytes) else source)


def _relax(source: bytes | Path) -> Program:
    return from_relax(source.decode() if isinstance(source, bytes) else source)


READERS: dict[str, Callable[[Any], Program]] = {
    "mlir": from_mlir, "stablehlo": from_stablehlo, "tosa": from_tosa, "onnx": from_onnx, "torch": _torch,
    "relax": _relax,
}  # fmt: skip
