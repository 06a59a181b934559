"""The command line: options in, text out. IR and results go to stdout, everything else to stderr.

Exit status: 0 done, 1 a `KernelError`, shown without a traceback, 2 the command is not understood, 130 interrupted.
Commands import what they run themselves: `doctor` and ``--help`` work where MLIR, TVM or torch do not load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mlirtri.cli.cache_commands import cache
from mlirtri.cli.serve_command import serve
from mlirtri.cli.terminal import show, waiting
from mlirtri.errors import KernelError, UnknownOptionError
from mlirtri.lowering.core.schedule_option import checked_schedule
from mlirtri.lowering.pipelines import COMPARED_PIPELINES, PIPELINE_STAGES

if TYPE_CHECKING:
    from mlirtri.compiler.records import StageRecord
    from mlirtri.kernels.kernel import Kernel
    from mlirtri.kernels.options import Options

COMMENTS = {"python": "#", "tvmscript": "#", "asm": "#", "llvm": ";"}
"""Kind of IR to what starts a comment in it; the others have ``//``."""
LANGUAGES = ("ONNX", "StableHLO", "TOSA", "torch", "Relax")
"""What `translate` takes to MLIR."""


def main() -> None:
    """Run the command line of this process and exit with its status."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command line and give its exit status."""
    try:
        status = commands.main(arguments, prog_name="mlirtri", standalone_mode=False)
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
            raise
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


class _Argument(click.ParamType):
    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from mlirtri.kernels.arguments import parse_argument

        try:
            return parse_argument(value)
        except KernelError as error:
            self.fail(str(error), param, ctx)


def _by_name(arguments: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the values of ``--arg`` by name; raises `UnknownOptionError` for a name that is given twice."""
    values = dict(arguments)
    if len(values) != len(arguments):
        names = [name for name, _ in arguments]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UnknownOptionError(f"--arg {repeated} is given twice")
    return values


def _file(metavar: str = "FILE[::KERNEL]") -> Any:
    return click.argument("file", metavar=metavar)


def _arguments(command: Any) -> Any:
    text = "An argument: a=f32[2,3] is a tensor, n=i32:5 or n=i32:1..9 a run-time number, n=3 a value. Again for more."
    return click.option("--arg", "arguments", type=_Argument(), multiple=True, help=text)(command)


def _start(command: Any) -> Any:
    text = "FILE is IR of this stage, MLIR or TVMScript; the file - is stdin."
    return click.option("--from", "start", metavar="STAGE", help=text)(command)


def _pipeline(command: Any) -> Any:
    return click.option(
        "--pipeline", type=click.Choice(list(PIPELINE_STAGES)), help="The pipeline; by default linalg."
    )(command)


def _target(command: Any) -> Any:
    return click.option("--target", metavar="TARGET", help="cpu, gpu, cuda or cuda:sm_NN.")(command)


class _Schedule(click.ParamType):
    name = "SCHEDULE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return checked_schedule(value)
        except KernelError as error:
            self.fail(str(error), param, ctx)


def _schedule(command: Any) -> Any:
    text = "default, none, meta or meta:trials=N,seconds=S."
    return click.option("--schedule", type=_Schedule(), help=text)(command)


def _options(pipeline: str | None, target: str | None, schedule: str | None) -> Options:
    from mlirtri.kernels.options import Options

    return Options(target, pipeline, schedule)


@commands.command()
@_file("FILE[::KERNEL,…]")
@click.option("--stage", "stages", multiple=True, help="A stage to print, or all (the default). Again for more.")
@click.option("--pass", "pass_name", help="The IR after this pass; all for each that changed something.")
@click.option("--complete", is_flag=True, help="The text that loses nothing: with locations and constants.")
@click.option("--explain-fusion", is_flag=True, help="Instead, which operations became one kernel, and why not others.")
@click.option("--json", "as_json", is_flag=True, help="The explanation, machine-readable.")
@click.option("--timing", is_flag=True, help="Also, on stderr, the stages and passes by the time that they took.")
@_start
@_arguments
@_pipeline
@_target
@_schedule
def emit(
    file, stages, pass_name, complete, explain_fusion, as_json, timing, start, arguments, pipeline, target, schedule
) -> None:
    """Print the IR of a kernel, stage by stage; of several, as FILE::a,b or FILE::*, one after the other.

    FILE.py is imported; the kernel's name may be left out when it has only one. Parameters annotated with a whole
    Tensor need no --arg. FILE may be a program of MLIR, StableHLO or TOSA (.mlir, .mlirbc, .stablehlo, .tosa, or - for
    stdin), ONNX (.onnx) or torch.export (.pt2); --arg then says sizes that its types leave open.
    """
    from mlirtri.cli.kernel_files import compile_program, each_kernel
    from mlirtri.cli.reports import timing_table

    if as_json and not explain_fusion:
        raise click.UsageError("--json is for --explain-fusion; IR is text")
    if explain_fusion and (stages or pass_name or complete):
        raise click.UsageError("--explain-fusion prints no stage: leave out --stage, --pass and --complete")
    named = [name for text in stages for name in text.split(",") if name and name != "all"]
    everything = not named or any("all" in text.split(",") for text in stages)
    options, texts = _options(pipeline, target, schedule), []
    for spec in [file] if start else each_kernel(file):
        if explain_fusion:
            _explain(compile_program(spec, start, _by_name(arguments), options), as_json)
            continue
        kernel = compile_program(spec, start, _by_name(arguments), options, None if everything else named)
        if timing:
            show(timing_table(kernel.observed), stderr=True)
        names = list(kernel.ir) if everything else [kernel.pipeline.find(name).name for name in named]
        texts += _pass_texts(kernel, names, pass_name) if pass_name else _stage_texts(kernel, names, complete)
    for banner, text in texts:
        if len(texts) > 1:
            print(banner)
        print(text.rstrip("\n"))


def _explain(kernel: Kernel, as_json: bool) -> None:
    if as_json:
        print(kernel.fusion.to_json())
    else:
        show(kernel.fusion)


def _stage_texts(kernel: Kernel, names: list[str], complete: bool) -> list[tuple[str, str]]:
    records = [kernel.compilation.records[name] for name in names]
    return [(_banner(kernel, record), record.complete() if complete else record.readable()) for record in records]


def _pass_texts(kernel: Kernel, names: list[str], pass_name: str) -> list[tuple[str, str]]:
    texts = [
        (_banner(kernel, kernel.compilation.records[stage], f": {name}"), text)
        for stage in names
        for name, text in kernel.passes[stage].items()
        if name == pass_name or (pass_name == "all" and name in kernel.passes[stage].changed)
    ]
    if not texts and pass_name != "all":
        ran = [name for stage in names for name in kernel.passes[stage]]
        raise UnknownOptionError(f"no pass {pass_name!r} ran", help=f"the passes were {', '.join(ran) or 'none'}")
    return texts


def _banner(kernel: Kernel, record: StageRecord, suffix: str = "") -> str:
    return f"{COMMENTS.get(record.stage.kind, '//')} ===== {kernel.name}: {record.stage.name}{suffix} ====="


@commands.command()
@_file()
@_start
@_arguments
@_pipeline
@_target
@_schedule
def run(file, start, arguments, pipeline, target, schedule) -> None:
    """Compile a kernel, run it once on random data (the same each time) and print what comes out.

    FILE is what `emit` takes.
    """
    from mlirtri.cli.kernel_files import compile_program
    from mlirtri.cli.program_files import is_program, refuse_open_sizes
    from mlirtri.kernels.arguments import data_for, device_for, summary

    given = _by_name(arguments)
    kernel = compile_program(file, start, given, _options(pipeline, target, schedule))
    device = device_for(kernel.target)
    if is_program(file) and not start:
        refuse_open_sizes(kernel)
    parameters = kernel.interface.parameters
    values = [data_for(parameter.name, parameter.type, given.get(parameter.name), device) for parameter in parameters]
    for line in summary(kernel(*values)):
        print(line)


@commands.command()
@_file()
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder to write; a saved kernel is replaced.")
@click.option("--ir", is_flag=True, help="Keep the text of each stage in it.")
@_start
@_arguments
@_pipeline
@_target
@_schedule
def build(file, output, ir, start, arguments, pipeline, target, schedule) -> None:
    """Compile a kernel (FILE is what `emit` takes) and save it as a folder that runs without the compiler."""
    from mlirtri.cli.kernel_files import compile_program, saved_files

    kernel = compile_program(file, start, _by_name(arguments), _options(pipeline, target, schedule))
    print("\n".join(saved_files(kernel, output, ir)))


@commands.command()
@_file()
@_arguments
@_target
@_schedule
@click.option(
    "--pipeline",
    "pipelines",
    type=click.Choice(list(PIPELINE_STAGES)),
    multiple=True,
    help="Only this. Again for more.",
)
@click.option("--repeat", type=click.IntRange(1), help="Rounds of timing; by default as many as fit half a second.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def compare(file, arguments, target, schedule, pipelines, repeat, as_json) -> None:
    """Compile a kernel by every pipeline, run it on random data beside torch, and show what each way costs."""
    from mlirtri.cli.kernel_files import checked_arguments, load_kernel
    from mlirtri.measure.comparison import compare as compare_pipelines

    names = pipelines or COMPARED_PIPELINES
    function = load_kernel(file)
    given = checked_arguments(function, _by_name(arguments))
    options = {"pipelines": names, "target": target, "schedule": schedule, "repeat": repeat}
    with waiting(f"compiling and running {function.__name__}"):
        comparison = compare_pipelines(function, **options, **given)
    if as_json:
        print(comparison.to_json())
    else:
        show(comparison)


@commands.command()
@_file()
@_arguments
@_pipeline
@_target
@click.option("--trials", type=click.IntRange(0), default=64, show_default=True, help="Schedules that are measured.")
@click.option("--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="For all of them.")
@click.option("--compare", "stages", metavar="STAGE", multiple=True, help="Show it default | tuned. Again for more.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def tune(file, arguments, pipeline, target, trials, seconds, stages, as_json) -> None:
    """Search for faster schedules of a kernel by measuring; what is found serves --schedule meta from then on.

    With --trials 0 a schedule is taken unmeasured, so that CUDA code can be looked at where there is no GPU.
    """
    from mlirtri.cli.kernel_files import checked_arguments, load_kernel
    from mlirtri.measure.tuning import tune as tuned

    options = {"trials": trials, "seconds": seconds, "target": target, "pipeline": pipeline}
    function = load_kernel(file)
    given = checked_arguments(function, _by_name(arguments))
    tuning = tuned(function, **options, **given)
    for stage in stages:
        print(tuning.side_by_side(stage))
    if as_json:
        print(tuning.to_json())
    else:
        show(tuning)


def _directions(command: Any) -> Any:
    for language in reversed(LANGUAGES):
        text = f"{language} to linalg on tensors."
        name = f"{language.lower()}-to-mlir"
        command = click.option(f"--{name}", "direction", flag_value=language.lower(), help=text)(command)
    return click.option("--mlir-to-relax", "direction", flag_value="to-relax", help="MLIR to a Relax module.")(command)


@commands.command()
@_directions
@click.option("--complete", is_flag=True, help="With locations and what mlirtri reads back; else bare MLIR.")
@click.option("--inline", is_flag=True, help="Weights as constants, not as arguments.")
@click.option("--bytecode", is_flag=True, help="MLIR's binary form.")
@click.option("--report", is_flag=True, help="Instead, what of it each pipeline translates; status 1 if not all.")
@click.option("--json", "as_json", is_flag=True, help="The report, machine-readable.")
@_pipeline
@_target
@click.argument("file", metavar="FILE[::FUNCTION]")
def translate(direction, complete, inline, bytecode, report, as_json, pipeline, target, file) -> int | None:
    """Print one IR's program in another IR; the file - is stdin. TVMScript is trusted like a Python program."""
    from mlirtri.cli.program_files import report_on_file, to_mlir, to_relax

    if report:
        findings = report_on_file(file, None if direction == "to-relax" else direction, pipeline, target)
        print(findings.to_json() if as_json else findings)
        return int(not findings.is_total)
    if direction is None:
        directions = ", ".join(f"--{language.lower()}-to-mlir" for language in LANGUAGES)
        raise click.UsageError(f"say from what to what: --mlir-to-relax, {directions}")
    if direction == "to-relax":
        output = to_relax(file)
    else:
        output = to_mlir(file, direction, not complete, "bytecode" if bytecode else "text", inline)
    if isinstance(output, bytes):
        sys.stdout.buffer.write(output)
    else:
        print(output.rstrip("\n"))
    return 0


@commands.command()
@_pipeline
@_target
def stages(pipeline, target) -> None:
    """List the stages of each pipeline: what their text is, AKG's name for them, and the file of its lowering."""
    from mlirtri.cli.reports import stages_table

    show(stages_table([pipeline] if pipeline else list(PIPELINE_STAGES), target))


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
    from mlirtri.compiler.last_failures import last_failures

    if last:
        failures = last_failures()
        show("no schedule rule or pass has failed" if failures is None else failures_table(failures))
        return int(failures is not None)
    with waiting("looking at this machine"):
        checks = collect()
    show(as_table(checks))
    return int(any(check.ok is False for check in checks))


commands.add_command(cache)
commands.add_command(serve)
