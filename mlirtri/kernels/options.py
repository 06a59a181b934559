"""Compile options as the user gives them: target, pipeline, schedule, printing; and the content key."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from mlirtri import settings
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.core.tuning import checked_schedule
from mlirtri.lowering.pipelines import INTERPRETER, WITHOUT_TVM, Pipeline, pipeline_for


@dataclass(frozen=True)
class Options:
    """Compile options; None means the setting, then the default."""

    target: str | Target | None = None
    pipeline: str | Pipeline | None = None
    schedule: str | None = None
    print_ir: bool | tuple[str, ...] | None = None
    semantics: str | None = None
    """``"numpy"`` or ``"torch"``; None follows the arguments."""
    unroll: int | None = None
    """Loops of up to this many iterations, known at compile time, are unrolled."""
    inline_depth: int | None = None
    """How deeply calls of functions are inlined in each other."""
    debug: bool | None = None
    """Whether indices are checked at run time, and `assert` and `device_print` do something."""

    def over(self, other: Options) -> Options:
        """Return these options, with gaps filled from `other`."""
        pairs = {
            name: getattr(self, name) if getattr(self, name) is not None else getattr(other, name) for name in _FIELDS
        }
        return Options(**pairs)


_FIELDS = ("target", "pipeline", "schedule", "print_ir", "semantics", "unroll", "inline_depth", "debug")
UNROLL = 4
INLINE_DEPTH = 500
SEMANTICS = ("numpy", "torch")


def resolved(options: Options) -> tuple[Target, str, Pipeline]:
    """Return target, schedule and pipeline with settings and defaults filled in; raises `UnknownOptionError`."""
    if options.semantics not in (None, *SEMANTICS):
        raise UnknownOptionError(
            f"unknown semantics {options.semantics!r}", help=f"use one of {', '.join(SEMANTICS)}, or None"
        )
    target = as_target(options.target if options.target is not None else settings.get("MLIRTRI_TARGET"))
    schedule = checked_schedule(options.schedule if options.schedule is not None else "default")
    usual = INTERPRETER if settings.get("MLIRTRI_INTERPRET") else settings.get("MLIRTRI_PIPELINE")
    if target.kind == "spirv":
        usual = "mlir"  # the only one that makes SPIR-V
    pipeline = pipeline_for(options.pipeline if options.pipeline is not None else usual, target)
    if schedule != "default" and pipeline.name in WITHOUT_TVM:
        raise UnknownOptionError(
            f"pipeline {pipeline.name!r} takes no schedule {schedule!r}: MLIR makes its loops, TVM has no part in it",
            help='leave it out, or use pipeline="linalg" or "relax"',
        )
    return target, schedule, pipeline


def language_options(options: Options) -> dict[str, Any]:
    """Return `unroll`, `inline_depth` and `debug` with setting and defaults filled in; raises `UnknownOptionError`."""
    unroll = UNROLL if options.unroll is None else options.unroll
    if not _is_count(unroll):
        raise UnknownOptionError(f"unroll is a number of iterations, not {unroll!r}", help="0 unrolls no loop")
    inline_depth = INLINE_DEPTH if options.inline_depth is None else options.inline_depth
    if not _is_count(inline_depth):
        raise UnknownOptionError(f"inline_depth is a number of calls, not {inline_depth!r}", help="0 inlines no call")
    debug = bool(settings.get("MLIRTRI_DEBUG", options.debug))
    return {"unroll": unroll, "inline_depth": inline_depth, "debug": debug}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def content_key(*parts: object) -> str:
    """Return a digest of the texts that decide a kernel."""
    return blake2b("\0".join(str(part) for part in parts).encode(), digest_size=16).hexdigest()
