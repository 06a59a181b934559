"""What a compilation leaves behind: text, time and IR of each stage, and a file of the steps that failed.

Loads neither MLIR nor TVM before a text is read. The file, of the last compilation in which a schedule rule or a pass
failed and was skipped, is for `mlirtri doctor --last`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mlirtri.compiler.compile_lock import CompileLock
from mlirtri.errors import SkippedStep, UnknownOptionError
from mlirtri.lowering.core.forks import awaited
from mlirtri.lowering.core.stage import Code, CompileContext, Executable, PassRecord, Stage, StageIR
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.settings import cache_folder

COMPILING = awaited(CompileLock())
"""Held by a compilation: the bindings of MLIR and TVM share state between threads. Running kernels do not wait."""


@dataclass
class StageRecord:
    """The output of one stage. TVM's modules are immutable and printed on demand; MLIR's are not."""

    stage: Stage
    seconds: float
    ir: Any
    """None for MLIR, whose module the next lowering changes."""
    text: str | None = None
    complete_text: str | None = None

    def readable(self) -> str:
        """Return the text that `kernel.ir` shows."""
        if self.text is None:
            from mlirtri.compiler.printing import readable  # loads MLIR

            self.text = readable(self.stage.kind, self.ir)
        return self.text

    def complete(self) -> str:
        """Return the text of a dump."""
        if self.complete_text is None:
            from mlirtri.compiler.printing import complete  # loads MLIR

            self.complete_text = complete(self.stage.kind, self.ir)
        return self.complete_text


class StoredRecord(StageRecord):
    """A stage whose texts were kept in a file. Its IR, where one asks for it, is parsed from them."""

    def __init__(self, stage: Stage, seconds: float, text: str, complete_text: str):
        self.stage, self.seconds = stage, seconds
        self.text, self.complete_text = text, complete_text

    @cached_property
    def ir(self) -> StageIR:  # type: ignore[override]
        """Return the IR; None for MLIR, as of a stage that was compiled."""
        if self.stage.kind != "tvmscript":
            return None
        from mlirtri.compiler.printing import parse  # loads TVM

        return parse(self.stage.kind, self.complete_text or "")


@dataclass
class Compilation:
    """One compilation from its first stage to its last."""

    context: CompileContext
    records: dict[str, StageRecord] = field(default_factory=dict)
    ir: Any = None
    """What the last stage gave."""
    why_no_text: str = ""
    """Why stages have no text that ran, as a help for who asks for it."""
    loading: float = 0.0
    """Seconds that imports of the compilers took, which a process does once; the stages' times are without."""

    @property
    def executable(self) -> Executable | None:
        return self.ir.executable if isinstance(self.ir, Code) else None

    @property
    def seconds(self) -> dict[str, float]:
        return {name: record.seconds for name, record in self.records.items()}


class Texts(Mapping[str, str]):
    """Stage name to text, in the order of the pipeline; AKG's stage names are aliases."""

    def __init__(self, compilation: Compilation, pipeline: Pipeline):
        self._compilation = compilation
        self._pipeline = pipeline

    def __getitem__(self, name: str) -> str:
        """Return a stage's text; raises `UnknownOptionError` for one that the pipeline lacks or did not run."""
        stage = name if name in self._compilation.records else self._pipeline.find(name).name
        if stage not in self._compilation.records:
            hint = self._compilation.why_no_text or f"it was resumed; its stages are {', '.join(self)}"
            raise UnknownOptionError(f"stage {stage!r} did not run for this kernel", help=hint)
        return self._compilation.records[stage].readable()

    def __contains__(self, name: object) -> bool:
        try:
            return name in self._compilation.records or self._pipeline.find(str(name)).name in self._compilation.records
        except UnknownOptionError:
            return False

    def get(self, name: str, default: object = None) -> Any:
        """Return the text of a stage, or `default` if there is none."""
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._compilation.records)

    def __len__(self) -> int:
        return len(self._compilation.records)

    def __repr__(self) -> str:
        """Return the stages with the lines of their texts and the time that they took."""
        lines = [f"{name:12} {note}" for name, note, _, _ in self._notes()]
        return "\n".join([*lines, 'index it with a name for the text: ir["tri"]'])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from mlirtri.trace.colours import texts_html  # loads Pygments

        return texts_html(self._notes())

    def _notes(self) -> list[tuple[str, str, str, str]]:
        records = self._compilation.records.items()
        texts = [(name, record.stage.kind, record.readable(), record.seconds) for name, record in records]
        return [
            (name, f"{kind:10} {len(text.splitlines()):6} lines {seconds * 1e3:8.1f} ms", kind, text)
            for name, kind, text, seconds in texts
        ]


class Passes(dict[str, str]):
    """Pass name to the text after it, in order; `changed` has the names of those that changed something."""

    def __init__(self, records: list[PassRecord]):
        super().__init__((record.name, record.text) for record in records)
        self.changed = tuple(record.name for record in records if record.changed)
        self._records = tuple(records)

    def __repr__(self) -> str:
        """Return the passes, those that changed something marked, with whose they are and their time."""
        return "\n".join(f"{name:36} {note}" for name, note, _, _ in self._notes()) or "no passes"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from mlirtri.trace.colours import texts_html  # loads Pygments

        return texts_html(self._notes())

    def _notes(self) -> list[tuple[str, str, str, str]]:
        notes = []
        for record in self._records:
            time = "" if record.seconds is None else f"{record.seconds * 1e3:8.1f} ms"
            whose = "ours" if record.is_ours else "upstream"
            note = f"{'changed' if record.changed else '-':8} {whose:9}{time}"
            notes.append((record.name, note.rstrip(), "mlir", record.text))
        return notes


@dataclass(frozen=True)
class Failures:
    """What failed in one compilation."""

    kernel: str
    time: str
    """Local time, ``year-month-day hour:minute:second``."""
    steps: tuple[dict[str, str], ...]
    """Per rule or pass its ``step``, ``kernel``, ``reason`` and ``line`` (``file:line:column``, or empty)."""


def failures_file() -> Path:
    """Return the file that holds the failures of the last compilation that had any."""
    return cache_folder() / "failures.json"


def keep_failures(kernel: str, steps: Sequence[SkippedStep]) -> None:
    """Replace the recorded failures by those of this compilation, if the folder can be written."""
    rows = [{"step": step.step, "kernel": step.kernel, "reason": step.reason, "line": str(step.span or "")}
            for step in steps]  # fmt: skip
    text = json.dumps({"kernel": kernel, "time": time.strftime("%Y-%m-%d %H:%M:%S"), "steps": rows})
    try:
        file = failures_file()
        unfinished = file.with_suffix(f".{os.getpid()}")
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError:  # the user has been warned of the failures themselves
        return


def last_failures() -> Failures | None:
    """Return the failures of the last compilation that had any; None where there is none or the file is damaged."""
    try:
        stored = json.loads(failures_file().read_text(encoding="utf-8"))
        return Failures(stored["kernel"], stored["time"], tuple(stored["steps"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
