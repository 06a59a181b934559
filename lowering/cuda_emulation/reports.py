"""What the emulated device reports, as errors on the kernel's line in Python."""

from __future__ import annotations

import ctypes
import linecache
from collections.abc import Callable, Mapping, Sequence

from mlirtri.errors import DeviceCheckError, Note, Span
from mlirtri.lowering.cuda_emulation.translation import KernelText, kernels_of, python_line

_Three = ctypes.c_uint32 * 3


class Report(ctypes.Structure):
    """The first failed check of a call: the struct `Report` of ``device/runtime.hpp``."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in (
            "failure", "is_write", "other_is_write", "memory", "argument", "line", "other_line", "threads",
            "all_threads",
        )),
        *((name, _Three) for name in ("block", "thread", "other_thread", "other_block")),
        *((name, ctypes.c_int64) for name in ("offset", "bytes", "extent")),
        *((name, ctypes.c_uint64) for name in ("place", "other_place")),
        ("buffer", ctypes.c_char * 64),
        ("kernel", ctypes.c_char * 128),
    )  # fmt: skip


GLOBAL, SHARED, LOCAL = 1, 2, 3
"""Values of `memory`."""


def error_of(
    report: Report, source: str, spans: Mapping[str, Sequence[Span]], line_of: Callable[[int], int | None]
) -> DeviceCheckError:
    """Return the error of a report; `spans` has the Python expressions that each kernel computes, its own last."""
    return _Description(report, source, spans, line_of).error()


class _Description:
    def __init__(
        self, report: Report, source: str, spans: Mapping[str, Sequence[Span]], line_of: Callable[[int], int | None]
    ):
        self.report, self.source, self.line_of = report, source, line_of
        self.name = report.kernel.decode()
        self.kernel = kernels_of(source).get(self.name, KernelText(self.name, (), 1))
        self.spans = spans.get(self.name, ())

    def error(self) -> DeviceCheckError:
        check, described, help_text = _FAILURES[self.report.failure]
        line = self.report.line or self.line_of(self.report.place)
        other = self.report.other_line or (self.line_of(self.report.other_place) if self.report.other_place else None)
        notes = [self.note("CUDA source", line), self.note("the other one", other)]
        known = [note for note in notes if note is not None]
        sentence = described.format(case=self) if isinstance(described, str) else described(self)
        message = f"{check}: kernel {self.name}: {sentence}"
        error = DeviceCheckError(message, self.span(line), help=help_text, notes=known)
        error.check = check
        return error

    def span(self, line: int | None) -> Span | None:
        """Return the Python expression that a line of the CUDA source computes, or the kernel's own."""
        location = python_line(self.source, line or self.kernel.last_line)
        # Text to read, from which a source may have been edited, has the names of files without their folders.
        files = [span.file for span in self.spans if location and span.file.endswith(location[0])]
        on_line = [span for span in self.spans if files and (span.file, span.line) == (files[0], location[1])]
        if on_line or location is None:
            return (on_line or [None])[-1]
        file = files[0] if files else location[0]
        text = linecache.getline(file, location[1])
        return Span(file, location[1], len(text) - len(text.lstrip()) + 1)

    def note(self, what: str, line: int | None) -> Note | None:
        lines = self.source.splitlines()
        if line is None or not 0 < line <= len(lines):
            return None
        return Note(f"{what}, line {line} of stage cuda: {lines[line - 1].strip()[:_SHOWN]}")

    @property
    def thread(self) -> str:
        return _thread(self.report.thread, self.report.block)

    @property
    def other_thread(self) -> str:
        report = self.report
        is_same = list(report.other_block) == list(report.block)
        return _thread(report.other_thread, None if is_same else report.other_block)

    @property
    def buffer(self) -> str:
        """Return the name of the buffer that is accessed, and where in it."""
        report = self.report
        if report.memory == SHARED:
            return f"shared memory {report.buffer.decode()!r} at byte {report.offset} of {report.extent}"
        if report.memory == GLOBAL:
            names = self.kernel.parameters
            name = names[report.argument] if report.argument < len(names) else f"argument {report.argument}"
            return f"global memory {name!r} at byte {report.offset} of {report.extent}"
        if report.memory == LOCAL:
            return f"a local or shared array at index {report.offset}"
        return "memory of no buffer"

    @property
    def did(self) -> str:
        return "writes" if self.report.is_write else "reads"


_SHOWN = 160
"""Characters of a line of CUDA source in a note."""


def _thread(thread: Sequence[int], block: Sequence[int] | None) -> str:
    shown = f"thread ({', '.join(map(str, thread))})"
    return shown if block is None else f"{shown} of block ({', '.join(map(str, block))})"


def _out_of_bounds(case: _Description) -> str:
    size = f"{case.report.bytes} bytes of " if case.report.bytes else ""
    return f"{case.thread} {case.did} {size}{case.buffer}"


def _misaligned(case: _Description) -> str:
    return f"{_out_of_bounds(case)}, which is no multiple of {case.report.bytes}"


def _race(case: _Description) -> str:
    did = "wrote" if case.report.other_is_write else "read"
    blocks = list(case.report.block) == list(case.report.other_block)
    between = "with no barrier between" if blocks else "in another block of the same launch"
    other = f"which {case.other_thread} {did}, {between}"
    return f"{case.thread} {case.did} {case.buffer}, {other}"


def _uninitialized(case: _Description) -> str:
    where = "in this block" if case.report.memory == SHARED else "in this call"
    return f"{case.thread} reads {case.buffer}, which nothing has written {where}"


def _barrier_missed(case: _Description) -> str:
    report = case.report
    counts = f"{report.threads} of {report.all_threads} threads of block ({', '.join(map(str, report.block))})"
    return f"{counts} wait at a barrier that {_thread(report.other_thread, None)} has missed"


def _barriers_differ(case: _Description) -> str:
    other = f"{_thread(case.report.other_thread, None)} waits at another one"
    return f"{case.thread} waits at a barrier, and {other}"


_FAILURES: Mapping[int, tuple[str, str | Callable[[_Description], str], str | None]] = {
    1: ("memcheck", _out_of_bounds, "check the index against the sizes of the buffer"),
    2: ("memcheck", _misaligned, "a vector of several elements begins at a multiple of its size"),
    3: ("racecheck", _race, "put a barrier between the two, or let one thread do both"),
    4: ("initcheck", _uninitialized, "write it first, in a thread that the reader waits for"),
    5: ("racecheck", "{case.thread} {case.did} {case.buffer}, whose asynchronous copy {case.other_thread} has not "
        "waited for", "wait for the group of the copy, then for the block's other threads"),
    6: ("synccheck", "{case.thread} ends without waiting for its asynchronous copy to {case.buffer}",
        "commit the copy, and wait for its group"),
    7: ("synccheck", _barrier_missed, "let all threads of the block reach the barrier"),
    8: ("synccheck", _barriers_differ, "let all threads of the block reach the same barrier"),
    9: ("synccheck", "{case.thread} waits for lanes of its warp that do not take part",
        "let all lanes of the mask reach the same instruction"),
    10: ("memcheck", "its shared arrays take {case.report.bytes} bytes, of {case.report.extent} that a block has",
         "use smaller tiles"),
    11: ("memcheck", "{case.thread} stops at a trap", None),
    12: ("synccheck", "{case.thread} executes an instruction whose mask lacks a lane that takes part",
         "name all lanes that execute the instruction, or whose values it takes"),
    13: ("synccheck", "{case.thread} ends without waiting for its product that reads {case.buffer}",
         "commit the products, and wait for their group"),
    14: ("racecheck", "{case.thread} writes {case.buffer}, which a product of {case.other_thread}, which has not "
         "waited for it, reads", "wait for the group of the product, then for the block's other threads"),
    15: ("racecheck", "{case.thread} starts a product that reads {case.buffer}, which {case.other_thread} wrote with "
         "no fence.proxy.async after it", "put the fence between the write and the barrier"),
}  # fmt: skip
"""By the number of a failure in ``device/runtime.hpp``: the check of Compute Sanitizer, the sentence, the help."""
