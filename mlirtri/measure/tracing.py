"""A trace of kernels by several pipelines, with the costs of their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlirtri.errors import KernelError
from mlirtri.lowering.pipelines import Pipeline, pipeline_for
from mlirtri.measure.columns import Column, columns_of
from mlirtri.measure.comparison import Extras, compared
from mlirtri.measure.machine_limits import FOOTPRINTS, limits
from mlirtri.measure.rows import Comparison
from mlirtri.measure.subjects import Subject, subjects_of
from mlirtri.trace.data import Trace, TracedKernel

_ROUNDS = 3
"""Rounds of timing: the page shows where time goes, not which row is faster."""


def trace_of(
    what: object, arguments: Mapping[str, object], pipelines: Sequence[str | Pipeline], target: str | None,
    schedule: str | None, runs: bool = True,
) -> Trace:  # fmt: skip
    """Return the trace of what `compare` takes, by these pipelines; with `runs` kernels are costed, too.

    A pipeline that refuses has the stages before, and the reason.
    """
    columns = columns_of(pipelines, target, schedule, None)
    kernels: list[TracedKernel] = []
    notes: list[str] = []
    for subject in subjects_of(what, (), arguments, columns):
        subject.observe()
        costs = _costs(subject, columns) if runs else None
        if isinstance(costs, str):
            notes.append(f"{subject.name} has no costs: {costs}")
            costs = None
        notes += costs.notes if costs is not None else ()
        kernels += [_traced(subject, column, costs) for column in columns]
    has_costs = any(launch.seconds for kernel in kernels for launch in kernel.launches)
    roofline = (limits().flops, limits().bytes_by_footprint[FOOTPRINTS[-1]]) if has_costs else None
    title = ", ".join(dict.fromkeys(kernel.signature for kernel in kernels))
    return Trace(title, tuple(kernels), roofline, tuple(notes))


def _costs(subject: Subject, columns: Sequence[Column]) -> Comparison | str:
    """Return the comparison with costs, or why there is none: sizes that are open, values kept between calls."""
    try:
        return compared(subject, columns, Extras(repeat=_ROUNDS, beside=(), profile=True))
    except KernelError as error:
        return error.message


def _traced(subject: Subject, column: Column, costs: Comparison | None) -> TracedKernel:
    try:
        with column.environment():
            kernel = subject.compile(column)
    except KernelError as error:
        return replace(_stages_before(subject, column), pipeline=column.name, failure=str(error))
    result = kernel.traced(costs[column.name].launches if costs is not None else ())
    return replace(result, pipeline=column.name)


def _stages_before(subject: Subject, column: Column) -> TracedKernel:
    """Return the stages that a refused kernel has: those of the longest part of its pipeline that compiles."""
    assert column.options.pipeline is not None, "a column has a pipeline"
    pipeline = pipeline_for(column.options.pipeline, column.target)
    for name in reversed(pipeline.names[:-1]):
        options = replace(column.options, pipeline=pipeline.until(name))
        try:
            return subject.compile(Column(f"{column.name} until {name}", options, column.variables)).traced()
        except KernelError:
            # The stage that refuses is not after this one.
            continue
    return TracedKernel(subject.name, column.name, subject.name, str(column.target), ())
