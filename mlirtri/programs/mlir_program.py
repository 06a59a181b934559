"""`mt.from_mlir`: MLIR of any tool as a program, from text, a file, bytecode, or a module of the bindings."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from pathlib import Path
from typing import Any

from mlirtri.compiler.isolation import text_of, text_of_bytecode, try_parsing
from mlirtri.compiler.walk import COMPILING
from mlirtri.errors import KernelError, ParseError, Span
from mlirtri.kernels.kernel import shown_to_user
from mlirtri.programs.mlir_resources import split_resources
from mlirtri.programs.program import Program

BYTECODE = b"ML\xefR"
"""How MLIR's bytecode begins."""
TEXT, BYTES, MODULE = "<text>", "<bytecode>", "<module>"
"""What errors call a source that is no file."""
_NAME = re.compile(rb"%([A-Za-z0-9_$.-]+)")
_NOT_BY_NAME = ("self", "out")
"""What a call takes besides the arguments; those of such names are called by their number."""


def from_mlir(source: str | bytes | Path | Any) -> Program:
    """The program of a module of MLIR on tensors: its text, bytecode, a file of either, or an `ir.Module`.

    A string with one line that ends in ``.mlir`` or ``.mlirbc`` is a path. Raises `ParseError` at the place that does
    not parse.
    """
    try:
        data, file = contents_of(source)
        read = read_source(data, file)
        return Program("mlir", read.module, read.functions, file, read.params)
    except KernelError as error:
        raise shown_to_user(error)


@dataclass(frozen=True)
class Source:
    """A module that was read once: what is left of its text, and its large constants."""

    text: str
    file: str
    params: dict[str, Any] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    """The public functions that have a body, in order."""

    def module(self) -> Any:
        """The module in a context of its own: a walk changes it."""
        return _parse(self.text, self.file)


def contents_of(source: str | bytes | Path | Any, suffixes: Sequence[str] = (".mlir", ".mlirbc")) -> tuple[bytes, str]:
    """The bytes of a module's text or bytecode, and the file that errors are to name; raises `ParseError`."""
    if isinstance(source, Path) or (isinstance(source, str) and _is_path(source, suffixes)):
        path = Path(source).absolute()
        linecache.checkcache(str(path))
        try:
            return path.read_bytes(), str(path)
        except OSError as problem:
            raise ParseError(f"{source} cannot be read: {problem.strerror or problem}") from None
    if isinstance(source, (bytes, bytearray, memoryview)):
        # An earlier text is not this one's.
        linecache.cache.pop(TEXT, None)
        return bytes(source), BYTES if bytes(source[:4]) == BYTECODE else TEXT
    if isinstance(source, str):
        # Shown with errors; the last text stands for them all.
        linecache.cache[TEXT] = (len(source), None, source.splitlines(keepends=True), TEXT)
        return source.encode("utf-8", "surrogatepass"), TEXT
    if hasattr(source, "operation"):
        return source.operation.get_asm(binary=True, enable_debug_info=True), MODULE
    raise ParseError(
        f"a {type(source).__name__} is no MLIR", help="give its text, its bytecode, the path of a file, or an ir.Module"
    )


def read_source(
    data: bytes,
    file: str,
    operations: Sequence[str] = ("arith.constant", "ml_program.global"),
    read: Callable[[str, str], Any] | None = None,
) -> Source:
    """A module with its large constants apart; raises `ParseError`.

    `operations` are those that hold constants as their attribute ``value``. `read` parses the text where the module has
    dialects that are not always loaded.
    """
    try:
        return _read_source(data, file, operations, read or _parse)
    except RecursionError:
        raise ParseError("parts of this module are in each other too deeply", Span(file, 1, 1)) from None
    except RuntimeError as error:
        if "conversion error" not in str(error):
            raise
        # The bindings make Python strings of the names in a module.
        raise ParseError("a name in this module is not UTF-8", Span(file, 1, 1), help="names are text") from None


def _read_source(data: bytes, file: str, operations: Sequence[str], read: Callable[[str, str], Any]) -> Source:
    is_ours = file == MODULE
    if data.startswith(BYTECODE):
        data = text_of_bytecode(data, file, _bytecode_to_text)
    data, resources = split_resources(data)
    text = text_of(data, file)
    if not is_ours:
        try_parsing(read, text, file)
    with COMPILING:
        module = read(text, file)
        _name_arguments(module, text)
        return _taken_apart(module, file, resources, operations)


def _taken_apart(module: Any, file: str, resources: Mapping[str, bytes], operations: Sequence[str]) -> Source:
    from mlirtri.dialect.bindings.locations import give_locations
    from mlirtri.dialect.bindings.mlir import ir, print_complete, public_functions
    from mlirtri.lowering.importers.normalize.constants import take_constants

    params: dict[str, Any] = {}
    give_locations(module, Span("-", 1, 1))
    with module.context, ir.Location.unknown(), _errors_in(file):
        take_constants(module, params, resources, operations)
    functions = tuple(each.attributes["sym_name"].value for each in public_functions(module))
    # The parser knows no name of the file that a text is from.
    text = re.sub(r'"-":(?=\d+:\d+)', lambda _: f"{ir_string(file)}:", print_complete(module))
    return Source(text, file, params, functions)


def _name_arguments(module: Any, text: str) -> None:
    """Give arguments the names that the text has for them: a parser forgets these, but not where they stand."""
    from mlirtri.dialect.bindings.locations import name_of, span_of
    from mlirtri.dialect.bindings.mlir import ir, public_functions

    lines = text.encode("utf-8", "surrogateescape").split(b"\n")
    for function in public_functions(module):
        for at, argument in enumerate(function.regions[0].blocks[0].arguments):
            span = span_of(argument.location)
            if span is None or span.file != "-" or span.line > len(lines) or name_of(argument.location):
                continue
            found = _NAME.match(lines[span.line - 1], span.column - 1)
            name = found.group(1).decode() if found else ""
            if name.isidentifier() and not iskeyword(name) and name not in (f"arg{at}", *_NOT_BY_NAME):
                with module.context:
                    argument.set_location(ir.Location.name(name, argument.location))


def ir_string(text: str) -> str:
    """A string literal of MLIR."""
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


@contextmanager
def _errors_in(file: str) -> Iterator[None]:
    """Errors inside name the file that the module is from, which its own locations do not yet."""
    try:
        yield
    except KernelError as error:
        if error.span is not None and error.span.file == "-":
            error.span = replace(error.span, file=file)
        raise


def _is_path(text: str, suffixes: Sequence[str]) -> bool:
    return "\n" not in text and text.endswith(tuple(suffixes))


def _parse(text: str, file: str) -> Any:
    """The module of a text. Operations that nobody knows may be in functions that are not meant: rooms refuse them."""
    from mlirtri.dialect.bindings.locations import locate_implied_bodies, parse_text
    from mlirtri.dialect.definition import context_for

    context = context_for(text)
    context.allow_unregistered_dialects = True
    module = parse_text(text, file, context)
    locate_implied_bodies(module)
    return module


def _bytecode_to_text(data: bytes) -> bytes:
    """The text of bytecode, with the data of its resources."""
    from mlirtri.dialect.bindings.mlir import ir
    from mlirtri.dialect.definition import context_for

    try:
        module = ir.Module.parse(data, context_for(data))
    except ir.MLIRError as error:
        reason = error.error_diagnostics[0].message if error.error_diagnostics else str(error)
        raise ParseError(f"this bytecode cannot be read: {reason}") from None
    return module.operation.get_asm(binary=True, enable_debug_info=True)
