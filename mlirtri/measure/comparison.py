"""Compare kernels and programs by every way to compile them, side by side with libraries: launches, times, errors.

A way that refuses the kernel is a row that says why; errors of the arguments themselves are raised.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from mlirtri.errors import KernelError
from mlirtri.kernels.kernel import Kernel
from mlirtri.language.arguments import is_torch, shown_type
from mlirtri.lowering.core.target import host_cpu_digest, host_cpu_name, host_threads
from mlirtri.lowering.core.tracebacks import public
from mlirtri.lowering.pipelines import COMPARED_PIPELINES, WITHOUT_TVM, Pipeline
from mlirtri.lowering.runtime.openmp import INSTALL, runtime_library
from mlirtri.measure import libraries
from mlirtri.measure.accuracy import accuracy
from mlirtri.measure.columns import Column, Several, columns_of
from mlirtri.measure.copies import copied, host_array, restore, written
from mlirtri.measure.eager import leaves
from mlirtri.measure.rows import Comparison, Comparisons, Row
from mlirtri.measure.subjects import KernelSubject, Subject, subjects_of
from mlirtri.measure.timing import Timed, samples, wait_for

UNTIMED = "emulated"
NO_TIMES = f"{UNTIMED}: no times"
EAGER = ("numpy", "torch")
"""The libraries that run the plain function."""


@dataclass
class Contender:
    """One row in the making."""

    row: Row
    values: dict[str, Any] = field(default_factory=dict)
    """The arguments that it runs on: the caller's own, or copies where it writes them."""
    writes: tuple[str, ...] = ()
    call: Callable[[], Any] | None = None
    result: list[np.ndarray] | None = None
    kernel: Kernel | None = None
    column: Column | None = None

    def with_written(self, names: Iterable[str]) -> list[np.ndarray] | None:
        """Return results, and the arguments of these names, as arrays on the host."""
        if self.result is None:
            return None
        return [*self.result, *(host_array(self.values[name]) for name in names)]

    @property
    def runs(self) -> bool:
        return self.row.refusal is None and self.call is not None

    @property
    def is_emulated(self) -> bool:
        """Return whether it runs on a device that is emulated, whose times say nothing of a real one."""
        return self.kernel is not None and self.kernel.target.is_emulated


@dataclass(frozen=True)
class Extras:
    """What a comparison does besides."""

    repeat: int | None = None
    beside: Sequence[str] | None = None
    profile: bool = False
    why: bool = False
    bisect: bool = False


@public
def compare(
    f: object,
    *arguments: object,
    pipelines: Sequence[str | Pipeline] = COMPARED_PIPELINES,
    target: Several = None,
    schedule: Several = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    beside: Sequence[str] | None = None,
    repeat: int | None = None,
    profile: bool = False,
    why: bool = False,
    bisect: bool = False,
    **keywords: object,
) -> Comparison | Comparisons:
    """Compile `f` by each pipeline, for each target, schedule and variant, and run the kernels on the arguments.

    `f` is a jit function, a program, a graph, a Relax module, a file of them (``"k.py::*"``, ``"net.onnx"``), or a list
    of these, which gives a `Comparisons`. `variants` are other options, by name: ``{"unrolled": {"unroll": 64}}``.
    `beside` names libraries to run beside them; by default NumPy or torch, as the kernel is written. Errors are
    measured against the plain function in float64, else as it is, else against the first row that runs;
    `Comparison.reference` says which. Timing rounds of all rows alternate. The arguments are left as they are: a call
    that writes some runs on copies, restored before each call, untimed. `profile` costs each launched kernel; `why`
    says what makes the slowest row slower than the fastest; `bisect` finds the stage and the pass that changes numbers.
    Raises `KernelTypeError` for what cannot be compared, and errors of arguments that do not fit.
    """
    columns = columns_of(pipelines, target, schedule, variants)
    extras = Extras(repeat, beside, profile or why, why, bisect)
    comparisons = [compared(subject, columns, extras) for subject in subjects_of(f, arguments, keywords, columns)]
    is_one = len(comparisons) == 1 and not isinstance(f, (list, tuple))
    return comparisons[0] if is_one else Comparisons(tuple(comparisons))


def compared(subject: Subject, columns: Sequence[Column], extras: Extras) -> Comparison:
    """Return the comparison of one subject by these columns."""
    contenders = [_compiled(subject, column) for column in columns]
    contenders += contenders_beside(subject, extras.beside)
    names, reference, expected = check_numbers(contenders, subject)
    time_rounds(contenders, subject, names, extras.repeat)
    notes = [f"{each.row.name}: {NO_TIMES}" for each in contenders if each.runs and each.is_emulated]
    notes += one_thread(contenders)
    if extras.profile:
        from mlirtri.measure.launch_costs import add_costs  # loads what costs are counted in

        notes += add_costs(contenders, subject, names)
    if extras.why:
        from mlirtri.measure.why import why_slower

        notes += why_slower(contenders)
    if extras.bisect:
        from mlirtri.measure.bisection import bisected

        notes += bisected(contenders, subject, expected, names)
    run_each(subject.resets)
    targets = ", ".join(dict.fromkeys(str(column.target) for column in columns))
    rows = tuple(contender.row for contender in contenders)
    shown = shown_arguments(subject.named)
    return Comparison(subject.name, targets, shown, reference, rows, names, machine(), tuple(notes))


def check_numbers(
    contenders: Sequence[Contender], subject: Subject
) -> tuple[tuple[str, ...], str, list[np.ndarray] | None]:
    """Give each row its errors; return the arguments that are written, the reference, and its arrays."""
    names = tuple(name for name in subject.named if any(name in contender.writes for contender in contenders))
    reference, expected = _reference(subject, contenders, names)
    _narrow_results(contenders)
    for contender in contenders:
        contender.row = _with_errors(contender, names, expected, reference)
    return names, reference, expected


def _narrow_results(contenders: Sequence[Contender]) -> None:
    """Round floating-point results of libraries to the dtypes that the kernels return.

    Numba computes ``x * 1.5`` of float32 in float64: its result is no less exact than others, and is judged like them.
    """
    kernels = (contender.result for contender in contenders if contender.kernel is not None)
    returned = next((result for result in kernels if result is not None), None)
    for contender in contenders:
        if contender.kernel is None and contender.result is not None and returned is not None:
            contender.result = libraries.narrowed(contender.result, returned)


def machine() -> str:
    """Return the processor's name and the threads that kernels may use: times of another machine say nothing."""
    return f"{host_cpu_name()} (cpu {host_cpu_digest()}), {host_threads()} threads"


def one_thread(contenders: Sequence[Contender]) -> list[str]:
    """Say which rows run on one thread because there is no OpenMP runtime, though the others may use more."""
    names = [contender.row.name for contender in contenders if _needs_openmp(contender)]
    if not names or runtime_library() is not None:
        return []
    return [f"{', '.join(names)}: one thread, since there is no OpenMP runtime: {INSTALL}"]


def _needs_openmp(contender: Contender) -> bool:
    if contender.kernel is None or contender.column is None or contender.kernel.pipeline.name not in WITHOUT_TVM:
        return False
    with contender.column.environment():
        return contender.kernel.target.kind == "cpu" and host_threads() > 1


def shown_arguments(named: Mapping[str, object]) -> tuple[str, ...]:
    """Return each argument with its type, or its value where it has none."""
    return tuple(f"{name}: {_argument(value)}" for name, value in named.items())


def _argument(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return shown_type(value)
    return repr(value)


def _compiled(subject: Subject, column: Column) -> Contender:
    try:
        with column.environment():
            kernel = subject.compile(column)
    except KernelError as error:
        return Contender(Row(column.name, refusal=str(error)))
    return contender_of(subject, column, kernel)


def contender_of(subject: Subject, column: Column, kernel: Kernel) -> Contender:
    """Return the row of a compiled kernel, which has run once; its row says why where it does not run."""
    stats = kernel.stats
    row = Row(
        column.name, kernels=stats["kernels"], bytes=stats["bytes"], compile_seconds=dict(stats["compile_seconds"])
    )
    values = _on_device_of(column, copied(subject.named) if kernel.writes else dict(subject.named))
    call = subject.call_of(kernel, values)
    return _first_run(Contender(row, values, kernel.writes, call, kernel=kernel, column=column), subject)


def _on_device_of(column: Column, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values, tensors on the device of the column's target where this machine has it."""
    if not column.target.is_cuda or not torch.cuda.is_available():
        return {name: value.cpu() if is_torch(value) and value.is_cuda else value for name, value in values.items()}
    return {name: value.to("cuda") if is_torch(value) else value for name, value in values.items()}


def contenders_beside(subject: Subject, beside: Sequence[str] | None = None) -> list[Contender]:
    """Return a row for each of these libraries, by default NumPy or torch, which has run once."""
    return [_beside(library, subject) for library in libraries.libraries_of(subject, beside)]


def _beside(library: libraries.Library, subject: Subject) -> Contender:
    values = copied(subject.named)
    try:
        call = libraries.call_of(library, subject, values)
    except Exception as error:
        # Other people's compilers raise anything.
        return Contender(Row(library.name, refusal=_first_line(error)))
    contender = _first_run(Contender(Row(library.name), values, call=call), subject)
    contender.writes = written(values, subject.named)
    return contender


def _first_run(contender: Contender, subject: Subject) -> Contender:
    assert contender.call is not None
    run_each(subject.resets)
    try:
        with torch.no_grad(), np.errstate(all="ignore"):
            contender.result = leaves(contender.call())
    except Exception as error:
        # A plain function may raise anything: record it in its row.
        how = "does not run as plain Python" if contender.row.name in EAGER else "does not run it"
        refusal = str(error) if contender.kernel is not None else f"{how}: {_first_line(error)}"
        contender.row = replace(contender.row, refusal=refusal)
    return contender


def _first_line(error: Exception) -> str:
    text = str(error) if isinstance(error, KernelError) else f"{type(error).__name__}: {error}"
    return next(iter(text.splitlines()), type(error).__name__)


def _reference(
    subject: Subject, contenders: Sequence[Contender], names: Sequence[str]
) -> tuple[str, list[np.ndarray] | None]:
    if isinstance(subject, KernelSubject):
        semantics, values = subject.specialization.semantics, subject.copies(is_wide=True)
        plain = (contender for contender in contenders if contender.row.name == semantics)
        eager = next((contender for contender in plain if contender.result is not None), None)
        if eager is not None and eager.result is not None:
            wide = _first_run(Contender(Row(""), values, call=subject.plain(values)), subject)
            if wide.result is not None and _shapes(wide.result) == _shapes(eager.result):
                return f"{semantics} in float64", wide.with_written(names)
            return semantics, eager.with_written(names)
    pipelines = [contender for contender in contenders if contender.kernel is not None]
    others = [contender for contender in contenders if contender.kernel is None]
    order = [*pipelines, *others] if isinstance(subject, KernelSubject) else [*others, *pipelines]
    first = next((contender for contender in order if contender.result is not None), None)
    if first is None:
        return "nothing, since nothing ran", None
    since = ", since the plain function does not run" if isinstance(subject, KernelSubject) else ""
    kind = f"pipeline {first.row.name!r}" if first.kernel is not None else first.row.name
    return f"{kind}{since}", first.with_written(names)


def _shapes(arrays: Sequence[np.ndarray]) -> list[list[int]]:
    return [list(array.shape) for array in arrays]


def _with_errors(contender: Contender, names: Sequence[str], expected: list[np.ndarray] | None, reference: str) -> Row:
    row, results = contender.row, contender.with_written(names)
    if results is None or expected is None:
        return row
    if _shapes(results) != _shapes(expected):
        difference = f"results have shapes {_shapes(results)}, but {reference} gives {_shapes(expected)}"
        return replace(row, difference=difference)
    errors = accuracy(results, expected)
    return replace(
        row, max_error=errors.max_error, max_relative=errors.max_relative, max_ulp=errors.max_ulp,
        cancels=errors.cancels, difference=errors.difference,
    )  # fmt: skip


def preparation(contender: Contender, subject: Subject, names: Sequence[str]) -> Callable[[], None] | None:
    """Return what restores these arguments, and what the subject keeps, before a call; None for nothing."""
    steps = [*subject.resets]
    if names:
        steps.append(partial(restore, contender.values, subject.named, names))
    return partial(run_each, steps) if steps else None


def run_each(steps: Sequence[Callable[[], None]]) -> None:
    """Call each, in order."""
    for step in steps:
        step()


def time_rounds(
    contenders: Sequence[Contender], subject: Subject, names: Sequence[str], repeat: int | None
) -> None:  # fmt: skip
    """Give the row of each contender that ran its times, from rounds in which they alternate; none if emulated."""
    running = [contender for contender in contenders if contender.runs and not contender.is_emulated]
    for contender in contenders:
        if contender.runs and contender.is_emulated:
            contender.row = replace(contender.row, untimed=UNTIMED)
    calls = [
        Timed(contender.call, preparation(contender, subject, names))
        for contender in running
        if contender.call is not None
    ]
    has_gpu = any(contender.column is not None and contender.column.target.is_cuda for contender in running)
    with torch.no_grad(), np.errstate(all="ignore"):
        rounds = samples(calls, repeat, wait=wait_for("cuda" if has_gpu and torch.cuda.is_available() else "cpu"))
    for contender, seconds in zip(running, rounds, strict=True):
        contender.row = replace(
            contender.row, run_seconds=statistics.median(seconds), run_min=min(seconds), run_max=max(seconds),
            rounds=tuple(seconds),
        )  # fmt: skip
