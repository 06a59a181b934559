"""Translate CUDA source to PTX (cuda → ptx) by NVIDIA's own compiler; the executable stays the same."""

from __future__ import annotations

from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.toolchain.nvcc import run_nvcc


def lower(code: Code, context: CompileContext) -> Code:
    """Return PTX; raises `DeviceError` without nvcc, `CodegenError` with nvcc's first message."""
    return Code(run_nvcc(code.text, context.target.architecture, "-ptx").decode(), code.executable)
