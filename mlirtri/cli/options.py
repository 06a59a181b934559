"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlirtri.errors import KernelError, UnknownOptionError, did_you_mean
from mlirtri.lowering.core.tuning import checked_schedule
from mlirtri.lowering.pipelines import INTERPRETER, PIPELINE_STAGES

if TYPE_CHECKING:
    from mlirtri.kernels.options import Options
    from mlirtri.lowering.core.target import Target


Arguments = tuple[tuple[str, Any], ...]
"""What ``--arg`` gives to a command: names with values."""
Command = TypeVar("Command", bound=Callable[..., object])
Decorator = Callable[[Command], Command]


class Argument(click.ParamType):
    """The type of ``--arg``: a name and a value."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from mlirtri.kernels.argument_text import parse_argument

        try:
            return parse_argument(value)
        except KernelError as error:
            self.fail(str(error), param, ctx)


class OneOf(click.Choice):
    """The type of an option that takes one of some words; an unknown word is refused with the nearest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(value, map(str, self.choices)).strip()
            self.fail(f"{error.message} {near[:1].upper()}{near[1:]}".rstrip(), param, ctx)


PIPELINE = OneOf([*PIPELINE_STAGES, INTERPRETER])
"""The type of ``--pipeline``."""


def by_name(arguments: Arguments) -> dict[str, Any]:
    """Return the values of ``--arg`` by name; raises `UnknownOptionError` for a name that is given twice."""
    values = dict(arguments)
    if len(values) != len(arguments):
        names = [name for name, _ in arguments]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UnknownOptionError(f"--arg {repeated} is given twice")
    return values


def file_argument(metavar: str = "FILE[::KERNEL]") -> Decorator:
    """Return the decorator that adds the argument `file` to a command."""
    return click.argument("file", metavar=metavar)


def arguments_option(command: Command) -> Command:
    text = (
        "An argument by its parameter's name: --arg a=f32[4,8] is a tensor of float32 with 4 rows and 8 columns, "
        "i=i64[20]:0..99 one with bounds, s=f32[] one of rank 0, n=i32:5 or n=i32:1..9 a run-time number, n=3 a value. "
        "Of several kernels, --arg KERNEL.a=… is one kernel's. Again for more."
    )
    return click.option("--arg", "arguments", type=Argument(), multiple=True, help=text)(command)


def start_option(command: Command) -> Command:
    text = "FILE is IR of this stage, MLIR or TVMScript; the file - is stdin."
    return click.option("--from", "start", metavar="STAGE", help=text)(command)


def pipeline_option(command: Command) -> Command:
    return click.option("--pipeline", type=PIPELINE, help="The pipeline; by default linalg.")(command)


def target_option(command: Command) -> Command:
    return click.option("--target", metavar="TARGET", help="cpu, gpu, cuda, cuda:sm_NN, cuda:emulated or spirv.")(
        command
    )


class Schedule(click.ParamType):
    """The type of ``--schedule``."""

    name = "SCHEDULE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return checked_schedule(value)
        except KernelError as error:
            self.fail(str(error), param, ctx)


def schedule_option(command: Command) -> Command:
    text = "default, none, meta or meta:trials=N,seconds=S."
    return click.option("--schedule", type=Schedule(), help=text)(command)


def schedules_option(command: Command) -> Command:
    text = "default, none, meta or meta:trials=N,seconds=S; again for more."
    return click.option("--schedule", "schedules", type=Schedule(), multiple=True, help=text)(command)


def with_folder(file: str | Path) -> Path:
    """Return a file to write, in whose place a folder is made where there is none."""
    path = Path(file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UnknownOptionError(f"{path} cannot be written: {path.parent} is a file") from None
    return path


def options_of(pipeline: str | None, target: str | Target | None, schedule: str | None) -> Options:
    """Return the options of a compilation, None for those that the command line leaves out."""
    from mlirtri.kernels.options import Options

    return Options(target, pipeline, schedule)
