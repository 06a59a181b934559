"""Reports all operations that a lowering cannot translate in one error: each reason with its count and lines.

Takes operations with reasons. Gives nothing if there are none; raises `UnsupportedOperationError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import Note, Span, UnsupportedOperationError

_SHOWN_SPANS = 4


@dataclass
class _Refusal:
    """All operations refused for one reason."""

    count: int = 0
    spans: list[Span] = field(default_factory=list)


def refuse(operations: Iterable[tuple[ir.Operation, str]], translation: str, way_out: str) -> None:
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
        help=way_out,
        notes=notes[1:] if len(notes) > 1 else (),
    )
    error.refused = tuple((reason, tuple(entry.spans)) for reason, entry in refusals.items())
    raise error
