"""The largest tensor that is compiled: this machine's memory, or ``MLIRTRI_MAX_TENSOR_BYTES``.

Code from MLIR does not check whether an allocation succeeded, and would write to address 0.
"""

from __future__ import annotations

import os
from math import prod

from mlirtri import settings
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import KernelMemoryError, raise_all


def largest_tensor() -> int:
    """Return the bytes of the largest tensor that is compiled."""
    setting = settings.get("MLIRTRI_MAX_TENSOR_BYTES")
    return setting if setting is not None else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def too_large(label: str, kind: ir.ShapedType, location: ir.Location | None) -> KernelMemoryError | None:
    """Return the error for a tensor or buffer of static shape larger than `largest_tensor`; None for others."""
    dynamic = ir.ShapedType.get_dynamic_size()
    count = prod(size for size in kind.shape if size != dynamic)
    size, most = count * bytes_of(kind.element_type), largest_tensor()
    if size <= most or 0 in kind.shape:
        return None
    return KernelMemoryError(
        f"{label} {kind} has {count} elements: {size} bytes, where a tensor may have {most}",
        span_of(location),
        help="check its shape; for a machine with more memory set MLIRTRI_MAX_TENSOR_BYTES",
    )


def bytes_of(element: ir.Type) -> int:
    """Return the bytes of one element in memory."""
    if isinstance(element, ir.ComplexType):
        return 2 * bytes_of(element.element_type)
    if isinstance(element, (ir.IntegerType, ir.FloatType)):
        return (element.width + 7) // 8
    return 8


def refuse_large_buffers(module: ir.Module) -> None:
    """Raise `KernelMemoryError` for allocations that would fail at run time."""
    allocations = [
        allocation for name in ("memref.alloc", "memref.alloca") for allocation in operations_named(module, name)
    ]
    problems = [too_large("a temporary", allocation.results[0].type, allocation.location) for allocation in allocations]
    raise_all([problem for problem in problems if problem is not None])
