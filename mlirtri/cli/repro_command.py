"""The command `mlirtri repro`: what a report of a failure needs, in one file that runs as the kernel's file does."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    with_folder,
)
from mlirtri.cli.run_command import compared, compiled, data_of, expected_results, is_computed, results_of, typed_arrays
from mlirtri.errors import KernelError, KernelValueError, UnknownOptionError
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.pipelines import pipeline_for
from mlirtri.sources.packed_files import (
    EXPECTED,
    FIRST_LINE,
    INPUTS,
    is_binary,
    line_of_arrays,
    line_of_program,
    user_modules,
    with_modules,
)

if TYPE_CHECKING:
    import numpy as np

    from mlirtri.kernels.kernel import Kernel

Chosen = tuple[str | None, str | None, str | None]
"""The pipeline, target and schedule of the command line."""


@click.command()
@file_argument()
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option("--input", "inputs", metavar="NAME=FILE.npy", multiple=True, help="As of run; the data is packed.")
@click.option(
    "--check-against", "expected", metavar="FILE|PIPELINE|LIBRARY", help="As of run: differing results are the failure."
)
@arguments_option
@pipeline_option
@target_option
@schedule_option
def repro(
    file: str, output: Path, inputs: tuple[str, ...], expected: str | None, arguments: Arguments,
    pipeline: str | None, target: str | None, schedule: str | None,
) -> int:  # fmt: skip
    """Run a kernel that fails, as `run` does, and pack the failure into one file.

    It has the command, the error, the versions, the arguments' data, the IR of the last stage that was reached, and
    the text of FILE with the modules of yours that it imports, so that the command runs in an empty folder. There it
    is tried. A model (ONNX, torch.export's) is packed into a Python file. A kernel that does not fail is an error.
    """
    from mlirtri.cli.data_files import abstract, read_inputs

    source, separator, entry = file.partition("::")
    suffix = _suffix_for(Path(source))
    if output.suffix != suffix:
        why = f"has to run as {source} does" if suffix == Path(source).suffix else f"holds {source}, which is binary"
        raise UnknownOptionError(f"{output} {why}", help=f"name it *{suffix}")
    arrays, given = read_inputs(inputs), by_name(arguments)
    typed, chosen = {**abstract(arrays), **given}, (pipeline, target, schedule)
    failure = _failure_of(file, expected, arrays, given, chosen)
    if failure is None:
        raise KernelValueError(f"{file} does not fail", help="say with --check-against what it should give")
    if failure.kernel is not None:
        stage, text = _last_text(failure.kernel, _stages(pipeline))
    else:
        stage, text = _last_stage(file, typed, options_of(*chosen))
    words = [
        "mlirtri",
        "run",
        f"{output.name}{separator}{entry}",
        *([f"--input={output.name}"] if arrays else []),
        *_words(output.name if failure.expected else expected, arguments, *chosen),
    ]
    facts = [f"command: {shlex.join(words)}", *failure.inputs, *_versions(), f"the last stage: {stage}", failure.text]
    data = {INPUTS: arrays, EXPECTED: failure.expected}
    kept = {name: held for name, held in data.items() if held}
    with_folder(output).write_text(_packed(Path(source), facts, kept, stage, text))
    print(output)
    return _tried(output, words[1:], failure.reason)


def _suffix_for(source: Path) -> str:
    """Return the suffix of a packed file: that of its text, or Python's around a binary program."""
    return ".py" if source.is_file() and is_binary(source) else source.suffix


@dataclass(frozen=True)
class _Failure:
    """What `run` does with a kernel that fails."""

    text: str
    reason: str
    """The part of it that is the same for a file of another name."""
    inputs: Sequence[str]
    """A line for each argument, where the kernel compiles."""
    kernel: Kernel | None
    """None where it does not compile."""
    expected: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What a file says that it should give."""


def _failure_of(
    file: str, expected: str | None, arrays: Mapping[str, np.ndarray], given: Mapping[str, Any], chosen: Chosen
) -> _Failure | None:
    """Return how a kernel fails, as a compilation, a call or a comparison; None if it does not.

    An option that does not apply to it is no failure: it is raised.
    """
    from mlirtri.cli.data_files import abstract

    inputs: list[str] = []
    kernel = None
    try:
        kernel = compiled(file, None, {**abstract(arrays), **given}, *chosen)
        arrays = typed_arrays(kernel, arrays)
        values = data_of(kernel, arrays, given)
        inputs += [_input(name, value, name in arrays) for name, value in values.items()]
        _, results = results_of(kernel, values)
        if expected is None:
            return None
        wanted = expected_results(file, None, expected, arrays, given, results)
        difference = compared(expected, results, wanted)
    except UnknownOptionError:
        raise
    except Exception as error:  # whatever it is, it is what has to be reported
        reason = error.message if isinstance(error, KernelError) else str(error)
        return _Failure(f"{type(error).__name__}: {error}", reason, inputs, kernel)
    if difference is None:
        return None
    return _Failure(difference, difference.partition(": ")[2], inputs, kernel, {} if is_computed(expected) else wanted)


def _tried(output: Path, words: list[str], reason: str) -> int:
    """Run the command where there is nothing but the file; return 1, and say so, where it fails for no such reason."""
    with tempfile.TemporaryDirectory(prefix="mlirtri-repro-") as folder:
        shutil.copy(output, folder)
        command = [sys.executable, "-m", "mlirtri.cli", *words]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode and reason.partition("\n")[0] in run.stdout + run.stderr:
        return 0
    said = (run.stderr or run.stdout).rstrip() or "it does not fail"
    print(f"{output} fails otherwise in an empty folder: something is missing in it\n{said}", file=sys.stderr)
    return 1


def _words(expected: str | None, arguments: Arguments, pipeline: Any, target: Any, schedule: Any) -> Iterator[str]:
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
        except UnknownOptionError:
            continue  # an imported program has no stages of the frontend
        except KernelError:
            break  # as do all later ones
    return reached


def _last_text(kernel: Kernel, stages: Sequence[str]) -> tuple[str, str]:
    records = kernel.compilation.records
    last = next(stage for stage in reversed(stages) if stage in records)
    return last, records[last].complete()


def _stages(pipeline: str | None) -> tuple[str, ...]:
    """Return the stages whose text is read and resumed, in order."""
    stages = pipeline_for(pipeline or "linalg", as_target("cpu")).stages
    return tuple(stage.name for stage in stages if stage.kind in ("mlir", "tvmscript"))


def _text_of(file: Path) -> str:
    """Return the text of a file, of Python with the modules that it imports."""
    source = file.read_text().rstrip("\n")
    try:
        return with_modules(source, user_modules(file)) if file.suffix == ".py" else source
    except (SyntaxError, ValueError):  # what is wrong with the text may be the failure
        return source


def _packed(file: Path, facts: list[str], data: Mapping[str, Mapping[str, np.ndarray]], stage: str, text: str) -> str:
    """Return the file's text, or the line that holds it where it is binary, between comments."""
    comment, folder = "#" if _suffix_for(file) == ".py" else "//", f"{file.resolve().parent}/"
    source = line_of_program(file) if is_binary(file) else _text_of(file)
    lines = [line.replace(folder, "") for fact in facts for line in fact.splitlines()]
    sign = "" if comment == "#" else f"{comment} "
    return "\n".join(
        [
            *(f"{comment} {line}".rstrip() for line in [FIRST_LINE, *lines, f"----- {file.name} -----"]),
            source,
            *(f"{sign}{line_of_arrays(name, arrays)}" for name, arrays in data.items()),
            *([f"{comment} ----- stage {stage} -----"] if text else []),
            *(f"{comment} {line}".rstrip() for line in text.replace(folder, "").splitlines()),
            "",
        ]
    )
