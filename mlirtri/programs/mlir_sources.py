"""Read MLIR from text, bytecode or files, and split off the resources at the end of its text.

    {-# dialect_resources: { builtin: { weight: "0x04000000…" } } #-}

The section may have hundreds of megabytes, so it is parsed only once; a section of another form is left to MLIR's
parser, which reports the error.
"""

from __future__ import annotations

import linecache
import re
from binascii import unhexlify
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlirtri.errors import ParseError

BYTECODE = b"ML\xefR"
"""How MLIR's bytecode begins."""
TEXT, BYTES, MODULE = "<text>", "<bytecode>", "<module>"
"""What errors call a source that is no file."""
_START = re.compile(rb"^[ \t]*\{-#", re.MULTILINE)
_TOKEN = re.compile(rb'\s*(#-\}|[{}:,]|"|[\w.$-]+)')
_ALIGNMENT = 4
"""Bytes before the data of a blob, which say how it wants to lie in memory."""


def contents_of(source: object, suffixes: Sequence[str] = (".mlir", ".mlirbc")) -> tuple[bytes, str]:
    """Return a module's text or bytecode and the file that errors name; raises `ParseError`."""
    if isinstance(source, Path) or (isinstance(source, str) and _is_path(source, suffixes)):
        path = Path(source).absolute()
        linecache.checkcache(str(path))
        try:
            return path.read_bytes(), str(path)
        except OSError as problem:
            raise ParseError(f"{source} cannot be read: {problem.strerror or problem}") from None
    if isinstance(source, (bytes, bytearray, memoryview)):
        # A text read before under this name is outdated.
        linecache.cache.pop(TEXT, None)
        return bytes(source), BYTES if bytes(source[:4]) == BYTECODE else TEXT
    if isinstance(source, str):
        # Shown with errors, which quote the last text.
        linecache.cache[TEXT] = (len(source), None, source.splitlines(keepends=True), TEXT)
        return source.encode("utf-8", "surrogatepass"), TEXT
    if hasattr(source, "operation"):
        return source.operation.get_asm(binary=True, enable_debug_info=True), MODULE
    raise ParseError(
        f"a {type(source).__name__} is no MLIR", help="give its text, its bytecode, the path of a file, or an ir.Module"
    )


def _is_path(text: str, suffixes: Sequence[str]) -> bool:
    return "\n" not in text and text.endswith(tuple(suffixes))


def split_resources(text: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the text without the section of resources, line for line, and the data by key."""
    start = _START.search(text)
    if start is None:
        return text, {}
    try:
        tokens = _tokens(text, start.end())
        blobs, end = _section(tokens, text)
    except (_OtherForm, StopIteration, RecursionError, ValueError):
        return text, {}
    lines = text.count(b"\n", start.start(), end)
    return text[: start.start()] + b"\n" * lines + text[end:], blobs


class _OtherForm(Exception):
    """Raised for a section that this module cannot read."""


def _section(tokens: Iterator[tuple[bytes, int, int]], text: bytes) -> tuple[dict[str, bytes], int]:
    blobs: dict[str, bytes] = {}
    path: list[bytes] = []
    for token, begin, end in tokens:
        if token == b"#-}":
            return blobs, end
        if token == b"}":
            path = path[:-1]
            continue
        if token == b",":
            continue
        _expect(tokens, b":")
        value, start, until = next(tokens)
        if value == b"{" and len(path) < 2:
            path = [*path, token]
        elif value == b'"' and path[:1] == [b"dialect_resources"] and len(path) == 2:
            blobs[_name(text[begin:end])] = _data(text, start, until)
        elif value == b"{" or path[:1] == [b"dialect_resources"]:
            raise _OtherForm
    raise _OtherForm


def _tokens(text: bytes, position: int) -> Iterator[tuple[bytes, int, int]]:
    while match := _TOKEN.match(text, position):
        begin, position = match.start(1), match.end(1)
        if match[1] == b'"':
            position = text.index(b'"', position) + 1
        yield match[1], begin, position
    raise _OtherForm


def _expect(tokens: Iterator[tuple[bytes, int, int]], expected: bytes) -> None:
    if next(tokens)[0] != expected:
        raise _OtherForm


def _name(key: bytes) -> str:
    if b"\\" in key:
        raise _OtherForm
    return key.strip(b'"').decode()


def _data(text: bytes, begin: int, end: int) -> bytes:
    digits = memoryview(text)[begin + 1 : end - 1]
    if bytes(digits[:2]) != b"0x" or len(digits) < 2 + 2 * _ALIGNMENT:
        raise _OtherForm
    return unhexlify(digits[2 + 2 * _ALIGNMENT :])
