"""The progress of a search for schedules (`schedule="meta"`), shown on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from mlirtri.lowering.schedule.meta.process import Trial


class TuningBar:
    """A progress bar per function, called with each `Trial`, until the compile loop closes it."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}

    def __call__(self, trial: Trial) -> None:
        if not sys.stderr.isatty():
            return
        progress = self._progress or self._start()
        if trial.name not in self._bars:
            self._bars[trial.name] = progress.add_task(trial.name, total=trial.wanted, times="")
        progress.update(self._bars[trial.name], completed=trial.done, times=_times_of(trial))

    def _start(self) -> Progress:
        from rich.console import Console  # late, as below: only a search for schedules has a bar
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


def _times_of(trial: Trial) -> str:
    shown = [(trial.best, ""), (trial.default, "default ")]
    return ", ".join(f"{name}{seconds * 1e6:.1f} µs" for seconds, name in shown if seconds is not None)
