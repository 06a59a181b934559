"""Static figures of CUDA kernels, from their device functions: the grid, threads, shared memory, barriers, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.lowering.codegen.lowered_functions import Named, device_module
from mlirtri.lowering.core.launch_figures import LaunchFigures
from mlirtri.lowering.tir.statements import nodes_in, operator_name
from mlirtri.lowering.toolchain.nvcc import compiled_by_nvcc
from mlirtri.lowering.toolchain.tvm_names import (
    Buffer,
    Expr,
    Node,
    PrimFunc,
    Stmt,
    Target,
    WalkResult,
    ir,
    structural_walk,
    tirx,
)

_SYNC = "tirx.tvm_storage_sync"
_AXES = ("x", "y", "z")


def figures_of(functions: Sequence[Named], source: str, target: Target) -> tuple[LaunchFigures, ...]:
    """Return the figures of each kernel that the functions launch; `source` is their CUDA source."""
    device = device_module(functions, target)
    return tuple(_figures(gv.name_hint, function, source) for gv, function in device.functions_items())


def _figures(name: str, function: PrimFunc, source: str) -> LaunchFigures:
    attributes = [node for node in nodes_in(function.body, tirx.AttrStmt) if node.attr_key == "thread_extent"]
    extents = {str(node.node.thread_tag): _constant(node.value) for node in attributes}
    allocated = [node.buffer for node in nodes_in(function.body, tirx.AllocBuffer)]
    shared = [_bytes(buffer) or 0 for buffer in allocated if str(buffer.scope()).startswith("shared")]
    grid_x, grid_y, grid_z = (extents.get(f"blockIdx.{axis}", 1) for axis in _AXES)
    x, y, z = (extents.get(f"threadIdx.{axis}", 1) or 1 for axis in _AXES)
    grid, block = (grid_x, grid_y, grid_z), (x, y, z)
    return LaunchFigures(
        name, grid, block, sum(shared), _barriers(function.body), _buffers(function),
        partial(compiled_by_nvcc, source, name),
    )  # fmt: skip


def _buffers(function: PrimFunc) -> int | None:
    """Return the bytes of the buffers that the function takes; None if a size is known at run time only."""
    parameters = {str(parameter.name) for parameter in function.params}
    declared = {getattr(node.data, "name", ""): node.buffer for node in nodes_in(function.body, tirx.DeclBuffer)}
    sizes = [_bytes(buffer) for name, buffer in declared.items() if name in parameters]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _barriers(statement: Stmt) -> int:
    """Return the barriers that a statement meets, those in loops of a constant length so many times."""
    count = 0

    def visit_call(node: Node) -> None:
        nonlocal count
        count += operator_name(node) == _SYNC

    def visit_loop(node: Node) -> Any:
        nonlocal count
        extent = _constant(node.extent)
        count += (1 if extent is None else extent) * _barriers(node.body)
        return WalkResult.SKIP

    structural_walk(statement, [(ir.Call, visit_call), (tirx.For, visit_loop)], order="pre")
    return count


def _bytes(buffer: Buffer) -> int | None:
    sizes = [_constant(size) for size in buffer.shape]
    known = [size for size in sizes if size is not None]
    return as_dtype(str(buffer.dtype)).bytes * prod(known) if len(known) == len(sizes) else None


def _constant(expression: Expr) -> int | None:
    value = getattr(expression, "value", expression)
    return int(value) if isinstance(value, int) else None
