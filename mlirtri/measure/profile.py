"""Where the time of a call goes: `profile` of kernels and programs, by the kernels that a call launches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlirtri.errors import KernelError, UnknownOptionError, did_you_mean
from mlirtri.kernels.options import Options
from mlirtri.lowering.core.tracebacks import public
from mlirtri.lowering.pipelines import Pipeline
from mlirtri.measure.columns import Column
from mlirtri.measure.comparison import (
    NO_TIMES,
    Contender,
    check_numbers,
    contender_of,
    contenders_beside,
    machine,
    one_thread,
    run_each,
    shown_arguments,
    time_rounds,
)
from mlirtri.measure.launch_costs import add_costs
from mlirtri.measure.machine_limits import limits
from mlirtri.measure.rows import LaunchCost, strict
from mlirtri.measure.subjects import ProgramSubject, Subject, subjects_of
from mlirtri.measure.tables import above_roofline, cost_cells, shown_seconds, table_of, text_of, unsteady

if TYPE_CHECKING:
    from rich.console import Group

ORDERS = ("time", "bytes", "flops", "roofline", "launch")
"""What kernels may be sorted by: the most first, of `roofline` the least; `launch` is the order of the call."""
HEADINGS = ("kernel", "launches", "time", "share", "bytes", "flops", "roofline", "threads", "line", "source")

_WIDEST = 48
"""Characters of a line of the source that are shown."""


@dataclass(frozen=True)
class KernelCost(LaunchCost):
    """What all launches of one kernel cost per call."""

    launches: int = 1


@dataclass(frozen=True)
class Profile:
    """The result of `profile` for one kernel or program; prints as a table. Times are in seconds."""

    kernel: str
    pipeline: str
    target: str
    arguments: tuple[str, ...]
    launches: tuple[LaunchCost, ...]
    """In the order of the call."""
    call_seconds: float | None
    """Median time of a call without clocks in it."""
    call_min: float | None = None
    call_max: float | None = None
    notes: tuple[str, ...] = ()
    machine: str = ""
    """The processor and the number of threads."""
    sort: str = "time"
    """How `kernels` are sorted: one of `ORDERS`."""
    top: int | None = None
    """How many kernels are shown; None for all."""
    difference: str | None = None
    """The first wrong element, where numbers were checked and one is."""

    @property
    def kernels(self) -> tuple[KernelCost, ...]:
        """Return the kernels that are shown, sorted; launches of one kernel from one line are together."""
        groups: dict[tuple[str, str], list[LaunchCost]] = {}
        for launch in self.launches:
            groups.setdefault((launch.name, launch.line), []).append(launch)
        found = [_together(group) for group in groups.values()]
        return tuple((found if self.sort == "launch" else sorted(found, key=_KEYS[self.sort]))[: self.top])

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return the kernel's name if numbers were checked and are wrong."""
        return (self.kernel,) if self.difference else ()

    @property
    def kernel_seconds(self) -> float:
        """Return the time that all launches take together."""
        return sum(launch.seconds or 0.0 for launch in self.launches)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.markup import escape

        lines = [_cells(kernel, self.kernel_seconds) for kernel in self.kernels]
        title = f"{self.kernel}({', '.join(self.arguments)}) on {self.target}, pipeline {self.pipeline}"
        parts: list[Any] = [escape(title)]
        parts += [table_of(HEADINGS, lines, left=(0, len(HEADINGS) - 2, len(HEADINGS) - 1)), ""] if lines else []
        return Group(*parts, *map(escape, self._sentences()))

    def __str__(self) -> str:
        return text_of(self.__rich__())

    def _sentences(self) -> list[str]:
        distinct = len({(launch.name, launch.line) for launch in self.launches})
        launches = f"{_counted(len(self.launches), 'launch', 'es')} of {_counted(distinct, 'kernel')}"
        shown = (
            ""
            if self.top is None or self.top >= distinct
            else f", of which {self.top} {'is' if self.top == 1 else 'are'} shown"
        )
        lines = [f"{launches}{shown}" if self.launches else f"pipeline {self.pipeline} launches no kernels"]
        if self.call_seconds is not None:
            spread = f"{shown_seconds(self.call_min)} … {shown_seconds(self.call_max)}"
            inside = f"; the kernels alone: {shown_seconds(self.kernel_seconds)}" if self.kernel_seconds else ""
            lines.append(f"a call takes {shown_seconds(self.call_seconds)} ({spread}){inside}")
        return [*lines, *above_roofline(self.kernels), *self.notes]

    def to_json(self) -> str:
        """Return strict JSON: `kernels` as they are shown, and every launch in order."""
        return json.dumps(strict(self.as_data()), indent=2)

    def as_data(self) -> dict[str, Any]:
        """Return what `to_json` writes."""
        return {**asdict(self), "kernel_seconds": self.kernel_seconds, "kernels": list(map(asdict, self.kernels))}


@dataclass(frozen=True)
class Profiles:
    """The result of `profile` for several kernels, in order."""

    profiles: tuple[Profile, ...]

    def __iter__(self) -> Any:
        return iter(self.profiles)

    def __len__(self) -> int:
        return len(self.profiles)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return the kernels whose numbers were checked and are wrong."""
        return tuple(name for profile in self.profiles for name in profile.wrong)

    def __getitem__(self, index: int) -> Profile:
        return self.profiles[index]

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(*(part for profile in self.profiles for part in (profile.__rich__(), "")))

    def __str__(self) -> str:
        return text_of(self.__rich__())

    def to_json(self) -> str:
        """Return a list of what `Profile.to_json` gives."""
        return json.dumps([strict(profile.as_data()) for profile in self.profiles], indent=2)


@public
def profile(
    f: object, *arguments: object, pipeline: str | Pipeline | None = None, target: str | None = None,
    schedule: str | None = None,
    sort: str = "time", top: int | None = None, repeat: int | None = None, check: bool = False, **keywords: object,
) -> Profile | Profiles:  # fmt: skip
    """Compile `f`, call it on the arguments, and return what each kernel that a call launches costs.

    `f` is what `compare` takes; a list, or a file of several kernels, gives `Profiles`. `sort` is one of `ORDERS`, and
    `top` says how many kernels are shown. `repeat` is the number of rounds in which the whole call is timed. `check`
    also runs NumPy, torch or ONNX Runtime, and gives `Profile.difference`. Raises the `KernelError` that refuses `f`,
    and `UnknownOptionError` for an unknown order.
    """
    if sort not in ORDERS:
        known = f"{did_you_mean(sort, ORDERS)}it is one of {', '.join(ORDERS)}"
        raise UnknownOptionError(f"unknown order {sort!r}", help=known)
    column = Column("profile", Options(target, pipeline, schedule))
    subjects = subjects_of(f, arguments, keywords, (column,))
    found = tuple(replace(_profiled(subject, column, repeat, check), sort=sort, top=top) for subject in subjects)
    return found[0] if len(found) == 1 and not isinstance(f, (list, tuple)) else Profiles(found)


def _profiled(subject: Subject, column: Column, repeat: int | None, check: bool) -> Profile:
    subject.compilations = 1
    if isinstance(subject, ProgramSubject):
        subject.takes_states = True
    with column.environment():
        kernel = subject.compile(column)
    # What the kernel's own options say, where `column` leaves it open.
    column = replace(column, options=replace(column.options, pipeline=kernel.pipeline, target=kernel.target))
    contender = contender_of(subject, column, kernel)
    if contender.row.refusal is not None:
        raise KernelError(contender.row.refusal)
    checked = _checked(contender, subject) if check else []
    time_rounds([contender], subject, contender.writes, repeat)
    notes = [*_costed(contender, subject), *one_thread([contender]), *unsteady([contender.row]), *checked]
    run_each(subject.resets)
    row = contender.row
    return Profile(
        subject.name, kernel.pipeline.name, str(kernel.target), shown_arguments(subject.named), row.launches,
        row.run_seconds, row.run_min, row.run_max, tuple(notes), machine(),
        difference=row.difference,
    )  # fmt: skip


def _checked(contender: Contender, subject: Subject) -> list[str]:
    """Give the contender's row its errors; return sentences on them."""
    others = contenders_beside(subject)
    _, reference, _ = check_numbers([contender, *others], subject)
    if all(other.result is None for other in others):
        reasons = [f"{other.row.name} {other.row.refusal}" for other in others] or [
            "no library that runs it is installed"
        ]
        return [f"numbers are not checked: {reason}" for reason in reasons]
    row = contender.row
    if row.difference:
        return [f"wrong, against {reference}: {row.difference}"]
    return [f"right, against {reference}: the largest error is {row.max_error or 0.0:.2g}"]


def _costed(contender: Contender, subject: Subject) -> list[str]:
    """Give the contender's row its launches; return sentences on what is not measured of them."""
    notes, kernel = add_costs([contender], subject, contender.writes), contender.kernel
    if kernel is None or not kernel.target.is_cuda:
        return notes
    times = NO_TIMES if kernel.target.is_emulated else "launches on a CUDA device are not timed one by one"
    return [f"{times}; threads are those of all blocks"]


def _together(launches: Sequence[LaunchCost]) -> KernelCost:
    first = launches[0]
    seconds, moved, flops = (
        None if None in each else sum(value or 0 for value in each)
        for each in zip(*((launch.seconds, launch.bytes, launch.flops) for launch in launches), strict=True)
    )
    least = sum(limits().least_seconds(launch.flops, launch.bytes) for launch in launches)
    roofline = least / seconds if seconds and first.roofline is not None else None
    return KernelCost(
        first.name, seconds, moved, flops, first.threads, roofline, first.line, first.source, first.untimed,
        len(launches),
    )  # fmt: skip


_KEYS = {
    "time": lambda kernel: -(kernel.seconds or 0.0),
    "bytes": lambda kernel: -(kernel.bytes or 0),
    "flops": lambda kernel: -(kernel.flops or 0),
    "roofline": lambda kernel: kernel.roofline if kernel.roofline is not None else float("inf"),
}


def _counted(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending * (number != 1)}"


def _cells(kernel: KernelCost, total: float) -> list[str]:
    name, *costs = cost_cells(kernel, total)
    source = kernel.source if len(kernel.source) <= _WIDEST else f"{kernel.source[: _WIDEST - 1]}…"
    return [name, str(kernel.launches), *costs, source]
