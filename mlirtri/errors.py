"""The errors that a user can cause: one class each, printed like compiler diagnostics.

Independent of Python's AST, MLIR and TVM: lowerings translate their locations into spans.
"""

from __future__ import annotations

import builtins
import linecache
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any


@dataclass(frozen=True)
class Span:
    """A range of the user's source: absolute file name, 1-based lines and columns, end column exclusive."""

    file: str
    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """Return the source line with a caret and tildes under the range; empty when the source cannot be read.

        A range of several lines is underlined to the end of its first one.
        """
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        width = max(1, min(self._end_of_first_line(text), len(text) + 1) - self.column)
        # Keep tabs in the padding, so that the caret is under its character in any terminal.
        padding = "".join("\t" if character == "\t" else " " for character in text[: self.column - 1])
        return f"    {text}\n    {padding}^{'~' * (width - 1)}"

    def _end_of_first_line(self, text: str) -> int:
        """Return the column after the range, or after the text of its first line where the range goes on below."""
        if not self.end_column:
            return self.column + 1
        return self.end_column if self.end_line in (None, self.line) else len(text.rstrip()) + 1


def span_of_definition(function: object) -> Span:
    """Return the position of a Python function's ``def``, which may stand below decorators."""
    code = function.__code__
    line, pattern = code.co_firstlineno, re.compile(rf"\s*(async\s+)?def\s+{re.escape(function.__name__)}\b")
    for number in range(line, line + _DECORATOR_LINES):
        if pattern.match(text := linecache.getline(code.co_filename, number)):
            return Span(code.co_filename, number, len(text) - len(text.lstrip()) + 1)
    return Span(code.co_filename, line, 1)


_DECORATOR_LINES = 100
"""Lines below the first decorator in which the ``def`` is looked for."""


@dataclass(frozen=True)
class Note:
    """A second line or fact that belongs to an error: "declared here", "in helper f called from here"."""

    message: str
    span: Span | None = None

    def __str__(self) -> str:
        if self.span is None:
            return f"  note: {self.message}"
        return f"{self.span}: note: {self.message}\n{self.span.excerpt()}".rstrip("\n")


_SHOWN_NOTES = 2
"""Notes shown at either end of a long chain."""


class KernelError(Exception):
    """Base of every error a user of mlirtri can cause."""

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        help: str | None = None,  # noqa: A002 - the word printed before it
        notes: Sequence[Note] = (),
    ):
        super().__init__(message, span, help, tuple(notes))
        self.message = message
        self.span = span
        self.help = help
        self.notes = tuple(notes)

    is_raised = False
    """Whether a `raise` of the kernel itself is the origin: what follows it in the kernel is not reached."""

    def __str__(self) -> str:
        parts = [f"{self.span}: error: {self.message}" if self.span else self.message]
        if self.span and (excerpt := self.span.excerpt()):
            parts.append(excerpt)
        if self.help:
            parts.append(f"  help: {self.help}")
        parts.extend(_folded([str(note) for note in self.notes]))
        return "\n".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.span, self.help, self.notes, dict(self.__dict__))

    def at(self, span: Span | None) -> KernelError:
        """Return this error with the span, if it had none: lowerings far from the source raise without one."""
        if self.span is None and span is not None:
            self.span = span
        return self


def _folded(notes: list[str]) -> list[str]:
    """Return notes with the middle of a long chain left out."""
    if len(notes) <= 2 * _SHOWN_NOTES + 1:
        return notes
    return [*notes[:_SHOWN_NOTES], f"  note: … {len(notes) - 2 * _SHOWN_NOTES} more", *notes[-_SHOWN_NOTES:]]


def _rebuild(kind, message, span, help_text, notes, state):
    error = KernelError.__new__(kind)
    KernelError.__init__(error, message, span, help=help_text, notes=notes)
    error.__dict__.update(state)
    return error


class SeveralErrors(KernelError):
    """Several problems, reported together."""

    def __init__(self, errors: Sequence[KernelError]):
        super().__init__("\n\n".join(str(error) for error in errors))
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n\n".join(str(error) for error in self.errors)

    def at(self, span: Span | None) -> KernelError:
        """Return this error unchanged: each part has its own span."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return SeveralErrors, (self.errors,)


def did_you_mean(name: object, known: Iterable[str], count: int = 1) -> str:
    """Return the start of a help line: the nearest (up to `count`) of the known names as a question, or nothing."""
    return offer(nearest(str(name), known, count))


def nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return up to `count` of the known names that `name` may be a misspelling of, the nearest first."""
    return get_close_matches(name, list(known), n=count, cutoff=0.65)


def offer(names: Iterable[str]) -> str:
    """Return the question of `did_you_mean` for these names; nothing when there are none."""
    near = " or ".join(repr(name) for name in names)
    return f"did you mean {near}? " if near else ""


def error_class(name: str) -> type[Exception]:
    """Return the exception class of that name, of this module or of Python; raises `AttributeError` for none.

    The name may come from a file, so it is a class that a message and a span suffice for, and nothing else.
    """
    kind = globals().get(name) or getattr(builtins, name, None) or __getattr__(name)
    if not isinstance(kind, type) or not issubclass(kind, _NAMED) or issubclass(kind, _UNNAMED):
        raise AttributeError(name)
    return kind


def name_of_error(kind: type[Exception]) -> str:
    """Return the name by which `error_class` finds a class; of a class of the user's that of what it stands for."""
    return getattr(kind, "stands_for", kind).__name__


def raise_all(errors: Sequence[KernelError]) -> None:
    """Raise the only error, or all of them together; do nothing when there is none."""
    if not errors:
        return
    raise errors[0] if len(errors) == 1 else SeveralErrors(errors)


class SourceNotAvailableError(KernelError):
    """The Python source of a function cannot be read (defined by `exec`, in a C extension, a method…)."""


class UnsupportedSyntaxError(KernelError):
    """A Python construct that kernels do not have."""


class UnknownNameError(KernelError):
    """A name, attribute or function that does not exist for a kernel."""


class KernelUnboundError(UnknownNameError, UnboundLocalError):
    """A name that is read where the path that ran has not assigned it."""


class KernelTypeError(KernelError, TypeError):
    """Operand ranks, shapes or dtypes that an operation does not take."""


class KernelValueError(KernelError, ValueError):
    """A compile-time value (an axis, a shape, a constant) that an operation does not take."""


class LoopDependenceError(KernelValueError):
    """A loop that is declared parallel, whose iterations read or write what others write."""


class NestedTooDeeplyError(KernelValueError, RecursionError):
    """Calls or expressions nested too deeply, such as a recursion without an end."""


class KernelIndexError(KernelValueError, IndexError):
    """An index outside of an array: known at compile time, or found at run time."""


class KernelKeyError(KernelValueError, KeyError):
    """A key that a dict of a kernel does not have."""

    __str__ = KernelError.__str__  # that of KeyError quotes the message


class KernelRuntimeError(KernelError, RuntimeError):
    """A `RuntimeError` that a kernel raises."""


class KernelNotImplementedError(KernelRuntimeError, NotImplementedError):
    """A `NotImplementedError` that a kernel raises."""


class KernelArithmeticError(KernelError, ArithmeticError):
    """An `ArithmeticError` that a kernel raises."""


class KernelOverflowError(KernelArithmeticError, OverflowError):
    """An `OverflowError` that a kernel raises."""


class IntegerBoundsError(KernelValueError, KernelOverflowError):
    """A Python int that the dtype of the other operand or of an array does not hold."""


class ArgumentMismatchError(KernelError, TypeError):
    """Call arguments that do not fit the kernel's signature; all mismatches are in one message."""


class StaticAssertionError(KernelError, AssertionError):
    """A `static_assert` in a kernel that is false."""


class KernelAssertionError(KernelError, AssertionError):
    """An `assert` in a kernel that is false: known at compile time, or found at run time with ``debug``."""


class ProgramAssertionError(KernelAssertionError, RuntimeError):
    """An assertion of an imported program that is false: certain at compile time, or found at run time."""


class ProgramIndexError(ProgramAssertionError, IndexError):
    """An index outside of its tensor, found at run time by an imported program."""


class ProgramDivisionError(ProgramAssertionError, ZeroDivisionError):
    """An integer that an imported program divides by zero, found at run time."""


class UnknownOptionError(KernelError, ValueError):
    """A target, pipeline, schedule, stage or setting that does not exist."""


class ParseError(KernelError):
    """IR text (MLIR or TVMScript) that does not parse."""


class UnsupportedOperationError(KernelError):
    """Operations that a lowering cannot translate, all of them, with counts and locations."""

    refused: tuple[tuple[str, tuple[Span, ...]], ...] = ()
    """Each reason with the spans of all its operations, where the lowering has looked for all of them."""


class KernelMemoryError(UnsupportedOperationError, MemoryError):
    """A tensor that does not fit into memory: known at compile time, or found when a result is allocated."""


class RedZoneError(KernelError):
    """Compiled code wrote outside of a buffer, or into one that it only reads; ``MLIRTRI_RED_ZONES`` looks for it."""


class PassFailedError(KernelError):
    """A compiler pass failed; the input IR is saved and the message has the command that reproduces it."""


class CodegenError(KernelError):
    """Scheduling or code generation failed in TVM, LLVM or nvcc."""


class CompileStoppedError(KernelError):
    """The process that compiled a kernel ended, or could not start."""


class CompileTimeoutError(CompileStoppedError, TimeoutError):
    """A kernel was not compiled within the time that `par_compile` gives each of them."""


class DeviceError(KernelError, RuntimeError):
    """A kernel was called where its device is missing, or tensors lie on different devices."""


class DeviceCheckError(KernelError, RuntimeError):
    """A CUDA kernel that the emulation ran did what a device forbids, or what has no defined result."""

    check: str = ""
    """The check that found it, by its name in Compute Sanitizer: memcheck, racecheck, initcheck or synccheck."""


class CompilerBugError(KernelError):
    """An internal error of mlirtri, with the user's line that it was lowering."""

    def __init__(self, error: BaseException, subject: str, span: Span | None = None, *, notes: Sequence[Note] = ()):
        super().__init__(
            f"mlirtri failed on {subject}: {type(error).__name__}: {error}",
            span,
            help="this is a mistake in mlirtri, not in the kernel: please report it with what MLIRTRI_DEBUG=1 shows",
            notes=notes,
        )


@dataclass(frozen=True)
class SkippedStep:
    """A schedule rule or pass that failed: the kernel was compiled without it, which costs speed, not correctness."""

    step: str
    """Name of the rule or pass."""
    kernel: str
    """Name of the function that it failed on."""
    reason: str
    span: Span | None = None
    """The user's line that the function computes."""

    def __str__(self) -> str:
        return f"{self.step} failed on {self.kernel} and was skipped: {self.reason}"


class SkippedStepWarning(UserWarning):
    """A schedule rule or pass failed and was skipped; `Kernel.warnings` has it as a `SkippedStep`."""


class LayoutWarning(UserWarning):
    """The result of a tile product lies in shared memory, because a statement cannot take it from registers."""


class NotCompiledWarning(UserWarning):
    """A function under ``torch.compile(…, backend="mlirtri")`` runs eagerly, because Dynamo could not trace it."""


class DumpError(KernelError, OSError):
    """A folder that IR should go to cannot be written."""


class ArtifactError(KernelError):
    """Files of a compiled kernel cannot be written or loaded, or are for another machine or version."""


class CacheMissError(KernelError):
    """A kernel has to be compiled although ``MLIRTRI_ASSERT_CACHE_HIT`` says that the disk cache has it."""


class CacheWarning(UserWarning):
    """The disk cache cannot be used; kernels are compiled as without one."""


class KernelDivisionError(KernelError, ZeroDivisionError):
    """Integer division by zero where the chosen semantics raises."""


_NAMED = (KernelError, ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
_UNNAMED = (UnicodeError, SeveralErrors, CompilerBugError)
"""Classes that `error_class` returns, and those of them that take more than a message."""


def __getattr__(name: str) -> Any:
    """Return the class whose base is NumPy's, which loads with it: a command that a server runs needs no NumPy."""
    if name != "KernelLinearAlgebraError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from numpy.linalg import LinAlgError

    meaning = "A matrix that is singular, or not positive definite, where the library raises."
    kind = globals()[name] = type(name, (KernelValueError, LinAlgError), {"__doc__": meaning})
    return kind
