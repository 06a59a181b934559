"""What a stage is, and what travels beside the IR through the lowerings. Knows no IR: printing is injected.

A lowering is a function ``lower(ir, context) -> ir``. A `Stage` gives it a name and the kind of its text.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mlirtri import settings
from mlirtri.errors import (
    CodegenError,
    KernelError,
    KernelTypeError,
    SkippedStep,
    SkippedStepWarning,
    Span,
    UnknownOptionError,
    did_you_mean,
)
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import public_class

if TYPE_CHECKING:
    import torch

# Attributes of functions and loops that stages of MLIR write and schedules of TIR read.
TILE_KERNEL = "mlirtri.tile_kernel"
"""Attribute of a function with a ``with T.Kernel(…)``: the number of threads of a block."""
STAGES = "mlirtri.stages"
"""Attribute of a pipelined loop: the ``num_stages`` of ``T.Pipelined``."""
BLOCKS = "mlirtri.blocks"
"""Attribute of a loop over the blocks along one axis of a grid."""
DECLARED = "mlirtri.declared"
"""Attribute of a loop that the kernel declares parallel: its iterations share elements in updates alone."""
TRIPS = "mlirtri.trips"
"""Attribute of a loop whose extent depends on outer loops: its usual trip count, for the cost model."""
NARROWED_SUM = "mlirtri.narrowed_sum"
"""Attribute of a loop that adds to an fp64 which nothing reads but casts to fp32: not every term needs fp64."""
Tensors: TypeAlias = "Sequence[torch.Tensor]"
"""What an executable reads or writes, in the order of arguments or results."""
StageIR: TypeAlias = Any
"""The IR of a stage: a syntax tree of Python, a module of MLIR, a module of TVM, or `Code`."""


class Executable(Protocol):
    """The result of a pipeline: something that runs."""

    @property
    def kernels(self) -> int:
        """Launches per call (loop nests in the `mlir` pipeline)."""
        ...

    @property
    def bytes(self) -> int | None:
        """Return the bytes that the launches of a call read and write, each tensor once per launch; None if unknown."""
        ...

    def launch(self, inputs: Tensors, outputs: Tensors, /) -> None:
        """Run on contiguous torch tensors, one per function argument, writing every output tensor in full.

        Thread-safe. The caller checks shapes, dtypes and devices. If the pipeline drops signs (`Pipeline.signless`),
        an unsigned tensor arrives viewed as the signed one of its width; a complex tensor arrives viewed as a float one
        with a last axis of 2, the real and imaginary parts.
        """


class Code:
    """Generated code: its text, and its executable after the last stage of a pipeline."""

    def __init__(self, text: str | Callable[[], str], executable: Executable | None = None, payload: Any = None):
        self._text = text
        self.executable = executable
        self.payload = payload
        """What the next lowering needs besides the text (a TVM runtime module, an MLIR module)."""

    @cached_property
    def text(self) -> str:
        """Return the text, computed on demand if that is slow: assembly takes half as long as compiling the code."""
        return self._text if isinstance(self._text, str) else self._text()


@dataclass(frozen=True)
class PassRecord:
    """The IR text after one pass, and whether the pass changed anything."""

    name: str
    text: str
    changed: bool
    seconds: float | None = field(default=None, compare=False)
    """Since the pass before, the text of this one included; None where the kernel comes from the disk cache."""
    is_ours: bool = False
    """Whether this repository has the pass, not MLIR or TVM."""


_WARNED: dict[Any, Any] = {}
"""Warnings about skipped steps that this process has shown."""


@dataclass
class CompileContext:
    """The facts of one compilation: kernel, target, schedule, and what passes did."""

    kernel: str
    target: Target
    schedule: str = "default"
    stage: str = ""
    """Name of the running stage; the compile loop sets it."""
    passes: dict[str, list[PassRecord]] = field(default_factory=dict)
    since: float = field(default_factory=time.perf_counter)
    """When the stage began or its last pass was recorded."""
    on_pass: Callable[[str, PassRecord], None] | None = None
    """Called with the stage and the record after every pass, for printing and dumping."""
    on_failure: Callable[[Stage, KernelError, CompileContext], None] | None = None
    """Called with the stage that failed, the error and this context."""
    on_trial: Callable[[Any], None] | None = None
    """Called with a `Trial` after every schedule that a search has measured."""
    interface: Any = None
    """The `Interface` between Python and the compiled function, once `ast_to_tri` has run."""
    params: dict[str, Any] = field(default_factory=dict)
    """The tensors bound to an imported function (weights, large constants), by name."""
    fixed: frozenset[str] = frozenset()
    """Those of `params` that no call changes: what depends on them alone is computed once, when they are bound."""
    prepares: bool = False
    """Whether the pipeline's later stages do so."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes that arguments of an imported function are compiled for, by name, where its types are dynamic."""
    captures: list[Any] = field(default_factory=list)
    """The global and closure values compiled into the code (`Capture`), and the sources of inlined helpers."""
    unroll: int = 4
    """The maximal constant trip count at which loops are unrolled."""
    inline_depth: int = 500
    """How deeply calls are inlined in each other."""
    debug: bool = False
    """Whether the kernel runs its assertions and prints, and checks indices on CUDA, too."""
    stops: bool = False
    """Whether the kernel is interpreted, so that `breakpoint()` stops in it."""
    on_value: Callable[[Span, str, str], None] | None = None
    """Called by the front end with the range of each expression, its type or value as text, and, where a name is
    assigned, the name. Loop bodies are lowered more than once."""
    warnings: list[SkippedStep] = field(default_factory=list)
    """Schedule rules and passes that failed and were skipped, in order."""
    keep_passes: bool = True
    """Whether to print the IR after each pass; False for the fastest compile."""
    printed: tuple[bytes, str] = (b"", "")
    """The bytecode of the MLIR module that was printed last, and its text."""

    def skip(self, step: SkippedStep, cause: Exception) -> None:
        """Note that `step` failed and is skipped; warn once per process, on the user's line.

        Raises `CodegenError` under ``MLIRTRI_STRICT``.
        """
        if settings.get("MLIRTRI_STRICT"):
            raise CodegenError(f"{step.step} failed on {step.kernel}: {step.reason}", step.span) from cause
        if step not in self.warnings:
            self.warnings.append(step)
        file, line = (step.span.file, step.span.line) if step.span else (self.kernel, 0)
        warnings.warn_explicit(str(step), SkippedStepWarning, file, line, registry=_WARNED)

    def record(self, name: str, text: str, previous: str, is_ours: bool = False) -> None:
        """Note that pass `name` of the current stage turned text `previous` into `text`.

        A name that ran before in this stage gets a ``#2``, ``#3``… so that the mapping stays one to one.
        """
        ran = self.passes.setdefault(self.stage, [])
        names = {record.name for record in ran}
        unique, count = name, 1
        while unique in names:
            count += 1
            unique = f"{name}#{count}"
        now = time.perf_counter()
        record = PassRecord(unique, text, changed=text != previous, seconds=now - self.since, is_ours=is_ours)
        ran.append(record)
        self.since = now
        if self.on_pass is not None:
            self.on_pass(self.stage, record)


KINDS = ("python", "mlir", "tvmscript", "llvm", "cuda", "asm", "ptx", "spirv", "listing")


@public_class()
@dataclass(frozen=True)
class Stage:
    """One arrow of a pipeline."""

    name: str
    kind: str
    """Its text's kind, one of `KINDS`."""
    run: Callable[[StageIR, CompileContext], StageIR]
    """The lowering: takes the IR of the previous stage, gives this stage's IR."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise UnknownOptionError(f"a stage's name is a word, not {self.name!r}", help="it names files of dumps")
        if self.kind not in KINDS:
            raise UnknownOptionError(
                f"stage {self.name!r} has no kind {self.kind!r}",
                help=f"{did_you_mean(self.kind, KINDS)}the kinds are {', '.join(KINDS)}",
            )
        if not callable(self.run):
            raise KernelTypeError(
                f"stage {self.name!r} has {self.run!r} for a lowering", help="give a function (ir, context) -> ir"
            )


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


def without_repeats(edges: Iterable[Edge]) -> list[Edge]:
    """Return each of these edges once; how often it stood there is in front of the producer."""
    times = Counter(edges).items()
    return [replace(edge, producer=f"{count} × {edge.producer}") if count > 1 else edge for edge, count in times]
