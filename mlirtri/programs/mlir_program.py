"""`mt.from_mlir` and `mt.from_tosa`: MLIR of any tool as a program, from text, a file, bytecode, or an `ir.Module`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mlirtri.compiler.isolation import text_of, text_of_bytecode, try_parsing
from mlirtri.compiler.records import COMPILING
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.locations import give_locations, locate_implied_bodies, name_arguments, parse_text
from mlirtri.dialect.bindings.mlir import ir, print_complete, public_functions
from mlirtri.dialect.definition import context_for
from mlirtri.errors import KernelError, ParseError, Span
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.interface import Interface
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.lowering.importers.normalize.constants import take_constants
from mlirtri.lowering.mlir_common.attribute_checks import check_attributes
from mlirtri.lowering.mlir_common.attributes import DTYPE, argument_attributes, result_attributes
from mlirtri.lowering.mlir_common.reading import symbol_name
from mlirtri.programs.mlir_sources import BYTECODE, MODULE, contents_of, split_resources
from mlirtri.programs.program import Program
from mlirtri.programs.signless import SignlessKernel


class MlirProgram(Program):
    """A program of MLIR, whose integer types may be signless."""

    results: Any = None
    """The dtypes that `from_mlir` was asked for."""

    def compile(self, entry: str | None = None, *, results: Any = None, **options: Any) -> SignlessKernel:
        """Return the kernel of a function as `Program.compile` does.

        `results` has the dtypes of its results, in order: integers of the width of signless ones, or None. Raises
        `KernelTypeError` for others.
        """
        kernel = super().compile(entry, **options)
        assert isinstance(kernel, SignlessKernel)
        if (results := self.results if results is None else results) is None:
            return kernel
        try:
            return kernel.with_results(results)
        except KernelError as error:
            hide_frames(error)
            raise

    def _interface(self, module: Any) -> Interface:
        [function] = public_functions(module)
        interface = super()._interface(module)
        types = [parameter.type for parameter in interface.parameters]
        return replace(
            interface,
            signless=_signless(types, argument_attributes(function)),
            signless_results=_signless(interface.leaves, result_attributes(function)),
        )

    def _kernel(self, *parts: Any) -> Kernel:
        return SignlessKernel(*parts)


def _signless(types: Sequence[TensorType], attributes: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    pairs = enumerate(zip(types, attributes, strict=False))
    return tuple(index for index, (of, known) in pairs if of.dtype.is_integer and DTYPE not in known)


def from_mlir(source: object, *, results: object = None) -> MlirProgram:
    """Return the program of an MLIR module on tensors: its text, bytecode, a file of either, or an `ir.Module`.

    A string with one line that ends in ``.mlir`` or ``.mlirbc`` is a path. Signless integers (`i8`) take arrays of
    either sign. `results` has a dtype for each result, or None: by default a signless result is unsigned where all
    arguments of its width are, and else signed. Raises `ParseError` with the position that does not parse.
    """
    try:
        data, file = contents_of(source)
        read = read_source(data, file)
        program = MlirProgram("mlir", read.module, read.functions, file, read.params)
        program.results = results
        return program
    except KernelError as error:
        hide_frames(error)
        raise


def from_tosa(source: object) -> Program:
    """Return the program of a TOSA module: its text, bytecode, a file of either, or an `ir.Module`.

    Raises `ParseError` with the position that does not parse.
    """
    try:
        data, file = contents_of(source, (".mlir", ".mlirbc", ".tosa"))
        read = read_source(data, file)
        return Program("tosa", read.module, read.functions, file, read.params)
    except KernelError as error:
        hide_frames(error)
        raise


@dataclass(frozen=True)
class Source:
    """A module parsed once: its text without large constants, and the constants."""

    text: str
    file: str
    params: dict[str, Any] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    """The public functions that have a body, in order."""

    def module(self) -> Any:
        """Parse the module into its own context: compiling changes it."""
        return _parse(self.text, self.file)


def read_source(
    data: bytes,
    file: str,
    operations: Sequence[str] = ("arith.constant", "ml_program.global"),
    read: Callable[[str, str], Any] | None = None,
) -> Source:
    """Parse a module with `read`; separate constants in attributes ``value`` of `operations`. Raises `ParseError`."""
    try:
        return _read_source(data, file, operations, read or _parse)
    except RecursionError:
        raise ParseError("parts of this module are in each other too deeply", Span(file, 1, 1)) from None
    except RuntimeError as error:
        if "conversion error" not in str(error):
            raise
        # The bindings decode names as UTF-8.
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
        with _errors_in(file):
            check_attributes(module)
        name_arguments(module, text)
        return _split_constants(module, file, resources, operations)


def _split_constants(module: Any, file: str, resources: Mapping[str, bytes], operations: Sequence[str]) -> Source:
    params: dict[str, Any] = {}
    give_locations(module, Span("-", 1, 1))
    with module.context, ir.Location.unknown(), _errors_in(file):
        take_constants(module, params, resources, operations)
    functions = tuple(symbol_name(function) for function in public_functions(module))
    # The parser does not know the text's file.
    text = re.sub(r'"-":(?=\d+:\d+)', lambda _: f"{ir_string(file)}:", print_complete(module))
    return Source(text, file, params, functions)


def ir_string(text: str) -> str:
    """Return a string literal of MLIR."""
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


@contextmanager
def _errors_in(file: str) -> Iterator[None]:
    try:
        yield
    except KernelError as error:
        if error.span is not None and error.span.file == "-":
            error.span = replace(error.span, file=file)
        raise


def _parse(text: str, file: str) -> Any:
    """Parse a module. Unregistered operations are kept; a lowering refuses them where they matter."""
    context = context_for(text)
    context.allow_unregistered_dialects = True
    module = parse_text(text, file, context)
    locate_implied_bodies(module)
    return module


def _bytecode_to_text(data: bytes) -> bytes:
    try:
        module = ir.Module.parse(data, context_for(data))
    except ir.MLIRError as error:
        reason = error.error_diagnostics[0].message if error.error_diagnostics else str(error)
        raise ParseError(f"this bytecode cannot be read: {reason}") from None
    return module.operation.get_asm(binary=True, enable_debug_info=True)
