"""The hook between two stages: verify, print, dump, substitute an edited file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mlirtri import settings
from mlirtri.compiler.dumps import EDITABLE, edited_file, left_aside, write_dump
from mlirtri.compiler.interface_json import to_json
from mlirtri.compiler.interfaces import described, fits, function_of
from mlirtri.compiler.printing import parse_given
from mlirtri.compiler.records import Compilation, StageRecord
from mlirtri.compiler.traces import LiveTrace
from mlirtri.compiler.verify import verify
from mlirtri.errors import KernelError, ParseError, Span, UnknownOptionError, did_you_mean
from mlirtri.lowering.core.interface import Capture
from mlirtri.lowering.core.stage import Code, CompileContext, PassRecord, Stage, StageIR
from mlirtri.lowering.pipelines import AKG_ALIASES, PIPELINE_STAGES, TARGET_STAGES, Pipeline

BANNER = "// -----// IR Dump After {name} ({kernel}: {stage}) //----- //"


_STAGES = (*PIPELINE_STAGES.values(), *TARGET_STAGES.values())
_KEEPS_PASSES = ContextVar("keeps_passes", default=False)
_IS_UNOBSERVED = ContextVar("is_unobserved", default=False)


@contextmanager
def keeping_passes() -> Iterator[None]:
    """Let compilations keep the text after each pass, instead of a second one that does when it is asked for."""
    token = _KEEPS_PASSES.set(True)
    try:
        yield
    finally:
        _KEEPS_PASSES.reset(token)


@contextmanager
def unobserved() -> Iterator[None]:
    """Let compilations take no edited files and leave no prints, dumps or pages: those are for the user's own."""
    token = _IS_UNOBSERVED.set(True)
    try:
        yield
    finally:
        _IS_UNOBSERVED.reset(token)


class Observer:
    """The hook of one compilation."""

    def __init__(self, kernel: str, pipeline: Pipeline, print_ir: bool | tuple[str, ...] | None = None):
        self.kernel = kernel
        self.pipeline = pipeline
        is_alone = _IS_UNOBSERVED.get()
        self.printed = () if is_alone else _stages_to_print(print_ir, pipeline)
        self.dump_folder: Path | None = None if is_alone else settings.get("MLIRTRI_DUMP_DIR")
        self.override_folder = None if is_alone else _override_folder()
        trace_folder: Path | None = None if is_alone else settings.get("MLIRTRI_TRACE")
        self.live_trace = LiveTrace(trace_folder, kernel, pipeline.name) if trace_folder is not None else None
        self.verifies: bool = settings.get("MLIRTRI_VERIFY")
        self._last_shown = ""

    def follow(self, pipeline: Pipeline) -> None:
        """Switch to a pipeline with other last stages: the kernel needs more kinds of code."""
        if self.printed == self.pipeline.names:
            self.printed = pipeline.names
        self.pipeline = pipeline

    @property
    def wants_passes(self) -> bool:
        """Return whether to keep the text after each pass; with edited files it cannot be repeated later."""
        folders = (self.dump_folder, self.override_folder, self.live_trace)
        return bool(self.printed) or any(folder is not None for folder in folders) or _KEEPS_PASSES.get()

    def __call__(self, stage: Stage, ir: StageIR, context: CompileContext) -> StageIR:
        ir = self._overridden(stage, ir, context)
        if self.verifies:
            verify(stage, ir, context)
        if stage.name in self.printed:
            self._show(stage.name, stage.name, StageRecord(stage, 0.0, ir).readable())
        if self.live_trace is not None:
            self.live_trace.stage(stage, ir, context)
        return ir

    def on_failure(self, stage: Stage, error: KernelError, context: CompileContext) -> None:
        """Let the trace page say where the compilation ended."""
        if self.live_trace is not None:
            self.live_trace.failed(stage, error, context)

    def on_pass(self, stage: str, record: PassRecord) -> None:
        """Print the IR after a pass that changed something."""
        if stage in self.printed and record.changed:
            self._show(record.name, stage, record.text)

    def replay(self, compilation: Compilation, already: tuple[str, ...] = ()) -> None:
        """Print what a compilation from the cache would have printed; the stages of `already` have run this time."""
        for name, record in compilation.records.items():
            if name not in self.printed or name in already:
                continue
            for pass_record in compilation.context.passes.get(name, ()):
                self.on_pass(name, pass_record)
            self._show(name, name, record.readable())

    def _show(self, name: str, stage: str, text: str) -> None:
        if text == self._last_shown:
            return
        self._last_shown = text
        banner = BANNER.format(name=name, kernel=self.kernel, stage=stage)
        print(f"{banner}\n{text.rstrip()}\n", file=sys.stderr)

    def _overridden(self, stage: Stage, ir: Any, context: CompileContext) -> Any:
        is_source = stage.kind == "cuda"
        if self.override_folder is None or stage.kind not in EDITABLE:
            return ir
        facts = {
            "kernel": self.kernel,
            "pipeline": self.pipeline.name,
            "target": str(context.target),
            "schedule": context.schedule,
            "interface": to_json(context.interface),
        }
        file = edited_file(self.override_folder, self.kernel, self.pipeline, stage, facts)
        if file is None:
            return ir
        path, text = file
        if is_source:
            _say_once(f"stage {stage.name} of {self.kernel} is taken from {path}", path)
            return _with_source(ir, text, path)
        edited = parse_given(stage.kind, text, str(path))
        name, interface = function_of(stage.kind, edited, path)
        if name != self.kernel or not fits(interface, context.interface):
            raise ParseError(
                f"this file's function {name!r} cannot stand for the kernel {self.kernel!r}: {described(interface)} "
                f"instead of {described(context.interface)}",
                Span(str(path), 1, 1),
                help="an edited stage keeps the kernel's name and signature",
            )
        _say_once(f"stage {stage.name} of {self.kernel} is taken from {path}", path)
        return edited

    def overrides(self) -> list[Capture]:
        """Return the captures that must be unchanged to reuse a kernel compiled with edited files."""
        if self.override_folder is None:
            return []
        return [Capture(_override_state, _override_state(), "MLIRTRI_OVERRIDE_DIR")]

    def dump(self, compilation: Compilation, digest: str, facts: dict[str, Any]) -> None:
        """Write every stage and pass, and a manifest, to ``MLIRTRI_DUMP_DIR`` if it is set."""
        if self.dump_folder is not None:
            write_dump(self.dump_folder, f"{self.kernel}-{digest[:8]}", self.pipeline, compilation, facts)


def _with_source(code: Code, text: str, path: Path) -> Code:
    from mlirtri.lowering.cuda_emulation.translation import kernels_of

    if missing := [name for name in kernels_of(code.text) if name not in kernels_of(text)]:
        raise ParseError(
            f"this file has no kernel {missing[0]!r}", Span(str(path), 1, 1), help="keep its head as it is"
        )
    executable: Any = code.executable
    return Code(text, executable and executable.with_source(text), code.payload)


def _override_folder() -> Path | None:
    folder: Path | None = settings.get("MLIRTRI_OVERRIDE_DIR")
    if folder is not None and not folder.is_dir():
        raise UnknownOptionError(
            f"MLIRTRI_OVERRIDE_DIR={folder} is not a folder",
            help="name a folder of edited files, such as MLIRTRI_DUMP_DIR's",
        )
    if folder is not None:
        kinds = {stage.name: stage.kind for stages in _STAGES for stage in stages}
        for sentence in left_aside(folder, kinds):
            _say_once(sentence, folder)
    return folder


_said: set[tuple[str, int]] = set()


def _say_once(sentence: str, path: Path) -> None:
    """Print a sentence to stderr, unless it was said since the file changed: a comparison compiles a kernel often."""
    key = sentence, path.stat().st_mtime_ns
    if key not in _said:
        _said.add(key)
        print(f"mlirtri: {sentence}", file=sys.stderr)


def _override_state() -> Any:
    folder: Path | None = settings.get("MLIRTRI_OVERRIDE_DIR")
    if folder is None:
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return str(folder), tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)


def _stages_to_print(argument: bool | tuple[str, ...] | None, pipeline: Pipeline) -> tuple[str, ...]:
    if argument is True:
        return pipeline.names
    requested = tuple(argument) if argument else settings.get("MLIRTRI_PRINT_IR")
    if "all" in requested or requested == ("1",):
        return pipeline.names
    stages = all_stages()
    for name in requested:
        if name not in (*stages, *pipeline.names, *AKG_ALIASES):
            raise UnknownOptionError(
                f"no pipeline has a stage {name!r}",
                help=f"{did_you_mean(name, stages)}the stages are {', '.join(stages)}",
            )
    expanded = {stage for name in requested for stage in AKG_ALIASES.get(name, (name,))}
    return tuple(name for name in pipeline.names if name in expanded)


def all_stages() -> tuple[str, ...]:
    """Return the names of all stages of all pipelines and targets, in order of first appearance."""
    return tuple(dict.fromkeys(stage.name for stages in _STAGES for stage in stages))
