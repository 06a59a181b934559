"""What a trace page shows: kernels by pipeline, their stages and passes, fusion, costs. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlirtri.lowering.core.stage import Edge


@dataclass(frozen=True)
class TracedText:
    """The text after a stage, or after one of its passes."""

    stage: str
    pass_name: str | None
    """None for the stage as a whole."""
    kind: str
    """The kind of its text, one of `core.stage.KINDS`."""
    text: str
    seconds: float | None = None
    changed: bool = True
    """Whether it differs from the text before it."""
    complete: str | None = None
    """The same with locations, where the text has none."""
    is_upstream: bool | None = None
    """Whether the pass is upstream's, not ours; None for a stage."""


@dataclass(frozen=True)
class TracedKernel:
    """One kernel by one pipeline."""

    name: str
    pipeline: str
    signature: str
    target: str
    texts: tuple[TracedText, ...]
    """In the order in which they came about: the passes of a stage before the stage."""
    edges: tuple[Edge, ...] = ()
    """What fusion decided."""
    launches: tuple[Any, ...] = ()
    """Costs of launched kernels: objects with `name`, `seconds`, `bytes`, `flops`, `roofline` and `line`."""
    failure: str | None = None
    """Why it ends where it ends, with the command that repeats it."""


@dataclass(frozen=True)
class Trace:
    """Everything on one page."""

    title: str
    kernels: tuple[TracedKernel, ...]
    limits: tuple[float, float] | None = None
    """The machine's operations per second, and its bytes per second from memory."""
    notes: tuple[str, ...] = field(default=())
