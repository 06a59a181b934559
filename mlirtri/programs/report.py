"""Report which operations of a program each pipeline translates, with all reasons why not, without generating code.

A program is compiled up to the last stage that can refuse an operation, refused operations are removed, and it is
compiled again, until all problems are found.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mlirtri.compiler.stage_loop import run_stages
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import all_operations, arith, ir, tensor
from mlirtri.errors import KernelError, SeveralErrors, Span, UnknownOptionError
from mlirtri.kernels.options import Options, resolved
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.pipelines import COMPARED_PIPELINES, Pipeline, pipeline_of_import

LAST_REFUSALS = {
    "linalg": "relax",
    "relax": "relax",
    "mlir": "llvmdialect",
    "poly": "llvmdialect",
    "upstream": "llvmdialect",
}
"""The stage of each pipeline after which operations are no longer translated one by one."""
MAX_ROUNDS = 32
_FRAME = ("builtin.module", "func.func", "func.return")
Position = tuple[int, int]


@dataclass(frozen=True)
class Problem:
    """One reason why a pipeline refuses a program."""

    message: str
    span: Span | None = None
    positions: tuple[Position, ...] = ()
    """Lines and columns of the operations that it is about."""


@dataclass(frozen=True)
class Row:
    """One kind of operation in the program."""

    name: str
    count: int
    span: Span | None
    """Where it stands first."""
    refused: dict[str, str | None] = field(default_factory=dict)
    """Pipeline to the reason why it does not translate this; None where an earlier problem hides whether it does."""

    def mark(self, pipeline: str) -> str:
        if pipeline not in self.refused:
            return "yes"
        return "?" if self.refused[pipeline] is None else "no"

    def cells(self, pipelines: Sequence[str]) -> tuple[str, ...]:
        return self.name, str(self.count), _short(self.span), *map(self.mark, pipelines)


@dataclass(frozen=True)
class Report:
    """The operations of a program, and which pipelines translate them."""

    entry: str
    pipelines: tuple[str, ...]
    rows: tuple[Row, ...]
    problems: dict[str, tuple[Problem, ...]]
    """All problems of each pipeline, those of no single operation among them."""

    @property
    def is_total(self) -> bool:
        """Return whether each of the pipelines translates the whole program."""
        return not any(self.problems.values())

    def to_json(self) -> str:
        facts = {**asdict(self), "is_total": self.is_total}
        return json.dumps(facts, indent=2, default=str)

    def __str__(self) -> str:
        entries = [("operation", "count", "first at", *self.pipelines)]
        entries += [row.cells(self.pipelines) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
        lines = ["  ".join(map(str.ljust, entry, widths)).rstrip() for entry in entries]
        for name, problems in self.problems.items():
            lines += [f"{name}: {_short(problem.span)}: {problem.message}" for problem in problems]
        return "\n".join(lines)


def report_on(program: object, entry: str | None, pipeline: str | None, target: str | Target | None) -> Report:
    """Return the report on the function `entry` for a pipeline, or for the three; raises `KernelError`."""
    names = tuple(filter(_with_way_to(target), COMPARED_PIPELINES)) if pipeline is None else (pipeline,)
    if unknown := [name for name in names if name not in LAST_REFUSALS]:
        raise UnknownOptionError(f"no report on pipeline {unknown[0]!r}", help=f"there is {', '.join(LAST_REFUSALS)}")
    symbol = program._symbol(program.entry_named(entry))
    problems: dict[str, tuple[Problem, ...]] = {}
    is_hidden: dict[str, bool] = {}
    for name in names:
        problems[name], is_hidden[name] = _problems(program, symbol, name, target)
    rows = [_row(*operation, problems, is_hidden) for operation in _operations(program, symbol, target)]
    return Report(program.entry_named(entry), tuple(names), tuple(rows), problems)


def _row(name: str, spans: list[Span], problems: dict[str, tuple[Problem, ...]], is_hidden: dict[str, bool]) -> Row:
    positions = {(span.line, span.column) for span in spans}
    refused: dict[str, str | None] = {pipeline: None for pipeline, hidden in is_hidden.items() if hidden}
    for pipeline, its_problems in problems.items():
        reasons = [problem.message for problem in its_problems if positions & set(problem.positions)]
        if reasons:
            refused[pipeline] = reasons[0]
    return Row(name, len(spans), next(iter(spans), None), refused)


def _operations(program: Any, symbol: str, target: Any) -> list[tuple[str, list[Span]]]:
    module = program._read()
    if not isinstance(module, ir.Module):
        pipeline = pipeline_of_import(program.source, _pipeline("mlir", target))
        first = next(stage.name for stage in pipeline.stages if stage.kind == "mlir")
        module = _walked(program, symbol, pipeline.until(first), target)
    spans: dict[str, list[Span]] = {}
    for operation in all_operations(module):
        if operation.name not in _FRAME:
            spans.setdefault(operation.name, []).append(span_of(operation.location) or Span(program.file, 1, 1))
    return sorted(spans.items())


def _problems(program: Any, symbol: str, name: str, target: Any) -> tuple[tuple[Problem, ...], bool]:
    pipeline = pipeline_of_import(program.source, _pipeline(name, target))
    pipeline = pipeline.until(LAST_REFUSALS[name])
    problems: dict[tuple[str, Span | None], Problem] = {}
    removed: set[Position] = set()
    for _ in range(MAX_ROUNDS):
        try:
            _walked(_without(program, removed), symbol, pipeline, target)
            return tuple(problems.values()), False
        except KernelError as error:
            new = {(problem.message, problem.span): problem for problem in _problems_of(error)}
        problems |= {key: problem for key, problem in new.items() if key not in problems}
        positions = {position for problem in new.values() for position in problem.positions}
        if not positions - removed:
            break
        removed |= positions
    return tuple(problems.values()), True


def _with_way_to(target: Any) -> Callable[[str], bool]:
    def has_way(name: str) -> bool:
        try:
            return bool(_pipeline(name, target).stages)
        except UnknownOptionError:
            return False

    return has_way


def _pipeline(name: str, target: Any) -> Pipeline:
    return resolved(Options(target=target, pipeline=name))[2]


def _walked(program: Any, symbol: str, pipeline: Pipeline, target: Any) -> Any:
    where, schedule, _ = resolved(Options(target=target))
    context = CompileContext(symbol, where, schedule, params=dict(program.params))
    return run_stages(program._read(), pipeline, context).ir


def _problems_of(error: KernelError) -> Iterable[Problem]:
    for single in error.errors if isinstance(error, SeveralErrors) else (error,):
        if refused := getattr(single, "refused", ()):
            yield from (_problem(f"no translation of {reason}", spans) for reason, spans in refused)
        else:
            yield _problem(
                single.message, [span for span in (single.span, *(note.span for note in single.notes)) if span]
            )


def _problem(message: str, spans: Sequence[Span]) -> Problem:
    return Problem(message, next(iter(spans), None), tuple((span.line, span.column) for span in spans))


def _short(span: Span | None) -> str:
    return f"{span.line}:{span.column}" if span else "-"


def _without(program: Any, removed: set[Position]) -> Any:
    if not removed:
        return program
    other = copy.copy(program)

    def read() -> Any:
        module = program._read()
        if isinstance(module, ir.Module):
            with module.context:
                _remove(module, removed)
        return module

    other._read = read
    return other


def _remove(module: Any, removed: set[Position]) -> None:
    for operation in reversed(all_operations(module)):
        span = span_of(operation.location)
        if span is None or (span.line, span.column) not in removed or operation.name in _FRAME:
            continue
        with ir.InsertionPoint(operation), operation.location:
            values = _stand_ins([result.type for result in operation.results])
        if values is None:
            continue
        for result, value in zip(operation.results, values, strict=True):
            result.replace_all_uses_with(value)
        operation.erase()


def _stand_ins(kinds: Sequence[Any]) -> list[Any] | None:
    numbers = (ir.IntegerType, ir.FloatType, ir.IndexType)
    stand_ins: list[Any] = []
    for kind in kinds:
        if isinstance(kind, ir.RankedTensorType) and kind.has_static_shape:
            stand_ins.append(tensor.EmptyOp(list(kind.shape), kind.element_type).result)
        elif isinstance(kind, numbers):
            stand_ins.append(arith.ConstantOp(kind, 0.0 if isinstance(kind, ir.FloatType) else 0).result)
        else:
            return None
    return stand_ins
