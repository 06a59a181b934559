"""The only importer of the MLIR bindings. Everything else says ``from mlirtri.dialect.mlir import ir``.

The bindings are those inside the `torch-mlir` wheel: complete upstream MLIR, no torch imported.
Loaded on the first compile, not on ``import mlirtri``.
"""

from __future__ import annotations

from torch_mlir import execution_engine, ir, passmanager
from torch_mlir.dialects import arith, bufferization, complex, ext, func, linalg, math, scf, tensor

__all__ = [
    "arith", "bufferization", "complex", "execution_engine", "ext", "func", "ir", "linalg", "math", "passmanager", "scf",
    "tensor",
]  # fmt: skip


def print_module(module: ir.Module) -> str:
    """The text for reading: SSA values carry the names of the user's variables, no locations."""
    return module.operation.get_asm(use_name_loc_as_prefix=True)


def print_complete(module: ir.Module) -> str:
    """The text for dumps: locations included, so that resuming from it loses nothing."""
    return module.operation.get_asm(enable_debug_info=True)


def to_llvm_ir(module: ir.Module) -> str:
    """LLVM IR of a module in LLVM dialect."""
    from torch_mlir.dialects import llvm  # a large module of generated classes, needed here only

    return llvm.translate_module_to_llvmir(module.operation)


def public_functions(module: ir.Module) -> list[ir.OpView]:
    """The functions (func.func or llvm.func) that have a body and that others may call: the kernels."""
    functions = [one for one in module.body.operations if one.operation.name in ("func.func", "llvm.func")]
    with_body = [one for one in functions if len(one.regions[0].blocks)]
    # A private function says so; the attribute is absent from the others.
    return [one for one in with_body if "sym_visibility" not in one.attributes]
