"""`mlirtri profile`: which kernels a call launches, and what each costs."""

from __future__ import annotations

import click

from mlirtri.cli.options import (
    Arguments,
    OneOf,
    arguments_option,
    by_name,
    pipeline_option,
    schedule_option,
    target_option,
)
from mlirtri.cli.terminal import show, waiting

_ORDERS = ("time", "bytes", "flops", "roofline", "launch")


@click.command()
@click.argument("files", metavar="FILE[::KERNEL]…", nargs=-1, required=True)
@click.option("--sort", type=OneOf(_ORDERS), default="time", show_default=True, help="The most first.")
@click.option("--top", type=click.IntRange(1), help="Show so many kernels; by default all.")
@click.option("--repeat", type=click.IntRange(1), help="Rounds of timing the call; by default as many as fit.")
@click.option("--check", is_flag=True, help="Also run NumPy, torch or ONNX Runtime; status 1 where numbers are wrong.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, with each launch in order.")
@arguments_option
@pipeline_option
@target_option
@schedule_option
def profile(
    files: tuple[str, ...], sort: str, top: int | None, repeat: int | None, check: bool, as_json: bool,
    arguments: Arguments, pipeline: str | None, target: str | None, schedule: str | None,
) -> int:  # fmt: skip
    """Run a kernel or a program on random data, and show the kernels that a call launches.

    Of each: time, share, bytes, flops, percent of this machine's roofline, threads, and the line it comes from. FILE is
    what `compare` takes. `--sort roofline` has what is farthest from the machine's limits first.
    """
    from mlirtri.measure.profile import profile as profiled

    options = {"pipeline": pipeline, "target": target, "schedule": schedule}
    what = files[0] if len(files) == 1 else list(files)
    with waiting(f"compiling and running {', '.join(files)}"):
        found = profiled(what, sort=sort, top=top, repeat=repeat, check=check, **options, **by_name(arguments))
    if as_json:
        print(found.to_json())
    else:
        show(found)
    return int(bool(found.wrong))
