"""The record of one fusion decision: an edge from a producer to a consumer, and whether both became one kernel.

Knows neither MLIR nor TVM; `explain_linalg` and `explain_tir` fill it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edge:
    """A tensor between `producer` and `consumer`."""

    stage: str
    """The stage that decides."""
    producer: str
    consumer: str
    line: str
    """``file:line:column`` of the consumer; empty if unknown."""
    is_fused: bool
    kind: str
    """The reason in one word: ``elementwise``, ``rows``, ``attention``, ``epilogue``, ``folded`` if fused; ``uses``,
    ``output``, ``extern``, ``reduction``, ``expensive``, ``product``, ``memory``, ``order``, ``axes`` if not."""
    reason: str
    """The reason in a sentence."""
