"""Tables about mlirtri itself for the terminal: its stages and its settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from mlirtri.cli.terminal import table as new_table
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.pipelines import AKG_ALIASES, WITHOUT_TVM, LazyLowering, pipeline_for
from mlirtri.settings import SETTINGS, get

if TYPE_CHECKING:
    from mlirtri.compiler.records import Compilation


def stages_table(pipelines: list[str], target: str | None) -> Table:
    """Return every stage in order; of several pipelines, those that do not support the target are left out."""
    table = new_table("pipeline", "stage", "text", "AKG", "lowering")
    where = as_target(target if target is not None else get("MLIRTRI_TARGET"))
    for name in pipelines:
        try:
            pipeline = pipeline_for(name, where)
        except UnknownOptionError:
            if len(pipelines) == 1:
                raise
            continue
        for number, stage in enumerate(pipeline.stages):
            aliases = [alias for alias, stages in AKG_ALIASES.items() if stage.name in stages]
            where_from = _path_of(stage.run.module) if isinstance(stage.run, LazyLowering) else "yours"
            table.add_row(name if number == 0 else "", stage.name, stage.kind, ", ".join(aliases), where_from)
        table.add_section()
    return table


def passes_table(pipelines: list[str], target: str | None) -> Table:
    """Return the passes that a sample kernel goes through in each pipeline, in order, and whose they are."""
    import numpy as np

    from mlirtri.kernels.jit import jit  # loads MLIR

    def sample(a, b, bias):
        """Return a softmax of the rows of a product with a bias."""
        scores = np.maximum(a @ b + bias, 0)
        powers = np.exp(scores - np.max(scores, axis=1)[:, None])
        return powers / np.sum(powers, axis=1)[:, None]

    table = new_table("pipeline", "stage", "pass", "whose", "changes the sample")
    arguments = [np.ones((32, 32), np.float32), np.ones((32, 32), np.float32), np.ones(32, np.float32)]
    where = as_target(target if target is not None else get("MLIRTRI_TARGET"))
    for name in pipelines:
        if where.is_cuda and name in WITHOUT_TVM:
            continue
        compilation = jit(sample, pipeline=name, target=target).compile(*arguments).observed
        shown = name
        for stage, passes in compilation.context.passes.items():
            theirs = "MLIR" if compilation.records[stage].stage.kind == "mlir" else "TVM"
            for step in passes:
                whose = "ours" if step.is_ours else theirs
                table.add_row(shown, stage, step.name, whose, "yes" if step.changed else "")
                shown = ""
        table.add_section()
    return table


def _path_of(module: str) -> str:
    return f"{module.removeprefix('mlirtri.').replace('.', '/')}.py"


def settings_table() -> Table:
    """Return a table of every variable; a value that does not parse is shown with the expected form."""
    table = new_table("variable", "now", "default", "meaning")
    for name, setting in SETTINGS.items():
        try:
            value = _shown(get(name))
        except UnknownOptionError:
            value = f"{os.environ[name]} (not {setting.kind})"
        table.add_row(name, escape(value), escape(_shown(setting.default)), escape(setting.meaning))
    return table


def _shown(value: object) -> str:
    if value is None or value == ():
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def timing_table(compilation: Compilation) -> Table:
    """Return the stages and passes of a compilation, the longest first; a stage's time holds that of its passes.

    Imports, which happen once in a process, are a row of their own.
    """
    rows = [(record.seconds, name, "") for name, record in compilation.records.items()]
    rows += [(compilation.loading, "(imports)", "")] if compilation.loading else []
    for stage, passes in compilation.context.passes.items():
        rows += [(step.seconds, stage, step.name) for step in passes if step.seconds is not None]
    total = sum(record.seconds for record in compilation.records.values()) + compilation.loading
    table = new_table("ms", "%", "stage", "pass")
    for seconds, stage, name in sorted(rows, key=lambda row: -row[0]):
        table.add_row(f"{seconds * 1e3:.1f}", f"{100 * seconds / total:.0f}" if total else "-", stage, name)
    return table
