"""Find the diagnostics of a document and the types of its expressions, by the stages up to `tri`: no TVM is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlirtri.compiler.records import COMPILING
from mlirtri.compiler.stage_loop import run_stages
from mlirtri.errors import KernelError, SeveralErrors, Span, UnknownNameError, did_you_mean
from mlirtri.kernels.options import Options, resolved
from mlirtri.lowering.core.interface import KernelSource
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lsp.documents import CheckedKernel, Document, read_document


@dataclass(frozen=True)
class TypedExpression:
    """An expression, or a name that is assigned, and what it is."""

    span: Span
    text: str
    """A type such as ``float32[4, 3]``, or a value that is known at compile time."""
    name: str = ""
    """The name that is assigned; empty for an expression."""


@dataclass
class Analysis:
    """What an editor shows of a document."""

    path: str
    kernels: list[CheckedKernel] = field(default_factory=list)
    unchecked: list[tuple[Span, str]] = field(default_factory=list)
    """Kernels without arguments, and a comment that gives some, as in a `Document`."""
    errors: list[KernelError] = field(default_factory=list)
    expressions: dict[Span, TypedExpression] = field(default_factory=dict)

    def at(self, line: int, column: int) -> TypedExpression | None:
        """Return the smallest expression around a position, 1-based; None where nothing is known."""
        around = [expression for expression in self.expressions.values() if _contains(expression.span, line, column)]
        return min(around, key=lambda expression: _extent(expression.span), default=None)

    def assigned(self, first: int, last: int) -> Iterator[TypedExpression]:
        """Yield the names that are assigned in a range of lines, both included."""
        for expression in self.expressions.values():
            if expression.name and first <= expression.span.line <= last:
                yield expression

    def stage(self, name: str, stage: str) -> tuple[str, str]:
        """Return the text of a stage of a kernel and its kind; raises `UnknownNameError`, or a lowering's error."""
        kernel = next((kernel for kernel in self.kernels if kernel.name == name), None)
        if kernel is None:
            known = [kernel.name for kernel in self.kernels]
            help = did_you_mean(name, known) or "kernels are checked for arguments: a comment `# mlirtri: a=f32[2,3]`"
            raise UnknownNameError(f"{self.path} has no kernel {name!r} that is checked", help=help)
        pipeline = resolved(kernel.function.options)[2]
        kind = pipeline.find(stage).kind
        until = Options(pipeline=pipeline.until(stage))
        return kernel.function.compile_with((), kernel.arguments, until).ir[stage], kind


def analyse(path: str, text: str) -> Analysis:
    """Return the diagnostics and types of a file's text."""
    document: Document = read_document(path, text)
    analysis = Analysis(path, document.kernels, document.unchecked, document.errors)
    for kernel in document.kernels:
        try:
            _lower(kernel, analysis)
        except SeveralErrors as several:
            analysis.errors += [error.at(kernel.span) for error in several.errors]
        except KernelError as error:
            analysis.errors.append(error.at(kernel.span))
    unknown = [f"name {name!r} is not defined" for name in document.half_typed]
    analysis.errors = [error for error in analysis.errors if not error.message.endswith(tuple(unknown))]
    return analysis


def stages_of(kernel: CheckedKernel) -> tuple[str, ...]:
    """Return the names of the stages that a kernel goes through."""
    return resolved(kernel.function.options)[2].names


def _lower(kernel: CheckedKernel, analysis: Analysis) -> None:
    function, signature = kernel.function, kernel.function.signature
    specialization = signature.specialize(signature.bind((), kernel.arguments, abstract=True))
    target, schedule, pipeline = resolved(function.options)
    source = KernelSource(function.__mlirtri_function__, kernel.name, specialization)
    context = CompileContext(kernel.name, target, schedule, keep_passes=False)

    def note(span: Span, value: Any, name: str) -> None:
        if span.file == analysis.path:
            # A loop's body is lowered more than once, and unrolled: the last time counts.
            analysis.expressions[span] = TypedExpression(span, value, name)

    context.on_value = note
    with COMPILING:
        run_stages(source, pipeline.until("tri"), context)


def _contains(span: Span, line: int, column: int) -> bool:
    end = (span.end_line or span.line, span.end_column or span.column + 1)
    return (span.line, span.column) <= (line, column) < end


def _extent(span: Span) -> tuple[int, int]:
    lines = (span.end_line or span.line) - span.line
    return lines, (span.end_column or span.column) - span.column
