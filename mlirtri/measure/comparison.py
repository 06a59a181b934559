"""One kernel, every pipeline, side by side with torch or NumPy: launches, compile time, run time, errors.

A pipeline that refuses the kernel is a row that says why; errors of the arguments themselves are raised.
"""

from __future__ import annotations

import io
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from mlirtri.errors import KernelError, KernelTypeError
from mlirtri.kernels.arguments import data_for, device_for
from mlirtri.kernels.jit import JitFunction
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options, resolved
from mlirtri.kernels.session import compile_function
from mlirtri.language.arguments import shown_type, tensor_type
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.interface import Specialization
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import public
from mlirtri.lowering.pipelines import COMPARED_PIPELINES, WITHOUT_TVM
from mlirtri.measure.accuracy import absolute_error, is_float, ulp_error
from mlirtri.measure.copies import copied, host_array, restore, written
from mlirtri.measure.eager import as_plain, leaves, widened
from mlirtri.measure.timing import Timed, samples, wait_for
from mlirtri.programs.program import Program


@dataclass(frozen=True)
class Row:
    """One way to run the kernel. Times are in seconds; None if not measured."""

    name: str
    """A pipeline, or the library that ran the plain function."""
    kernels: int | None = None
    """Launches per call."""
    bytes: int | None = None
    """Read and written by those launches."""
    compile_seconds: dict[str, float] | None = None
    """By stage: compiled anew, in a process where everything is imported."""
    run_seconds: float | None = None
    """Median over the rounds."""
    run_min: float | None = None
    run_max: float | None = None
    max_error: float | None = None
    """Largest absolute difference from the reference; infinite where one is NaN or infinite and the other is not."""
    max_ulp: float | None = None
    """The same in units in the last place of the result's dtype; None without floating-point results."""
    refusal: str | None = None
    """Why there is no kernel, or none that runs."""

    @property
    def compile_total(self) -> float | None:
        return None if self.compile_seconds is None else sum(self.compile_seconds.values())


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; prints as a table."""

    kernel: str
    target: str
    arguments: tuple[str, ...]
    reference: str
    """What the errors are measured against."""
    rows: tuple[Row, ...]
    written: tuple[str, ...] = ()
    """Arguments that a row's call writes: compared like results, and restored before each call."""

    def __getitem__(self, name: str) -> Row:
        return {row.name: row for row in self.rows}[name]

    def __rich__(self) -> Group:
        return _as_tables(self)

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=160, no_color=True, highlight=False).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def to_json(self) -> str:
        """Return strict JSON: infinity and NaN are the strings "inf" and "nan"."""
        return json.dumps(_strict(asdict(self)), indent=2)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(element) for key, element in value.items()}
    if isinstance(value, (tuple, list)):
        return [_strict(element) for element in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class _Contender:
    row: Row
    values: dict[str, Any] = field(default_factory=dict)
    """The arguments that it runs on: the caller's own, or copies where it writes them."""
    writes: tuple[str, ...] = ()
    call: Callable[[], Any] | None = None
    result: list[np.ndarray] | None = None

    def with_written(self, names: Iterable[str]) -> list[np.ndarray] | None:
        if self.result is None:
            return None
        return [*self.result, *(host_array(self.values[name]) for name in names)]


@public
def compare(
    f: JitFunction | Program,
    *arguments: Any,
    pipelines: Sequence[str] = COMPARED_PIPELINES,
    target: str | None = None,
    schedule: str | None = None,
    repeat: int | None = None,
    **keywords: Any,
) -> Comparison:
    """Compile `f`, a jit function or a program, by each pipeline and run the kernels on the arguments.

    The plain function runs beside them. Errors are measured against it run in float64, else as it is, else against the
    first pipeline, as for programs; `Comparison.reference` says which. Timing rounds of all contenders alternate. The
    arguments are left as they are: a call that writes some runs on copies, restored before each call, untimed. Raises
    `KernelTypeError` for what is no jit function or program, and errors of arguments that do not fit.
    """
    if isinstance(f, Program):
        options = {"target": target, "schedule": schedule}
        return _compared_program(f, arguments, keywords, pipelines, options, repeat)
    if not isinstance(f, JitFunction):
        help = "decorate it with @mlirtri.jit"
        raise KernelTypeError(f"compare takes a jit function or a program, not {f!r}", help=help)
    options = Options(target, None, schedule).over(f.options)
    where, _, _ = resolved(replace(options, pipeline="linalg"))
    device = device_for(where)
    named = {
        name: data_for(name, tensor_type(value), value, device) if isinstance(value, Tensor) else value
        for name, value in f.signature.bind(arguments, keywords, abstract=True).items()
    }
    specialization = f.signature.specialize(named, f.options.semantics)
    # The schedule applies to pipelines that have one; the others run without.
    variants = [
        replace(options, pipeline=name, schedule="default" if name in WITHOUT_TVM else options.schedule)
        for name in pipelines
    ]
    contenders = [_compiled(f, specialization, variant, named) for variant in variants]
    contenders.append(_plain(Row(specialization.semantics), f, copied(named)))
    contenders[-1].writes = written(contenders[-1].values, named)
    names = tuple(name for name in named if any(name in contender.writes for contender in contenders))
    reference, expected = _reference(_plain(Row(""), f, widened(named)), contenders, names)
    return _measured(f.__name__, contenders, named, names, (reference, expected), repeat, where)


def _compared_program(
    program: Program,
    arguments: Sequence[Any],
    keywords: dict[str, Any],
    pipelines: Sequence[str],
    options: dict[str, Any],
    repeat: int | None,
) -> Comparison:
    """Compare the pipelines with the first one that runs: a program has no plain function."""
    rows = [_program_kernel(program, name, options) for name in pipelines]
    kernels = [kernel for _, kernel in rows if kernel is not None]
    where, _, _ = resolved(Options(options["target"], "linalg", options["schedule"]))
    name, device, named = program.functions[0], device_for(where), {}
    if kernels:
        parameters = kernels[0].interface.parameters
        given = kernels[0].ordered(arguments, keywords)
        pairs = zip(parameters, given, strict=True)
        named = {parameter.name: data_for(parameter.name, parameter.type, value, device) for parameter, value in pairs}
        name = kernels[0].name
    contenders = [
        _Contender(row) if kernel is None else _kernel_run(row, kernel, named, list(named)) for row, kernel in rows
    ]
    names = tuple(name for name in named if any(name in contender.writes for contender in contenders))
    first = next((contender for contender in contenders if contender.result is not None), None)
    reference = "nothing, since nothing ran" if first is None else f"pipeline {first.row.name!r}"
    expected = None if first is None else first.with_written(names)
    return _measured(name, contenders, named, names, (reference, expected), repeat, where)


def _program_kernel(program: Program, pipeline: str, options: dict[str, Any]) -> tuple[Row, Kernel | None]:
    schedule = "default" if pipeline in WITHOUT_TVM else options["schedule"]
    try:
        # Twice, as in `_compiled`.
        chosen = {"pipeline": pipeline, "target": options["target"], "schedule": schedule}
        _, kernel = [program.anew().compile(**chosen) for _ in range(2)]
    except KernelError as error:
        return Row(pipeline, refusal=str(error)), None
    if kernel.interface.states:
        help = "compare a program whose results follow from its arguments"
        raise KernelTypeError("this program keeps values between calls, and compare calls it many times", help=help)
    return Row(pipeline), kernel


def _measured(
    name: str,
    contenders: Sequence[_Contender],
    named: dict[str, Any],
    names: tuple[str, ...],
    reference: tuple[str, list[np.ndarray] | None],
    repeat: int | None,
    target: Target,
) -> Comparison:
    """Return the comparison, after the errors from the reference and the times have been measured."""
    for contender in contenders:
        contender.row = _with_errors(contender, names, reference[1], reference[0])
    _time(contenders, named, names, repeat, device_for(target))
    shown = tuple(f"{name}: {_argument(value)}" for name, value in named.items())
    rows = tuple(contender.row for contender in contenders)
    return Comparison(name, str(target), shown, reference[0], rows, names)


def _argument(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return shown_type(value)
    return repr(value)


def _compiled(f: JitFunction, specialization: Specialization, options: Options, named: dict[str, Any]) -> _Contender:
    row = Row(options.pipeline)
    try:
        # Twice, for the first compile of a process also imports lowerings and fills tables; each with an empty cache.
        function = f.__mlirtri_function__
        _, kernel = [compile_function(function, specialization, options, {}).kernel for _ in range(2)]
    except KernelError as error:
        return _Contender(replace(row, refusal=str(error)))
    return _kernel_run(row, kernel, named, [parameter.name for parameter in specialization.tensors])


def _kernel_run(row: Row, kernel: Kernel, named: dict[str, Any], names: Sequence[str]) -> _Contender:
    """Return the contender that calls this kernel on the arguments of these names."""
    stats = kernel.stats
    row = replace(row, kernels=stats["kernels"], bytes=stats["bytes"], compile_seconds=dict(stats["compile_seconds"]))
    values = copied(named) if kernel.writes else named
    arguments = [values[name] for name in names]
    return _first_run(_Contender(row, values, kernel.writes, lambda: kernel(*arguments)))


def _plain(row: Row, f: JitFunction, values: dict[str, Any]) -> _Contender:
    return _first_run(_Contender(row, values, call=as_plain(f, values)))


def _first_run(contender: _Contender) -> _Contender:
    assert contender.call is not None
    try:
        with torch.no_grad(), np.errstate(all="ignore"):
            contender.result = leaves(contender.call())
    except Exception as error:
        # A plain function may raise anything: record it in its row.
        refusal = str(error) if isinstance(error, KernelError) else f"{type(error).__name__}: {error}"
        if contender.row.compile_seconds is None:
            refusal = f"does not run as plain Python: {refusal.splitlines()[0]}"
        contender.row = replace(contender.row, refusal=refusal)
    return contender


def _reference(
    wide: _Contender, contenders: Sequence[_Contender], names: Sequence[str]
) -> tuple[str, list[np.ndarray] | None]:
    eager = contenders[-1]
    if eager.result is not None:
        if wide.result is not None and _shapes(wide.result) == _shapes(eager.result):
            return f"{eager.row.name} in float64", wide.with_written(names)
        return eager.row.name, eager.with_written(names)
    for contender in contenders:
        if contender.result is not None:
            reference = f"pipeline {contender.row.name!r}, since the plain function does not run"
            return reference, contender.with_written(names)
    return "nothing, since nothing ran", None


def _shapes(arrays: Sequence[np.ndarray]) -> list[list[int]]:
    return [list(array.shape) for array in arrays]


def _with_errors(contender: _Contender, names: Sequence[str], expected: list[np.ndarray] | None, reference: str) -> Row:
    row, results = contender.row, contender.with_written(names)
    if results is None or expected is None:
        return row
    if _shapes(results) != _shapes(expected):
        refusal = f"results have shapes {_shapes(results)}, but {reference} gives {_shapes(expected)}"
        return replace(row, refusal=refusal)
    pairs = list(zip(results, expected, strict=True))
    ulps = [ulp_error(actual, exact) for actual, exact in pairs if is_float(actual)]
    max_error = max((absolute_error(actual, exact) for actual, exact in pairs), default=0.0)
    return replace(row, max_error=max_error, max_ulp=max(ulps, default=None))


def _time(
    contenders: Sequence[_Contender], named: dict[str, Any], names: Sequence[str], repeat: int | None, device: str
) -> None:
    running = [(runner, runner.call) for runner in contenders if runner.row.refusal is None and runner.call is not None]
    calls = [Timed(call, partial(restore, runner.values, named, names) if names else None) for runner, call in running]
    with torch.no_grad(), np.errstate(all="ignore"):
        rounds = samples(calls, repeat, wait=wait_for(device))
    for (contender, _), seconds in zip(running, rounds, strict=True):
        times = {"run_seconds": statistics.median(seconds), "run_min": min(seconds), "run_max": max(seconds)}
        contender.row = replace(contender.row, **times)


_HEADINGS = ("", "kernels", "bytes", "compile ms", "run", "min … max", "max error", "max ulp")


def _as_tables(comparison: Comparison) -> Group:
    title = f"{comparison.kernel}({', '.join(comparison.arguments)}) on {comparison.target}"
    table = Table(box=None, pad_edge=False)
    lines = [_cells(row) for row in comparison.rows]
    shown = [position for position in range(len(_HEADINGS)) if position == 0 or any(line[position] for line in lines)]
    for position in shown:
        table.add_column(_HEADINGS[position], justify="right" if position else "left", no_wrap=True)
    for line in lines:
        table.add_row(*(line[position] for position in shown))
    # A column of sentences would squeeze the numbers.
    refusals = [f"{row.name}: {escape(row.refusal)}" for row in comparison.rows if row.refusal]
    also = f", of results and of what is written to {', '.join(comparison.written)}" if comparison.written else ""
    notes = [f"errors against {escape(comparison.reference)}{escape(also)}", *refusals]
    return Group(escape(title), table, "", _compile_table(comparison.rows), "", *notes)


def _cells(row: Row) -> list[str]:
    seconds = row.compile_total
    spread = "" if row.run_min is None else f"{_shown_seconds(row.run_min)} … {_shown_seconds(row.run_max)}"
    return [
        row.name,
        _number(row.kernels),
        _number(row.bytes),
        "" if seconds is None else f"{seconds * 1e3:.1f}",
        _shown_seconds(row.run_seconds),
        spread,
        "" if row.max_error is None else f"{row.max_error:.2g}",
        "" if row.max_ulp is None else f"{row.max_ulp:.1f}",
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _shown_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _compile_table(rows: tuple[Row, ...]) -> Table:
    compiled = [row for row in rows if row.compile_seconds]
    stages = list(dict.fromkeys(stage for row in compiled for stage in row.compile_seconds or ()))
    table = Table(box=None, pad_edge=False)
    table.add_column("compile ms", no_wrap=True)
    for stage in stages:
        table.add_column(stage, justify="right", no_wrap=True)
    for row in compiled:
        seconds = row.compile_seconds or {}
        table.add_row(row.name, *(f"{seconds[stage] * 1e3:.1f}" if stage in seconds else "" for stage in stages))
    return table
