"""The command `mlirtri run`: one call of a kernel, on random data or on files, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
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
    start_option,
    target_option,
    with_folder,
)
from mlirtri.errors import ArgumentMismatchError, UnknownOptionError, did_you_mean
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.pipelines import INTERPRETER, PIPELINE_STAGES

if TYPE_CHECKING:
    import numpy as np

    from mlirtri.kernels.kernel import Kernel

PIPELINES = (*PIPELINE_STAGES, INTERPRETER)


@click.command()
@file_argument()
@click.option("--input", "inputs", metavar="NAME=FILE.npy", multiple=True, help="An argument's data; FILE.npz for all.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the results to this .npy or .npz.")
@click.option(
    "--check-against",
    "expected",
    metavar="FILE|PIPELINE|LIBRARY",
    help="Compare with .npy, .npz, another pipeline, numpy, torch, onnxruntime, …",
)
@start_option
@arguments_option
@pipeline_option
@target_option
@click.option("--emulate", is_flag=True, help="Run CUDA on an emulated device, which checks every access; no GPU.")
@schedule_option
def run(
    file: str, inputs: tuple[str, ...], output: Path | None, expected: str | None, start: str | None,
    arguments: Arguments, pipeline: str | None, target: str | None, emulate: bool, schedule: str | None,
) -> int:  # fmt: skip
    """Compile a kernel, run it once and print what comes out.

    FILE is what `emit` takes. Arguments without --input are random, the same for each name in every run, whichever
    file, stage or pipeline the kernel comes from. --check-against takes the interpreter and the libraries of `compare`,
    too; exit status 1 where an element differs by more than rounding explains.
    """
    from mlirtri.cli.data_files import abstract, check_output, read_inputs, write_results
    from mlirtri.kernels.argument_text import summary

    if expected is not None and not is_computed(expected):
        _read(expected)  # what is wrong with the file is said before anything runs
    if start and expected is not None and is_library(expected):
        raise UnknownOptionError(f"{expected} does not run IR: leave out --from, or name a pipeline")
    check_output(output)
    arrays = read_inputs(inputs)
    given = by_name(arguments)
    typed = given if start else {**abstract(arrays), **given}
    chosen = as_target(target or "cuda").emulated() if emulate else target
    kernel = compiled(file, start, typed, pipeline, chosen, schedule)
    arrays = typed_arrays(kernel, arrays)
    values = data_of(kernel, arrays, given)
    result, results = results_of(kernel, values)
    for line in summary(result):
        print(line)
    if output is not None:
        write_results(with_folder(output), results)
    if expected is None:
        return 0
    difference = compared(expected, results, expected_results(file, start, expected, arrays, given, results))
    print(f"agrees with {expected}" if difference is None else difference)
    return int(difference is not None)


def is_library(expected: str) -> bool:
    """Return whether this names one of the libraries that `compare` runs beside kernels."""
    from mlirtri.measure.libraries import LIBRARIES  # loads torch

    return expected not in PIPELINES and expected in LIBRARIES


def is_computed(expected: str) -> bool:
    """Return whether this names a pipeline or a library, not a file."""
    return expected in PIPELINES or is_library(expected)


def expected_results(
    file: str, start: str | None, expected: str, arrays: Mapping[str, np.ndarray], given: Mapping[str, object],
    actual: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the arrays of a file, or what another pipeline or a library gives for the same arguments.

    `actual` are the kernel's results: those of a library have their names.
    """
    from mlirtri.cli.data_files import abstract

    if is_library(expected):
        from mlirtri.measure.libraries import results_by  # loads torch

        return results_by(expected, file, {**abstract(arrays), **given}, arrays, actual)
    if not is_computed(expected):
        return _read(expected)
    typed = dict(given) if start else {**abstract(arrays), **given}
    other = compiled(file, start, typed, expected, None, None)
    return results_of(other, data_of(other, arrays, given))[1]


def compiled(file: str, start: str | None, given: dict[str, Any], pipeline: Any, target: Any, schedule: Any) -> Kernel:
    """Return the kernel that `run` calls."""
    from mlirtri.cli.kernel_files import compile_program
    from mlirtri.cli.program_files import refuse_open_sizes
    from mlirtri.sources.program_files import is_program

    kernel = compile_program(file, start, given, options_of(pipeline, target, schedule))
    if is_program(file) and not start:
        refuse_open_sizes(kernel)
    return kernel


def data_of(kernel: Kernel, arrays: Mapping[str, np.ndarray], given: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of a kernel's run-time parameters: arrays of files, values that are given, random data."""
    from mlirtri.calls.arrays import as_torch  # loads torch
    from mlirtri.kernels.argument_text import data_for, device_for

    device, arrays = device_for(kernel.target), typed_arrays(kernel, arrays)
    return {
        parameter.name: as_torch(arrays[parameter.name].copy()).to(device)
        if parameter.name in arrays
        else data_for(parameter.name, parameter.type, given.get(parameter.name), device)
        for parameter in kernel.interface.parameters
    }


def typed_arrays(kernel: Kernel, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of files with the dtypes of the kernel's parameters; raises `KernelError` where none fits."""
    from mlirtri.cli.data_files import typed

    types = {parameter.name: parameter.type for parameter in kernel.interface.parameters}
    if unknown := sorted(arrays.keys() - types.keys()):
        help = f"{did_you_mean(unknown[0], types)}its run-time parameters are {', '.join(types) or 'none'}"
        raise ArgumentMismatchError(f"--input {unknown[0]}: {kernel.name}() has no such parameter", help=help)
    return {name: typed(name, array, types[name]) for name, array in arrays.items()}


def results_of(kernel: Kernel, values: Mapping[str, object]) -> tuple[Any, dict[str, np.ndarray]]:
    """Return what a call gives, and by name the results with the arguments that it has written."""
    from mlirtri.cli.data_files import named_results
    from mlirtri.measure.copies import copied, written

    originals = copied(values)
    result = kernel(*values.values())
    changed = {name: named_results(values[name], name)[name] for name in written(values, originals)}
    return result, {**named_results(result), **changed}


def _read(expected: str) -> dict[str, np.ndarray]:
    from mlirtri.cli.data_files import SUFFIXES, read_arrays, read_packed
    from mlirtri.sources.packed_files import EXPECTED

    if (packed := read_packed(Path(expected), EXPECTED)) is not None:
        return packed
    if Path(expected).suffix not in SUFFIXES:
        from mlirtri.measure.libraries import LIBRARIES  # loads torch

        names = (*PIPELINES, *LIBRARIES)
        help = f"{did_you_mean(expected, names)}name an .npy or .npz file, or one of {', '.join(names)}"
        raise click.UsageError(f"--check-against {expected}: {help}")
    return read_arrays(Path(expected))


def compared(name: str, actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> str | None:
    """Return the first difference between results, or None where they agree."""
    from mlirtri.measure.accuracy import first_difference

    if actual.keys() != expected.keys():
        return f"differs from {name}: it has {', '.join(expected)}, and this {', '.join(actual)}"
    for key, array in actual.items():
        other = expected[key]
        if other.dtype.kind == "V":
            other = other.view(array.dtype)
        if array.shape != other.shape:
            return f"differs from {name}: {key} has the shape {array.shape}, not {other.shape}"
        if (difference := first_difference(key, array, other)) is not None:
            return f"differs from {name}: {difference}"
    return None
