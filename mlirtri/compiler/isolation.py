"""Parse untrusted MLIR in another process first: MLIR's parser recurses, and can crash the process.

A cheap scan finds brackets nested too deeply; for all else another process parses first, in bounded time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mlirtri.dialect.bindings.locations import give_locations
from mlirtri.dialect.bindings.mlir import print_complete
from mlirtri.errors import ParseError, Span
from mlirtri.lowering.toolchain.worker_process import WORKER, Limits, ProcessDied

DEEPEST = 400
"""Brackets inside each other. A parser of 8 MiB of stack stands a few thousand."""
MAX_DIGITS = 4096
"""Of a number: reading one takes time with the square of its digits."""
SECONDS, SECONDS_PER_MEGABYTE = 6.0, 10.0
"""What parsing may take; a hundred thousand operations are six megabytes, and need three seconds."""
BYTES, BYTES_PER_BYTE = 8 << 30, 60
"""Address space that parsing may take, of which a gigabyte is the libraries."""

_TOKEN = re.compile(
    rb'(?P<quote>")|//[^\n]*|->|[<>=]=|(?P<open>[(\[{<])|(?P<close>[)\]}>])'
    rb"|(?P<number>[0-9]{%d})|(?P<minus>(?:-\s*){64})|(?P<nul>\0)" % (MAX_DIGITS + 1)
)
_STRING_END = re.compile(rb'["\n]|\\.', re.DOTALL)
_PROBLEMS = {
    "number": (f"this number has more than {MAX_DIGITS} digits", None),
    "minus": ("this has 64 signs after each other", None),
    "nul": ("this is a NUL byte", "MLIR's text has none; bytecode begins with the bytes 'ML', 0xEF, 'R'"),
}


def text_of(data: bytes, file: str) -> str:
    """Return the text of `data`, nested no deeper than MLIR's parser can recurse; raises `ParseError`."""
    _check_tokens(data, file)
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        where = _span_at(data, problem.start, file)
        raise ParseError(f"this is not UTF-8: byte 0x{data[problem.start]:02x}", where) from None


def try_parsing(read: Callable[[str, str], object], text: str, file: str) -> None:
    """Call `read`, a module-level function, in another process first; raises `ParseError` only if that crashes."""
    try:
        WORKER.ask(_limits(len(text)), _parse_and_print, read, text, file)
    except ProcessDied as reason:
        raise ParseError(f"MLIR's parser {reason} on this text", Span(file, 1, 1), help=_help(reason)) from None


def text_of_bytecode(data: bytes, file: str, convert: Callable[[bytes], bytes]) -> bytes:
    """Convert bytecode to text by `convert`, a module-level function, in another process; raises `ParseError`."""
    try:
        return WORKER.ask(_limits(len(data)), _converted, convert, data)
    except ProcessDied as reason:
        message = f"MLIR's reader of bytecode {reason} on these bytes"
        raise ParseError(message, Span(file, 1, 1), help=_help(reason)) from None
    except ParseError as error:
        raise error.at(Span(file, 1, 1)) from None


def _check_tokens(data: bytes, file: str) -> None:
    depth = position = 0
    while token := _TOKEN.search(data, position):
        kind, position = token.lastgroup, token.end()
        if kind == "quote":
            position = _end_of_string(data, position)
        elif kind == "open":
            depth += 1
            if depth > DEEPEST:
                where = _span_at(data, token.start(), file)
                raise ParseError(f"this is more than {DEEPEST} brackets deep", where, help="name inner parts before")
        elif kind == "close":
            depth = max(depth - 1, 0)
        elif kind is not None:
            message, help = _PROBLEMS[kind]
            raise ParseError(message, _span_at(data, token.start(), file), help=help)


def _end_of_string(data: bytes, position: int) -> int:
    """Return the position after a string's closing quote, or of the line's end; a regular expression backtracks."""
    return next((match.end() for match in _STRING_END.finditer(data, position) if match[0][:1] != b"\\"), len(data))


def _span_at(data: bytes, position: int, file: str) -> Span:
    before = data[:position]
    return Span(file, before.count(b"\n") + 1, position - (before.rfind(b"\n") + 1) + 1)


def _limits(size: int) -> Limits:
    return Limits(SECONDS + SECONDS_PER_MEGABYTE * size / 2**20, BYTES + BYTES_PER_BYTE * size)


def _help(reason: BaseException) -> str:
    if "seconds" in str(reason):
        return "attributes that stand for each other many times grow without end; make the text smaller"
    return "the text is damaged, deeply nested through its aliases, or needs too much memory"


def _converted(convert: Callable[[bytes], bytes], data: bytes) -> bytes:
    try:
        return convert(data)
    except (RuntimeError, ValueError) as error:  # the bindings decode names as UTF-8
        raise ParseError(f"this bytecode cannot be read: {error}") from None


def _parse_and_print(read: Callable[[str, str], object], text: str, file: str) -> None:
    try:
        module = read(text, file)
        give_locations(module, Span(file, 1, 1))
        print_complete(module)
    except (ParseError, RuntimeError, ValueError):
        return
