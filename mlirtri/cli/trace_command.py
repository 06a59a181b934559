"""`mlirtri trace`: every stage and pass of kernels as one page of HTML."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click

from mlirtri.cli.options import PIPELINE, Arguments, arguments_option, by_name, schedule_option, target_option
from mlirtri.cli.terminal import waiting
from mlirtri.errors import KernelError, SourceNotAvailableError
from mlirtri.lowering.pipelines import COMPARED_PIPELINES

_SECONDS = 0.3
"""Between two looks at the files."""


@click.command()
@click.argument("files", metavar="FILE[::KERNEL]…", nargs=-1, required=True)
@click.option("--html", "output", metavar="FILE", default="trace.html", show_default=True, help="The page to write.")
@click.option("--pipeline", "pipelines", type=PIPELINE, multiple=True, help="Only this; again for more.")
@click.option("--no-run", is_flag=True, help="Compile only: no times of kernels and no roofline.")
@click.option("--watch", is_flag=True, help="Write it again whenever a file changes, until Control-C.")
@click.option("--stamp", hidden=True, help="What --watch gives: pages with another stamp are loaded again.")
@arguments_option
@target_option
@schedule_option
def trace(
    files: tuple[str, ...], output: str, pipelines: tuple[str, ...], no_run: bool, watch: bool, stamp: str | None,
    arguments: Arguments, target: str | None, schedule: str | None,
) -> None:  # fmt: skip
    """Write a page with every stage and pass of kernels, by all pipelines side by side. FILE is what `compare` takes.

    The page is one file and needs no network. A pipeline that refuses the kernel shows its stages up to there. With
    --watch the files are FILE and all Python in its folder, and an open page is loaded again, at the place that is
    looked at.
    """
    if watch:
        _watch([Path(file.partition("::")[0]) for file in files], Path(output))
        return
    from mlirtri.measure.tracing import trace_of
    from mlirtri.trace.page import write_page

    what = files[0] if len(files) == 1 else list(files)
    names = pipelines or COMPARED_PIPELINES
    with waiting(f"compiling {', '.join(files)}"):
        page = trace_of(what, by_name(arguments), names, target, schedule, runs=not no_run)
        write_page(page, Path(output), stamp)
    refused = [kernel.failure for kernel in page.kernels if kernel.failure]
    print(f"{output}: {', '.join(kernel.pipeline for kernel in page.kernels)}, {Path(output).stat().st_size:,} bytes")
    if refused and len(refused) == len(page.kernels):
        raise KernelError(f"no pipeline compiles it: {refused[0]}")


def _watch(files: list[Path], output: Path) -> None:
    """Run this command, without --watch, in a process of its own now and after each change."""
    from mlirtri.trace.page import stamp_file

    if missing := [str(file) for file in files if not file.is_file()]:
        raise SourceNotAvailableError(f"there is no file {', '.join(missing)}")
    print(f"watching {', '.join(map(str, files))} and the Python beside; Control-C ends it", file=sys.stderr)
    command = [sys.executable, "-m", "mlirtri.cli", *(each for each in sys.argv[1:] if each != "--watch")]
    seen: dict[Path, float] = {}
    try:
        while True:
            if (now := _changed_at(files)) != seen:
                seen = now
                subprocess.run([*command, "--stamp", str(time.time_ns())], check=False)
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        return
    finally:
        # Open pages look no more when it is gone.
        stamp_file(output).unlink(missing_ok=True)


def _changed_at(files: list[Path]) -> dict[Path, float]:
    """Return when each file changed, with all Python in the folders of Python files."""
    beside = {other for file in files if file.suffix == ".py" for other in file.parent.glob("*.py")}
    found: dict[Path, float] = {}
    for file in {*files, *beside}:
        try:
            found[file] = file.stat().st_mtime
        except OSError:
            continue  # an editor is replacing it
    return found
