"""The only importer of the MLIR bindings. Everything else says ``from mlirtri.dialect.mlir import ir``.

The bindings are those inside the `torch-mlir` wheel: complete upstream MLIR, no torch imported.
Loaded on the first compile, not on ``import mlirtri``.
"""

from __future__ import annotations

from torch_mlir import ir, passmanager
from torch_mlir.dialects import arith, bufferization, complex, ext, func, linalg, math, scf, tensor

__all__ = [
    "arith", "bufferization", "complex", "ext", "func", "ir", "linalg", "math", "passmanager", "scf", "tensor",
]  # fmt: skip


def print_module(module: ir.Module) -> str:
    """The text for reading: SSA values carry the names of the user's variables, no locations."""
    return module.operation.get_asm(use_name_loc_as_prefix=True)


def print_complete(module: ir.Module) -> str:
    """The text for dumps: locations included, so that resuming from it loses nothing."""
    return module.operation.get_asm(enable_debug_info=True)
