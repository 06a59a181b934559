"""`mlirtri trace`: every stage and pass of kernels as one page of HTML."""

from __future__ import annotations

from pathlib import Path

import click

from mlirtri.cli.options import Arguments, arguments_option, by_name, schedule_option, target_option
from mlirtri.cli.terminal import waiting
from mlirtri.errors import KernelError
from mlirtri.lowering.pipelines import COMPARED_PIPELINES, PIPELINE_STAGES

_PIPELINE = click.Choice(list(PIPELINE_STAGES))


@click.command()
@click.argument("files", metavar="FILE[::KERNEL]…", nargs=-1, required=True)
@click.option("--html", "output", metavar="FILE", default="trace.html", show_default=True, help="The page to write.")
@click.option("--pipeline", "pipelines", type=_PIPELINE, multiple=True, help="Only this; again for more.")
@click.option("--no-run", is_flag=True, help="Compile only: no times of kernels and no roofline.")
@arguments_option
@target_option
@schedule_option
def trace(
    files: tuple[str, ...], output: str, pipelines: tuple[str, ...], no_run: bool, arguments: Arguments,
    target: str | None, schedule: str | None,
) -> None:  # fmt: skip
    """Write a page with every stage and pass of kernels, by all pipelines side by side. FILE is what `compare` takes.

    The page is one file and needs no network. A pipeline that refuses the kernel shows its stages up to there.
    """
    from mlirtri.measure.tracing import trace_of
    from mlirtri.trace.page import write_page

    what = files[0] if len(files) == 1 else list(files)
    names = pipelines or COMPARED_PIPELINES
    with waiting(f"compiling {', '.join(files)}"):
        page = trace_of(what, by_name(arguments), names, target, schedule, runs=not no_run)
        write_page(page, Path(output))
    refused = [kernel.failure for kernel in page.kernels if kernel.failure]
    print(f"{output}: {', '.join(kernel.pipeline for kernel in page.kernels)}, {Path(output).stat().st_size:,} bytes")
    if refused and len(refused) == len(page.kernels):
        raise KernelError(f"no pipeline compiles it: {refused[0]}")
