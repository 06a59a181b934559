"""Two errors of all lowerings: operations without a translation, and tensors larger than the memory.

A tensor may be as large as this machine's memory, or ``MLIRTRI_MAX_TENSOR_BYTES``: code from MLIR does not check
whether an allocation succeeded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from mlirtri import settings
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, operations_named
from mlirtri.errors import KernelMemoryError, Note, Span, UnsupportedOperationError, raise_all

_SHOWN_SPANS = 4


@dataclass
class _Refusal:
    count: int = 0
    spans: list[Span] = field(default_factory=list)


def refuse(operations: Iterable[tuple[ir.Operation, str]], translation: str, help: str) -> None:
    """Raise an error for all of `operations`, pairs of an operation and the reason why it has no `translation`.

    The error's attribute ``refused`` has each reason with the spans of all its operations.
    """
    refusals: dict[str, _Refusal] = {}
    for operation, reason in operations:
        refusal = refusals.setdefault(reason, _Refusal())
        refusal.count += 1
        if (span := span_of(operation.location)) and span not in refusal.spans:
            refusal.spans.append(span)
    if not refusals:
        return
    lines = [f"{reason} ({entry.count}×)" if entry.count > 1 else reason for reason, entry in refusals.items()]
    spans = [(reason, span) for reason, entry in refusals.items() for span in entry.spans[:_SHOWN_SPANS]]
    notes = [Note(f"{reason} is here", span) for reason, span in spans]
    error = UnsupportedOperationError(
        f"no translation to {translation} for {', '.join(lines)}",
        notes[0].span if notes else None,
        help=help,
        notes=notes[1:] if len(notes) > 1 else (),
    )
    error.refused = tuple((reason, tuple(entry.spans)) for reason, entry in refusals.items())
    raise error


def largest_tensor() -> int:
    setting = settings.get("MLIRTRI_MAX_TENSOR_BYTES")
    return setting if setting is not None else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def too_large(label: str, type_: ir.ShapedType, location: ir.Location | None) -> KernelMemoryError | None:
    """Return the error for a tensor or buffer of static shape larger than `largest_tensor`; None for others."""
    dynamic = ir.ShapedType.get_dynamic_size()
    count = prod(size for size in type_.shape if size != dynamic)
    size, most = count * bytes_of(type_.element_type), largest_tensor()
    if size <= most or 0 in type_.shape:
        return None
    return KernelMemoryError(
        f"{label} {type_} has {count} elements: {size} bytes, where a tensor may have {most}",
        span_of(location),
        help="check its shape; for a machine with more memory set MLIRTRI_MAX_TENSOR_BYTES",
    )


def bytes_of(element: ir.Type) -> int:
    """Return the bytes of an element; an `index` has 8."""
    if isinstance(element, ir.ComplexType):
        return 2 * bytes_of(element.element_type)
    if isinstance(element, (ir.IntegerType, ir.FloatType)):
        return (element.width + 7) // 8
    return 8


def refuse_large_buffers(module: ir.Module) -> None:
    """Raise `KernelMemoryError` for allocations that would fail at run time."""
    allocations = operations_named(module, "memref.alloc", "memref.alloca")
    problems = [too_large("a temporary", allocation.results[0].type, allocation.location) for allocation in allocations]
    raise_all([problem for problem in problems if problem is not None])
