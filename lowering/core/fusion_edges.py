"""What a verdict on fusion is: one edge from what makes a tensor to what reads it, and whether both became one kernel.

Knows neither MLIR nor TVM; `explain_linalg` and `explain_tir` fill it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edge:
    """A tensor on its way from `producer` to `consumer`."""

    room: str
    """The stage in which it is decided."""
    producer: str
    consumer: str
    line: str
    """``file:line:column`` of the consumer; empty where nothing is known."""
    is_fused: bool
    kind: str
    """Why, in a word: ``elementwise``, ``rows``, ``attention``, ``epilogue``, ``folded`` where it is fused; ``uses``,
    ``output``, ``extern``, ``reduction``, ``expensive``, ``product``, ``memory``, ``order``, ``axes`` where not."""
    reason: str
    """The same in a sentence."""
