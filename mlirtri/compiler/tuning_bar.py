"""How far a search for schedules is, on stderr: a bar where that is a terminal, else nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from mlirtri.lowering.schedule.meta.process import Trial


class TuningBar:
    """Called with each `Trial`; a bar per function, until the compile loop closes it."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}

    def __call__(self, trial: Trial) -> None:
        if not sys.stderr.isatty():
            return
        progress = self._progress or self._start()
        if trial.name not in self._bars:
            self._bars[trial.name] = progress.add_task(trial.name, total=trial.wanted, times="")
        progress.update(self._bars[trial.name], completed=trial.done, times=times_of(trial))

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[times]}"),
        )  # fmt: skip
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._progress.start()
        return self._progress

    def close(self) -> None:
        """Leave the last state of the bars on the screen."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._bars = None, {}


def times_of(trial: Trial) -> str:
    """The best time so far and the default schedule's: ``12.3 µs, default 45.6 µs``."""
    shown = [(trial.best, ""), (trial.default, "default ")]
    return ", ".join(f"{name}{seconds * 1e6:.1f} µs" for seconds, name in shown if seconds is not None)
