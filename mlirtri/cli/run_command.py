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
from mlirtri.errors import ArgumentMismatchError, did_you_mean
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
    "--check-against", "expected", metavar="FILE|PIPELINE", help="Compare with .npy, .npz or another pipeline."
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
    file, stage or pipeline the kernel comes from. --check-against takes the interpreter, too; exit status 1 where an
    element differs by more than rounding explains.
    """
    from mlirtri.cli.data_files import abstract, check_output, read_inputs, write_results
    from mlirtri.kernels.argument_text import summary

    if expected is not None and expected not in PIPELINES:
        _read(expected)  # what is wrong with the file is said before anything runs
    check_output(output)
    arrays = read_inputs(inputs)
    given = by_name(arguments)
    typed = given if start else {**abstract(arrays), **given}
    chosen = as_target(target or "cuda").emulated() if emulate else target
    kernel = compiled(file, start, typed, pipeline, chosen, schedule)
    values = data_of(kernel, arrays, given)
    result, results = results_of(kernel, values)
    for line in summary(result):
        print(line)
    if output is not None:
        write_results(with_folder(output), results)
    if expected is None:
        return 0
    difference = compared(expected, results, expected_results(file, start, expected, arrays, given))
    print(f"agrees with {expected}" if difference is None else difference)
    return int(difference is not None)


def expected_results(
    file: str, start: str | None, expected: str, arrays: Mapping[str, np.ndarray], given: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """Return the arrays of a file, or what another pipeline gives for the same arguments."""
    from mlirtri.cli.data_files import abstract

    if expected not in PIPELINES:
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
    from mlirtri.cli.data_files import typed
    from mlirtri.kernels.argument_text import data_for, device_for

    device, values = device_for(kernel.target), {}
    names = [parameter.name for parameter in kernel.interface.parameters]
    if unknown := sorted(arrays.keys() - {*names}):
        help = f"{did_you_mean(unknown[0], names)}its run-time parameters are {', '.join(names) or 'none'}"
        raise ArgumentMismatchError(f"--input {unknown[0]}: {kernel.name}() has no such parameter", help=help)
    for parameter in kernel.interface.parameters:
        name = parameter.name
        if name in arrays:
            values[name] = as_torch(typed(name, arrays[name], parameter.type).copy()).to(device)
        else:
            values[name] = data_for(name, parameter.type, given.get(name), device)
    return values


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
        names = ", ".join(PIPELINES)
        raise click.UsageError(f"--check-against {expected}: name an .npy or .npz file, or one of {names}")
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
