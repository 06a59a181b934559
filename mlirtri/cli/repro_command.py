"""The command `mlirtri repro`: what a report of a failure needs, in one file that runs as the kernel's file does."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlirtri.cli.options import (
    Arguments,
    arguments_option,
    by_name,
    file_argument,
    options_of,
    pipeline_option,
    schedule_option,
    target_option,
)
from mlirtri.cli.run_command import compared, compiled, data_of, expected_results, results_of
from mlirtri.errors import KernelError, KernelValueError
from mlirtri.lowering.pipelines import PIPELINE_STAGES

if TYPE_CHECKING:
    import numpy as np

    from mlirtri.kernels.kernel import Kernel


@click.command()
@file_argument()
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option(
    "--input", "inputs", metavar="NAME=FILE.npy", multiple=True, help="As of run; only what it is, is packed."
)
@click.option(
    "--check-against", "expected", metavar="FILE|PIPELINE", help="As of run: differing results are the failure."
)
@arguments_option
@pipeline_option
@target_option
@schedule_option
def repro(
    file: str, output: Path, inputs: tuple[str, ...], expected: str | None, arguments: Arguments,
    pipeline: str | None, target: str | None, schedule: str | None,
) -> None:  # fmt: skip
    """Run a kernel that fails, as `run` does, and pack the failure into one file.

    It has the command, the error, the versions, the types and ranges of the arguments, the IR of the last stage that
    was reached, and the text of FILE, so that the command runs on it. A kernel that does not fail is an error.
    """
    from mlirtri.cli.data_files import abstract, read_inputs

    arrays, given = read_inputs(inputs), by_name(arguments)
    typed = {**abstract(arrays), **given}
    failure, facts = None, []
    try:
        kernel = compiled(file, None, typed, pipeline, target, schedule)
        values = data_of(kernel, arrays, given)
        facts = [_input(name, value, name in arrays) for name, value in values.items()]
        _, results = results_of(kernel, values)
        if expected is not None:
            failure = compared(expected, results, expected_results(file, None, expected, arrays, given))
    except Exception as error:  # whatever it is, it is what has to be reported
        failure = f"{type(error).__name__}: {error}"
    if failure is None:
        raise KernelValueError(f"{file} does not fail", help="say with --check-against what it should give")
    stage, text = _last_stage(file, typed, options_of(pipeline, target, schedule))
    _, separator, entry = file.partition("::")
    words = [
        "mlirtri",
        "run",
        f"{output.name}{separator}{entry}",
        *_words(inputs, expected, arguments, pipeline, target, schedule),
    ]
    facts = [f"command: {shlex.join(words)}", *facts, *_versions(), f"the last stage: {stage}", failure]
    output.write_text(_packed(Path(file.partition("::")[0]), facts, stage, text))
    print(output)


def _words(
    inputs: tuple[str, ...], expected: str | None, arguments: Any, pipeline: Any, target: Any, schedule: Any
) -> Iterator[str]:
    yield from (f"--input={file}" for file in inputs)
    yield from (f"--arg={name}={_shown(value)}" for name, value in arguments)
    named = {"check-against": expected, "pipeline": pipeline, "target": target, "schedule": schedule}
    yield from (f"--{name}={value}" for name, value in named.items() if value is not None)


def _shown(value: Any) -> str:
    """Return the value of ``--arg`` as it was written: a tensor's type with its bounds, or a literal."""
    from mlirtri.dialect.base.dtypes import DType
    from mlirtri.language.names import Tensor

    if isinstance(value, DType):
        return value.name
    if not isinstance(value, Tensor) or value.dtype is None:
        return repr(value)
    shape = f"[{','.join(map(str, value.shape))}]" if value.shape else ""
    low, high = value.bounds or (None, None)
    return f"{value.dtype}{shape}" + ("" if low is None else f":{low}..{high}" if low != high else f":{low}")


def _input(name: str, value: Any, is_given: bool) -> str:
    from mlirtri.cli.data_files import named_results

    [array] = named_results(value, name).values()
    return f"argument {name}: {'from a file' if is_given else 'random'}, {_ranges(array)}"


def _ranges(array: np.ndarray) -> str:
    if array.size == 0 or array.dtype.kind in "cV":
        return f"{array.dtype}{list(array.shape)}"
    return f"{array.dtype}{list(array.shape)}, {array.min()} to {array.max()}"


def _versions() -> list[str]:
    from mlirtri.compiler.versions import versions

    machine = f"Python {platform.python_version()}, {platform.platform()}, {platform.machine()}"
    installed: Any = versions()
    named = installed.items() if isinstance(installed, Mapping) else [("versions", installed)]
    return [machine, *(f"{name}: {value}" for name, value in named)]


def _last_stage(file: str, given: dict[str, Any], options: Any) -> tuple[str, str]:
    """Return the name and the text of the last stage that compiles."""
    from mlirtri.cli.kernel_files import compile_program

    reached = ("none", "")
    for stage in _stages(options.pipeline):
        try:
            kernel: Kernel = compile_program(file, None, given, options, [stage])
            reached = (stage, kernel.compilation.records[stage].complete())
        except KernelError:
            break
    return reached


def _stages(pipeline: str | None) -> tuple[str, ...]:
    """Return the stages whose text is read and resumed, in order."""
    return tuple(stage.name for stage in PIPELINE_STAGES[pipeline or "linalg"] if stage.kind in ("mlir", "tvmscript"))


def _packed(file: Path, facts: list[str], stage: str, text: str) -> str:
    """Return the file's text between comments, or only the comments where it is binary."""
    comment = "#" if file.suffix == ".py" else "//"
    try:
        source = file.read_text().rstrip("\n")
    except UnicodeDecodeError:
        source = f"{comment} {file} is binary and has to be sent along"
    lines = [line for fact in facts for line in fact.splitlines()]
    return "\n".join(
        [
            *(f"{comment} {line}".rstrip() for line in ["mlirtri repro", *lines, f"----- {file.name} -----"]),
            source,
            *([f"{comment} ----- stage {stage} -----"] if text else []),
            *(f"{comment} {line}".rstrip() for line in text.splitlines()),
            "",
        ]
    )
