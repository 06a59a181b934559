"""`mlirtri compare`: kernels and programs by several ways to compile them, as tables, data or a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mlirtri.cli.options import PIPELINE, Arguments, arguments_option, by_name, schedules_option, with_folder
from mlirtri.cli.terminal import show, waiting
from mlirtri.errors import KernelError
from mlirtri.lowering.pipelines import COMPARED_PIPELINES

_FORMS = ("json", "csv", "markdown", "html")
_FORM_OF = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
"""The form of a file by its suffix; other files get the terminal's tables."""


class _Variant(click.ParamType):
    name = "NAME=VALUE,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from mlirtri.measure.columns import parse_variant

        try:
            return parse_variant(value)
        except KernelError as error:
            self.fail(str(error), param, ctx)


def _forms(command: Any) -> Any:
    texts = {"json": "Machine-readable.", "csv": "A line per row.", "markdown": "GitHub's tables.", "html": "A page."}
    for form in reversed(_FORMS):
        command = click.option(f"--{form}", "form", flag_value=form, help=texts[form])(command)
    return command


@click.command()
@click.argument("files", metavar="FILE[::KERNEL]…", nargs=-1, required=True)
@arguments_option
@click.option("--pipeline", "pipelines", type=PIPELINE, multiple=True, help="Only this. Again for more.")
@click.option(
    "--target", "targets", metavar="TARGET", multiple=True, help="cpu, gpu, cuda or cuda:sm_NN. Again for more."
)
@schedules_option
@click.option("--variant", "variants", type=_Variant(), multiple=True, help="Other options, as a column of their own.")
@click.option("--beside", metavar="LIBRARY", multiple=True, help="Also torch.compile, numba, onnxruntime, …; or all.")
@click.option("--repeat", type=click.IntRange(1), help="Rounds of timing; by default as many as fit half a second.")
@click.option("--profile", is_flag=True, help="Also each launched kernel: time, bytes, flops, share of the roofline.")
@click.option("--why", is_flag=True, help="Also why the slowest row is slower than the fastest, and what changes it.")
@click.option("--bisect", is_flag=True, help="Also the stage and the pass that change numbers.")
@_forms
@click.option(
    "-o",
    "--output",
    "outputs",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Write there, not to stdout; without one of these options as the suffix says. Again for more.",
)
@click.option("--baseline", metavar="FILE", help="Instead, changes since that --json beyond noise; status 1 if worse.")
def compare(
    files: tuple[str, ...], arguments: Arguments, pipelines: tuple[str, ...], targets: tuple[str, ...],
    schedules: tuple[str, ...], variants: tuple[tuple[str, Any], ...], beside: tuple[str, ...], repeat: int | None,
    profile: bool, why: bool, bisect: bool, form: str | None, outputs: tuple[Path, ...], baseline: str | None,
) -> int:  # fmt: skip
    """Compile kernels by every pipeline, run them on random data beside torch or NumPy, and show what each way costs.

    A FILE is Python (FILE.py::name, FILE.py::a,b or 'FILE.py::*'), MLIR, StableHLO, TOSA, ONNX or torch.export's. With
    several targets, schedules or variants each combination is a row. The exit status is 1 if the numbers of a row are
    wrong, or with --baseline if a row got worse.
    """
    from mlirtri.measure.changes import changes_since, read_baseline
    from mlirtri.measure.comparison import compare as compared

    extras = {"beside": beside or None, "repeat": repeat, "profile": profile, "why": why, "bisect": bisect}
    ways = {"pipelines": pipelines or COMPARED_PIPELINES, "target": targets or None, "schedule": schedules or None}
    what = files[0] if len(files) == 1 else list(files)
    earlier = read_baseline(baseline) if baseline else None
    files_to_write = [with_folder(output) for output in outputs]
    with waiting(f"compiling and running {', '.join(files)}"):
        comparison = compared(what, **ways, variants=dict(variants) or None, **extras, **by_name(arguments))
    for output in files_to_write:
        output.write_text(f"{_text(comparison, form or _FORM_OF.get(output.suffix.lower()))}\n")
        print(output)
    if form and not outputs:
        print(_text(comparison, form))
    if earlier is None:
        if not outputs and not form:
            show(comparison)
        return int(bool(comparison.wrong))
    changes = changes_since(earlier, comparison)
    print(changes, file=sys.stderr if form and not outputs else sys.stdout)
    return int(changes.is_worse or not changes.count or bool(comparison.wrong))


def _text(comparison: Any, form: str | None) -> str:
    return (str(comparison) if form is None else getattr(comparison, f"to_{form}")()).rstrip("\n")
