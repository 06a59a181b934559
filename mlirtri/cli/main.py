"""The command line: options in, text out. IR and results go to stdout, everything else to stderr.

Exit status: 0 done, 1 a `KernelError`, shown without a traceback, 2 the command is not understood, 130 interrupted.
Commands import what they run themselves: `doctor` and ``--help`` work where MLIR, TVM or torch do not load.
"""

from __future__ import annotations

import os
import sys

import click

from mlirtri.cli.cache_commands import cache
from mlirtri.cli.compare_command import compare
from mlirtri.cli.difference_commands import diff
from mlirtri.cli.emit_command import emit
from mlirtri.cli.lit_commands import LIT_COMMANDS
from mlirtri.cli.options import (
    Arguments,
    arguments_option,
    by_name,
    file_argument,
    options_of,
    pipeline_option,
    schedule_option,
    start_option,
    target_option,
)
from mlirtri.cli.profile_command import profile
from mlirtri.cli.repro_command import repro
from mlirtri.cli.run_command import run
from mlirtri.cli.terminal import show, waiting
from mlirtri.cli.trace_command import trace
from mlirtri.cli.translate_command import translate
from mlirtri.errors import KernelError, KernelTypeError
from mlirtri.lowering.pipelines import PIPELINE_STAGES


def run_command(arguments: list[str]) -> int:
    """Run one command line and give its exit status."""
    try:
        status = commands.main(arguments, prog_name="mlirtri", standalone_mode=False)
        if not sys.stdout.closed:
            # The language server closes it at its end.
            sys.stdout.flush()
    except KernelError as error:
        print(error, file=sys.stderr)
        return 1
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader left. What is still buffered goes where the flush at exit does no harm; click gives 1 as well.
        _close_stdout()
        return 1
    except OSError as problem:
        if problem.filename is not None:
            print(f"{problem.filename}: {problem.strerror or problem}", file=sys.stderr)
            return 1
        # Only standard output has no name: the disk that it goes to is full.
        print(f"the output could not be written: {problem.strerror or problem}", file=sys.stderr)
        _close_stdout()
        return 1
    return status if isinstance(status, int) else 0


def _close_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mlirtri", prog_name="mlirtri")
def commands() -> None:
    """A kernel compiler from plain Python through MLIR and TVM Relax, every stage visible."""


@commands.command()
@file_argument()
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder to write; a saved kernel is replaced.")
@click.option("--ir", is_flag=True, help="Keep the text of each stage in it.")
@start_option
@arguments_option
@pipeline_option
@target_option
@schedule_option
def build(
    file: str, output: str, ir: bool, start: str | None, arguments: Arguments, pipeline: str | None,
    target: str | None, schedule: str | None,
) -> None:  # fmt: skip
    """Compile a kernel (FILE is what `emit` takes) and save it as a folder that runs without the compiler."""
    from mlirtri.cli.kernel_files import compile_program, saved_files

    kernel = compile_program(file, start, by_name(arguments), options_of(pipeline, target, schedule))
    print("\n".join(saved_files(kernel, output, ir)))


@commands.command()
@file_argument()
@arguments_option
@pipeline_option
@target_option
@click.option("--trials", type=click.IntRange(0), default=64, show_default=True, help="Schedules that are measured.")
@click.option("--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="For all of them.")
@click.option("--compare", "stages", metavar="STAGE", multiple=True, help="Show it default | tuned. Again for more.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def tune(
    file: str, arguments: Arguments, pipeline: str | None, target: str | None, trials: int, seconds: float,
    stages: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Search for faster schedules of a kernel by measuring; what is found serves --schedule meta from then on.

    With --trials 0 a schedule is taken unmeasured, so that CUDA code can be looked at where there is no GPU.
    """
    from mlirtri.measure.tuning import tune as tuned
    from mlirtri.sources.python_files import checked_arguments, load_kernel

    options = {"trials": trials, "seconds": seconds, "target": target, "pipeline": pipeline}
    function = load_kernel(file)
    given = checked_arguments(function, by_name(arguments))
    tuning = tuned(function, **options, **given)
    for stage in stages:
        print(tuning.side_by_side(stage))
    if as_json:
        print(tuning.to_json())
    else:
        show(tuning)


@commands.command()
@click.option("--passes", is_flag=True, help="Instead, the passes of a sample kernel, and whose they are.")
@pipeline_option
@target_option
def stages(passes: bool, pipeline: str | None, target: str | None) -> None:
    """List the stages of each pipeline: what their text is, AKG's name for them, and the file of its lowering."""
    from mlirtri.cli.reports import passes_table, stages_table

    names = [pipeline] if pipeline else list(PIPELINE_STAGES)
    show(passes_table(names, target) if passes else stages_table(names, target))


@commands.command()
def env() -> None:
    """List the MLIRTRI_* variables, what they are now, and what they mean."""
    from mlirtri.cli.reports import settings_table

    show(settings_table())


@commands.command()
@click.option("--last", is_flag=True, help="Instead, the schedule rules and passes that failed in the last compile.")
def doctor(last: bool) -> int:
    """Look at this machine: what works, and what to do about the rest."""
    from mlirtri.cli.doctor import as_table, collect, failures_table
    from mlirtri.compiler.records import last_failures

    if last:
        failures = last_failures()
        show("no schedule rule or pass has failed" if failures is None else failures_table(failures))
        return int(failures is not None)
    with waiting("looking at this machine"):
        checks = collect()
    show(as_table(checks))
    return int(any(check.ok is False for check in checks))


@commands.command()
def lsp() -> None:
    """Check kernels in an editor: a server of the Language Server Protocol on stdin and stdout.

    Diagnostics while typing, the type of every expression, and the IR of each stage. Runs the imports, definitions and
    assignments of the files that are open. Needs the extra `mlirtri[lsp]`.
    """
    try:
        from mlirtri.lsp.server import new_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise KernelTypeError("mlirtri lsp needs pygls", help="pip install 'mlirtri[lsp]'") from None
    new_server().start_io()


@commands.command()
@click.option("--idle", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds without a request.")
@click.option("--detach", is_flag=True, help="Return when the server is ready, which goes on in the background.")
def serve(idle: float, detach: bool) -> None:
    """Load everything once and run emit, run, build, translate and mlirtri-opt for commands with MLIRTRI_SERVE=1.

    Each runs in a forked process. The server ends when nobody has asked it for a time, or when its sources change.
    """
    from mlirtri.opt.main import main as run_opt
    from mlirtri.serve.server import serve as serve_commands

    preload = ["mlirtri.kernels.session", "mlirtri.cli.kernel_files", "mlirtri.cli.program_files", "mlirtri.opt.passes"]
    serve_commands({"mlirtri": run_command, "mlirtri-opt": run_opt}, preload, idle, detach)


for _command in (emit, run, repro, translate, compare, profile, diff, trace, cache, *LIT_COMMANDS):
    commands.add_command(_command)
