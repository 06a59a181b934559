"""The ways to compile that a comparison has: pipelines, targets, schedules and variants of the other options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from mlirtri.errors import KernelTypeError, UnknownOptionError, did_you_mean
from mlirtri.kernels.options import Options
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.pipelines import WITHOUT_TVM, Pipeline
from mlirtri.settings import PREFIX, SETTINGS, get

Several = str | Sequence[str] | None


@dataclass(frozen=True)
class Column:
    """One way to compile: its name in the table, options, and ``MLIRTRI_*`` variables that are set meanwhile."""

    name: str
    options: Options
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """Return the target, with the default filled in."""
        target = self.options.target
        return as_target(target if target is not None else get("MLIRTRI_TARGET"))

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Set the variables while a kernel is compiled or runs."""
        before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def columns_of(
    pipelines: Sequence[str | Pipeline],
    targets: Several,
    schedules: Several,
    variants: Mapping[str, Mapping[str, Any]] | None,
) -> tuple[Column, ...]:
    """Return each combination once; its name has the pipeline, and what else the comparison has several of.

    Pipelines without TVM take no schedule, so they are there once whatever schedules there are.
    """
    pipelines = [pipelines] if isinstance(pipelines, str) else list(pipelines)
    wheres, schedule_names = _several(targets), _several(schedules)
    changes = {"": {}} if not variants else {name: dict(values) for name, values in variants.items()}
    columns: dict[Any, Column] = {}
    for target, pipeline, schedule, (label, values) in product(wheres, pipelines, schedule_names, changes.items()):
        name = pipeline if isinstance(pipeline, str) else pipeline.name
        chosen = "default" if name in WITHOUT_TVM else schedule
        options, variables = _of_variant(Options(target, pipeline, chosen), values)
        parts = [name]
        parts += [str(target)] if len(wheres) > 1 else []
        parts += [str(schedule)] if len(schedule_names) > 1 and name not in WITHOUT_TVM else []
        parts += [label] if label else []
        columns.setdefault((options, tuple(variables.items())), Column(" ".join(parts), options, variables))
    return tuple(columns.values())


def _several(values: Several) -> list[Any]:
    return [values] if values is None or isinstance(values, str | Target) else list(values)


def _of_variant(options: Options, values: Mapping[str, Any]) -> tuple[Options, dict[str, str]]:
    names = [option.name for option in fields(Options) if option.name not in ("pipeline", "print_ir")]
    variables = {name: str(value) for name, value in values.items() if name.startswith(PREFIX)}
    for name in values:
        if name not in names and name not in SETTINGS:
            help = f"{did_you_mean(name, [*names, *SETTINGS])}a variant has {', '.join(names)} and MLIRTRI_* variables"
            raise UnknownOptionError(f"a variant cannot set {name!r}", help=help)
    chosen = {name: value for name, value in values.items() if name not in variables}
    return replace(options, **chosen), variables


def parse_variant(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and values of ``unroll=64,MLIRTRI_ROW_TILE=8`` as the command line writes it."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not name:
            raise KernelTypeError(f"{text!r} is no variant", help="write NAME=VALUE,…: unroll=64,MLIRTRI_ROW_TILE=8")
        values[name] = int(value) if value.lstrip("-").isdecimal() else {"True": True, "False": False}.get(value, value)
    return text, values
