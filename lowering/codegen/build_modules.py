"""Turns scheduled PrimFuncs into the modules that TVM's lowering takes, for trying schedules and for building.

Takes names and PrimFuncs. Gives a module of public functions, without what TVM's lowering gets wrong for the target.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlirtri.lowering.codegen.passes.buffer_alignment import without_alignment
from mlirtri.lowering.codegen.passes.stack_memory import on_stack
from mlirtri.lowering.tir.bfloat16_storage import keep_bfloat16
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc

Named = tuple[str, PrimFunc]


def host_module(functions: Iterable[Named]) -> IRModule:
    """Return the module of functions that run on this CPU."""
    return _public((name, host_ready(function)) for name, function in functions)


def cuda_module(functions: Iterable[Named]) -> IRModule:
    """Return the module of functions with loops on CUDA's threads, each of which launches its kernels."""
    return _public((name, keep_bfloat16(function)) for name, function in functions)


def host_ready(function: PrimFunc) -> PrimFunc:
    """Return the function without what TVM's lowering gets wrong on a CPU."""
    return on_stack(without_alignment(keep_bfloat16(function)))


def _public(functions: Iterable[Named]) -> IRModule:
    return IRModule({name: function.with_attr("global_symbol", name) for name, function in functions})
