"""What a comparison found, as data: a row per way to run a kernel, a `Comparison` per kernel, `Comparisons` of many."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class LaunchCost:
    """What one launched kernel costs per call. None where it is not known."""

    name: str
    seconds: float | None
    """Median over calls in which each launch was timed by itself."""
    bytes: int | None
    """Of every array that the launch reads or writes, once each."""
    flops: int | None
    """Arithmetic on floating-point elements: one for each addition, multiplication, comparison or function call."""
    threads: int | None = None
    roofline: float | None = None
    """The least time that this machine could take for such bytes and flops, as a share of the time taken."""
    line: str = ""
    """``file:line`` of the first operation in it."""
    source: str = ""
    """What stands on that line, where it can be read."""
    untimed: str = ""
    """Why it has no time, in a word."""


@dataclass(frozen=True)
class Row:
    """One way to run the kernel. Times are in seconds; None if not measured."""

    name: str
    """A pipeline, with the target, schedule and variant where a comparison has several; or a library."""
    kernels: int | None = None
    """Kernels that run one after another in a call: launches, or loop nests with the fills of what they write."""
    bytes: int | None = None
    """Of every array that a kernel reads or writes, once per kernel."""
    compile_seconds: dict[str, float] | None = None
    """By stage: compiled anew, in a process where everything is imported."""
    run_seconds: float | None = None
    """Median over the rounds."""
    run_min: float | None = None
    run_max: float | None = None
    max_error: float | None = None
    """Largest absolute difference from the reference; infinite where one is NaN or infinite and the other is not."""
    max_ulp: float | None = None
    """The same in units in the last place of the result's dtype, where values do not cancel; None without floats."""
    refusal: str | None = None
    """Why there is no kernel, or none that runs."""
    max_relative: float | None = None
    """Largest absolute difference divided by the largest magnitude of the result it is in."""
    cancels: bool = False
    """Whether elements that cancel to nearly zero differ by more units in the last place than `max_ulp`."""
    difference: str | None = None
    """The first element that differs by more than rounding explains, or the shapes if they differ."""
    rounds: tuple[float, ...] = ()
    """Seconds of a call, by round."""
    launches: tuple[LaunchCost, ...] = ()
    """Kernel by kernel, where asked for."""
    untimed: str = ""
    """Why it has no times though it ran, in a word."""
    between_seconds: float | None = None
    """What a call takes outside of its kernels: median over the calls in which each launch was timed by itself."""

    @property
    def compile_total(self) -> float | None:
        return None if self.compile_seconds is None else sum(self.compile_seconds.values())

    @property
    def spread(self) -> float | None:
        """Return the median of the rounds divided by the fastest; None if not measured."""
        return self.run_seconds / self.run_min if self.run_seconds and self.run_min else None


@dataclass(frozen=True)
class Comparison:
    """The result of `compare` for one kernel; prints as a table."""

    kernel: str
    target: str
    arguments: tuple[str, ...]
    reference: str
    """What the errors are measured against."""
    rows: tuple[Row, ...]
    written: tuple[str, ...] = ()
    """Arguments that a row's call writes: compared like results, and restored before each call."""
    machine: str = ""
    """The processor and the number of threads."""
    notes: tuple[str, ...] = field(default=())
    """Sentences on differences between the rows: why one is slower, where numbers change."""

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return the names of the rows whose numbers are wrong."""
        return tuple(row.name for row in self.rows if row.difference)

    def __getitem__(self, name: str) -> Row:
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise KeyError(f"no row {name!r}; the rows are {', '.join(rows)}")
        return rows[name]

    def __rich__(self) -> Group:
        from mlirtri.measure.tables import as_tables  # loads rich

        return as_tables(self)

    def __str__(self) -> str:
        from mlirtri.measure.tables import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from mlirtri.measure.reports import fragment

        return fragment((self,))

    def to_json(self) -> str:
        """Return strict JSON: infinity and NaN are the strings "inf" and "nan"."""
        return json.dumps(strict(asdict(self)), indent=2)

    def to_csv(self) -> str:
        """Return one line per row, with the kernel's name first."""
        return Comparisons((self,)).to_csv()

    def to_markdown(self) -> str:
        """Return the table as GitHub's Markdown."""
        return Comparisons((self,)).to_markdown()

    def to_html(self) -> str:
        """Return a page of its own, with a bar for each row's time."""
        return Comparisons((self,)).to_html()


@dataclass(frozen=True)
class Comparisons:
    """The result of `compare` for several kernels, in order."""

    comparisons: tuple[Comparison, ...]

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return ``kernel: row`` for the rows whose numbers are wrong."""
        return tuple(f"{each.kernel}: {name}" for each in self.comparisons for name in each.wrong)

    def __getitem__(self, key: int | str) -> Comparison:
        if isinstance(key, int):
            return self.comparisons[key]
        names = {comparison.kernel: comparison for comparison in self.comparisons}
        if key not in names:
            raise KeyError(f"no kernel {key!r}; the kernels are {', '.join(names)}")
        return names[key]

    def __rich__(self) -> Group:
        from rich.console import Group

        from mlirtri.measure.tables import overview_table

        parts: list[Any] = []
        for comparison in self.comparisons:
            parts += [comparison.__rich__(), ""]
        return Group(*parts, overview_table(self.comparisons))

    def __str__(self) -> str:
        from mlirtri.measure.tables import text_of

        return text_of(self.__rich__())

    def _repr_html_(self) -> str:
        from mlirtri.measure.reports import fragment

        return fragment(self.comparisons)

    def to_json(self) -> str:
        """Return a list of what `Comparison.to_json` gives."""
        return json.dumps([strict(asdict(comparison)) for comparison in self.comparisons], indent=2)

    def to_csv(self) -> str:
        from mlirtri.measure.reports import as_csv

        return as_csv(self.comparisons)

    def to_markdown(self) -> str:
        from mlirtri.measure.reports import as_markdown

        return as_markdown(self.comparisons)

    def to_html(self) -> str:
        from mlirtri.measure.reports import page

        return page(self.comparisons)


def strict(value: object) -> Any:
    """Return the value with infinity and NaN as strings, which strict JSON has no numbers for."""
    if isinstance(value, dict):
        return {key: strict(element) for key, element in value.items()}
    if isinstance(value, (tuple, list)):
        return [strict(element) for element in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
