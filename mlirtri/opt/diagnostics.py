"""Diagnostics of `mlirtri-opt`: collected, printed as mlir-opt prints them, or compared with the comments of a test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.locations import callers_of, span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import Note, Span

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?\s*"
    r"(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}\s*$"
)


@dataclass(frozen=True)
class Report:
    """One diagnostic."""

    severity: str
    """``error``, ``warning``, ``note`` or ``remark``."""
    message: str
    span: Span | None
    notes: tuple[Report, ...] = ()
    callers: tuple[Note, ...] = ()
    """Where the function that holds the line was called from; printed, but no diagnostics of their own."""

    def __str__(self) -> str:
        location = str(self.span) if self.span else "<unknown>:0"
        excerpt = "\n" + self.span.excerpt() if self.span and self.span.excerpt() else ""
        further = [*map(str, self.callers), *map(str, self.notes)]
        return "\n".join([f"{location}: {self.severity}: {self.message}{excerpt}", *further])


def report_of(diagnostic: ir.Diagnostic) -> Report:
    """Return a copy of `diagnostic`, which is valid only while the handler runs."""
    severity = str(diagnostic.severity).rpartition(".")[2].lower()
    location = diagnostic.location
    notes = tuple(report_of(note) for note in diagnostic.notes)
    return Report(severity, diagnostic.message, span_of(location), notes, tuple(callers_of(location)))


@dataclass
class Expectation:
    """One ``expected-…`` comment."""

    severity: str
    text: str
    regex: bool
    line: int | None
    """None: a diagnostic without a location."""
    comment_line: int
    met: bool = False

    def fits(self, report: Report) -> bool:
        line = report.span.line if report.span else None
        if report.severity != self.severity or line != self.line:
            return False
        return re.search(self._pattern(), report.message) is not None

    def _pattern(self) -> str:
        if not self.regex:
            return re.escape(self.text)
        # As in MLIR: only what stands in {{ }} inside of the text is a regular expression.
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        return "".join(f"(?:{part})" if position % 2 else re.escape(part) for position, part in enumerate(parts))


def expectations(text: str) -> list[Expectation]:
    """Return the ``expected-…`` comments of a file, with the lines that they refer to."""
    comments: list[Expectation] = []
    waiting: list[Expectation] = []
    above = None
    for number, line in enumerate(text.split("\n"), start=1):
        match = _EXPECTED.search(line)
        if match is None:
            for expectation in waiting:
                expectation.line = number
            waiting, above = [], number
            continue
        where = match["where"] or "+0"
        expectation = Expectation(match["severity"], match["text"], bool(match["regex"]), None, number)
        comments.append(expectation)
        if where == "below":
            waiting.append(expectation)
        elif where == "above":
            expectation.line = above
        elif where != "unknown":
            expectation.line = number + int(where)
    return comments


def differences(text: str, file: str, reports: Sequence[Report], only_expected: bool = False) -> list[Report]:
    """Return unexpected reports, unless `only_expected`, and unmet expectations, as errors."""
    expected = expectations(text)
    wrong = []
    for report in [report_or_note for top in reports for report_or_note in (top, *top.notes)]:
        hit = next((expectation for expectation in expected if not expectation.met and expectation.fits(report)), None)
        if hit is not None:
            hit.met = True
        elif not only_expected and not repeats_the_operation(report):
            wrong.append(Report("error", f'unexpected {report.severity}: "{report.message}"', report.span))
    for expectation in expected:
        if not expectation.met:
            message = f'expected {expectation.severity} "{expectation.text}" was not produced'
            wrong.append(Report("error", message, Span(file, expectation.comment_line, 1)))
    return wrong


def repeats_the_operation(report: Report) -> bool:
    """Return whether this is the note that shows the operation, which MLIR ignores when it verifies diagnostics."""
    return report.severity == "note" and report.message.startswith("see current operation")
