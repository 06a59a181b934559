"""The command line. IR and results go to stdout, everything else to stderr.

Exit status: 0 done, 1 the kernel or its environment is at fault (a `KernelError`, without a traceback), 2 the command is
not understood, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from mlirtri.errors import KernelError, ParseError, UnknownOptionError
from mlirtri.lowering.pipelines import STAGES

COMMENTS = {"python": "#", "tvmscript": "#", "asm": "#", "llvm": ";"}
"""Kind of IR to what starts a comment in it; the others have ``//``."""


def main() -> None:
    """Entry point of the `mlirtri` command."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command line and give its exit status."""
    try:
        commands.main(arguments, prog_name="mlirtri", standalone_mode=False)
        sys.stdout.flush()
    except KernelError as error:
        _say(str(error))
        return 1
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except click.exceptions.Exit as status:
        return status.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return 130
    except BrokenPipeError:
        # The reader has what it wanted; the rest goes where Python's flush at exit does no harm.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mlirtri", prog_name="mlirtri")
def commands() -> None:
    """A kernel compiler from plain Python through MLIR and TVM Relax, every stage visible."""


# --- options that several commands have ----------------------------------------------------------------------------


class _Argument(click.ParamType):
    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from mlirtri.arguments import parse_argument

        try:
            return parse_argument(value)
        except KernelError as error:
            self.fail(str(error), param, ctx)


def _argument_option(command: Any) -> Any:
    text = "An argument: a=f32[2,3] is a tensor, n=3 a value. Again for more."
    return click.option("--arg", "arguments", type=_Argument(), multiple=True, help=text)(command)


def _compile_options(command: Any) -> Any:
    command = click.option("--schedule", type=click.Choice(["default", "none"]), help="How loops are scheduled.")(
        command
    )
    command = _target_option(command)
    return _pipeline_option(command)


def _target_option(command: Any) -> Any:
    return click.option("--target", metavar="TARGET", help="cpu, gpu, cuda or cuda:sm_NN.")(command)


def _pipeline_option(command: Any) -> Any:
    return click.option("--pipeline", type=click.Choice(list(STAGES)), help="Which way down; linalg by default.")(
        command
    )


# --- emit ----------------------------------------------------------------------------------------------------------


@commands.command()
@click.argument("file", metavar="FILE[::KERNEL]")
@click.option("--stage", "stages", multiple=True, help="Which stage to print, or all (the default). Again for more.")
@click.option("--pass", "pass_name", help="Print the IR after this pass; all for each that changed something.")
@click.option("--from", "start", metavar="STAGE", help="FILE is IR of this stage (MLIR or TVMScript; - is stdin).")
@click.option("--complete", is_flag=True, help="The text that loses nothing: with locations and constants.")
@_argument_option
@_compile_options
def emit(file, stages, pass_name, start, complete, arguments, pipeline, target, schedule) -> None:
    """Print the IR of a kernel, stage by stage.

    FILE.py is imported; the kernel's name may be left out when it has only one. Parameters annotated with a whole
    Tensor need no --arg.
    """
    wanted = [name for text in stages for name in text.split(",") if name] or ["all"]
    # A pass may belong to any stage, so without --stage all of them run.
    kernel = _compile(file, start, dict(arguments), (pipeline, target, schedule), _last(wanted))
    names = list(kernel.ir) if "all" in wanted else [kernel.pipeline.find(name).name for name in wanted]
    _check_reached(kernel, names, start)
    texts = _pass_texts(kernel, names, pass_name) if pass_name else _stage_texts(kernel, names, complete)
    for banner, text in texts:
        if len(texts) > 1:
            print(banner)
        print(text.rstrip("\n"))


def _last(wanted: list[str]) -> list[str] | None:
    return None if "all" in wanted else wanted


def _compile(
    file: str, start: str | None, arguments: dict[str, Any], how: tuple[Any, ...], wanted: list[str] | None
) -> Any:
    """The kernel, compiled no further than the last of the stages that are wanted."""
    from mlirtri.jit import Options, checked

    pipeline, target, schedule = how
    options = Options(target, pipeline, schedule)
    if start is None and Path(file.partition("::")[0]).suffix not in ("", ".py"):
        raise UnknownOptionError(f"{file} is not Python", help="--from STAGE says what IR it holds")
    if start is not None:
        return _resume(file, start, options, wanted)
    from mlirtri.programs import load_kernel

    function = load_kernel(file)
    _, _, whole = checked(options.over(function.options))
    return function.compile(target=target, schedule=schedule, pipeline=_until(whole, wanted), **arguments)


def _resume(file: str, start: str, options: Any, wanted: list[str] | None) -> Any:
    from dataclasses import replace

    from mlirtri.jit import checked
    from mlirtri.session import resume

    text = sys.stdin.read() if file == "-" else None
    if text is None and not Path(file).is_file():
        raise ParseError(f"there is no file {file}")
    _, _, whole = checked(options)
    return resume("<stdin>" if file == "-" else file, start, replace(options, pipeline=_until(whole, wanted)), text)


def _until(pipeline: Any, wanted: list[str] | None) -> Any:
    if wanted is None:
        return pipeline
    last = max((pipeline.find(name).name for name in wanted), key=pipeline.names.index)
    return pipeline.until(last)


def _check_reached(kernel: Any, names: list[str], start: str | None) -> None:
    for name in names:
        if name not in kernel.ir:
            raise UnknownOptionError(
                f"stage {name!r} does not come after {start!r}",
                help=f"choose from {', '.join(kernel.ir) or 'later ones'}",
            )


def _stage_texts(kernel: Any, names: list[str], complete: bool) -> list[tuple[str, str]]:
    records = [kernel.walked.records[name] for name in names]
    return [(_banner(record), record.complete() if complete else record.readable()) for record in records]


def _pass_texts(kernel: Any, names: list[str], pass_name: str) -> list[tuple[str, str]]:
    found = [
        (_banner(kernel.walked.records[stage], f": {name}"), text)
        for stage in names
        for name, text in kernel.passes[stage].items()
        if name == pass_name or (pass_name == "all" and name in kernel.passes[stage].changed)
    ]
    if not found and pass_name != "all":
        ran = [name for stage in names for name in kernel.passes[stage]]
        raise UnknownOptionError(f"no pass {pass_name!r} ran", help=f"the passes were {', '.join(ran) or 'none'}")
    return found


def _banner(record: Any, suffix: str = "") -> str:
    return f"{COMMENTS.get(record.stage.kind, '//')} ===== {record.stage.name}{suffix} ====="


if __name__ == "__main__":
    main()
