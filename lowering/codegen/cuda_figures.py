"""Static figures of CUDA kernels, from their device functions: the grid, threads, shared memory, barriers, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from mlirtri.dialect.base.dtypes import as_dtype
from mlirtri.lowering.codegen.lowered_functions import Named, device_module
from mlirtri.lowering.core.launch_figures import LaunchFigures
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
    extents: dict[str, int | None] = {}
    shared: list[int] = []

    def note_extent(node: Node) -> None:
        if node.attr_key == "thread_extent":
            extents[str(node.node.thread_tag)] = _constant(node.value)

    def note_shared(node: Node) -> None:
        if str(node.buffer.scope()).startswith("shared"):
            shared.append(_bytes(node.buffer) or 0)

    structural_walk(function.body, [(tirx.AttrStmt, note_extent), (tirx.AllocBuffer, note_shared)])
    grid_x, grid_y, grid_z = (extents.get(f"blockIdx.{axis}", 1) for axis in _AXES)
    x, y, z = (extents.get(f"threadIdx.{axis}", 1) or 1 for axis in _AXES)
    grid, block = (grid_x, grid_y, grid_z), (x, y, z)
    return LaunchFigures(
        name, grid, block, sum(shared), _barriers(function.body), _buffers(function),
        partial(compiled_by_nvcc, source, name),
    )  # fmt: skip


def _buffers(function: PrimFunc) -> int | None:
    """Return the bytes of the buffers that the function takes; None if a size is known at run time only."""
    by_name: dict[str, int | None] = {}
    parameters = {str(parameter.name) for parameter in function.params}

    def note(node: Node) -> None:
        name = getattr(node.data, "name", "")
        if name in parameters:
            by_name[name] = _bytes(node.buffer)

    structural_walk(function.body, (tirx.DeclBuffer, note))
    sizes = list(by_name.values())
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _barriers(statement: Stmt) -> int:
    """Return the barriers that a statement meets, those in loops of a constant length so many times."""
    count = 0

    def visit_call(node: Node) -> None:
        nonlocal count
        count += str(getattr(node.op, "name", "")) == _SYNC

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
