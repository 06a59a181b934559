"""Source locations of operations: MLIR's locations to and from the user's `Span`.

Takes any MLIR location (file, named, fused, call site). Gives the span that an error is shown at, and the names and
callers that the location carries. Refuses nothing: an unknown location has no span.

    loc("total"("/home/me/k.py":3:4 to :9))  ◄──►  Span("/home/me/k.py", 3, 4, 3, 9) and the name "total"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named, public_functions
from mlirtri.errors import CompilerBugError, KernelError, Note, ParseError, Span

_KINDS = (ir.FileLineColLoc, ir.NameLoc, ir.CallSiteLoc, ir.FusedLoc)
_NAME = re.compile(rb"%([A-Za-z0-9_$.-]+)")
_NOT_BY_NAME = ("self", "out")
"""What a call takes besides the arguments; those of such names are called by their number."""
_SHOWN_BODIES = ("linalg.generic", "linalg.map", "linalg.reduce")


def span_of(location: ir.Location | None) -> Span | None:
    """Return the source span of `location`: the callee's at a call site, the first known one of a fused location."""
    if location is None:
        return None
    location = _downcast(location)
    if isinstance(location, ir.FileLineColLoc):
        return _span_of_file(location)
    return next((span for inner in _inner(location) if (span := span_of(inner))), None)


def location_of(span: Span | None, name: str | None = None) -> ir.Location:
    """Return `span` as a location of the current context, in a `NameLoc` where `name` is given."""
    if span is None:
        location = ir.Location.unknown()
    elif span.end_column is None:
        location = ir.Location.file(span.file, span.line, span.column)
    else:
        end_line = span.end_line or span.line
        location = ir.Location.file(span.file, span.line, span.column, end_line, span.end_column)
    return ir.Location.name(name, location) if name else location


def spans_in(operation: ir.Operation) -> list[Span]:
    """Return the distinct spans of the operations in the regions of `operation`, in order, then its own."""
    inner = [nested for region in operation.regions for block in region.blocks for nested in block.operations]
    spans = [span_of(nested.location) for nested in [*inner, operation] if nested.results]
    return list(dict.fromkeys(span for span in reversed(spans) if span))[::-1]


def name_of(location: ir.Location | None) -> str | None:
    """Return the variable name in `location`, the first one of a fused location; None without one."""
    if location is None:
        return None
    location = _downcast(location)
    if isinstance(location, ir.NameLoc):
        return location.name_str
    return next((name for inner in _inner(location) if (name := name_of(inner))), None)


_HEADED_LOOPS = ("scf.for", "scf.while", "scf.parallel", "scf.forall", "affine.for", "affine.parallel")
"""Loops that declare their variables and loop-carried values in the first line, where text has no locations."""


def callers_of(location: ir.Location | None) -> list[Note]:
    """Return one "called from here" note per call site around the span of `span_of`, innermost first."""
    if location is None:
        return []
    location = _downcast(location)
    if isinstance(location, ir.NameLoc):
        return callers_of(location.child_loc)
    if isinstance(location, ir.FusedLoc):
        return callers_of(next((inner for inner in location.locations if span_of(inner)), None))
    if not isinstance(location, ir.CallSiteLoc):
        return []
    span = span_of(location.caller)
    call_site = [Note("called from here", span)] if span else []
    return [*callers_of(location.callee), *call_site, *callers_of(location.caller)]


@contextmanager
def errors_at(operation: ir.Operation) -> Iterator[None]:
    """Give errors raised inside the location of `operation` and its call sites; others become `CompilerBugError`."""
    name, location = operation.name, operation.location
    try:
        yield
    except KernelError as error:
        if error.span is None:
            error.span = span_of(location)
            error.notes = (*error.notes, *callers_of(location))
        raise
    except Exception as error:
        raise CompilerBugError(error, name, span_of(location), notes=callers_of(location)) from error


def locate_implied_bodies(module: ir.Module) -> None:
    """Give what text has no location for that of its operation: bodies of named linalg operations, values of loops."""
    for operation in all_operations(module):
        if operation.name in _HEADED_LOOPS:
            for argument in (a for region in operation.regions for block in region.blocks for a in block.arguments):
                # Parsing locates them in the text, which is called "-".
                if (span := span_of(argument.location)) is None or span.file == "-":
                    argument.set_location(operation.location)
    for operation in operations_named(module, "linalg.*"):
        if operation.name in _SHOWN_BODIES or not operation.regions:
            continue
        for block in operation.regions[0].blocks:
            for argument in block.arguments:
                argument.set_location(operation.location)
            for inner in block.operations:
                inner.operation.location = operation.location


def give_locations(module: ir.Module, otherwise: Span) -> None:
    """Give operations without a source span the span of their parent, or `otherwise`; names are kept."""
    spans: dict[ir.Operation, Span] = {}
    for operation in all_operations(module):
        span = span_of(operation.location)
        parent = operation.parent
        spans[operation] = span or spans.get(parent.operation if parent is not None else None, otherwise)
        if span is None:
            with module.context:
                operation.location = location_of(spans[operation], name_of(operation.location))


def parse_text(text: str, file: str, context: ir.Context) -> ir.Module:
    """Parse MLIR text; raise `ParseError` at the line and column that do not parse."""
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        first = error.error_diagnostics[0] if error.error_diagnostics else None
        span = span_of(first.location) if first else None
        # Text is parsed under the name "-": show its file instead.
        shown = Span(file, span.line, span.column) if span and span.file == "-" else span or Span(file, 1, 1)
        raise ParseError(first.message if first else str(error), shown) from None


def name_file(module: ir.Module, file: str) -> None:
    """Give the locations that parsing made, in a text called "-", the name of the text's file."""
    with module.context:
        for operation in all_operations(module):
            operation.location = _in_file(operation.location, file)
            for argument in (a for region in operation.regions for block in region.blocks for a in block.arguments):
                argument.set_location(_in_file(argument.location, file))


def _in_file(location: ir.Location, file: str) -> ir.Location:
    """Return the location, below a name or not, with `file` in place of "-"."""
    location = _downcast(location)
    if isinstance(location, ir.NameLoc):
        return ir.Location.name(location.name_str, _in_file(location.child_loc, file))
    if not isinstance(location, ir.FileLineColLoc) or location.filename != "-":
        return location
    return ir.Location.file(file, location.start_line, location.start_col)


def name_arguments(module: ir.Module, text: str) -> None:
    """Restore the arguments' names from the text that a module was parsed from: MLIR keeps their locations alone."""
    lines = text.encode("utf-8", "surrogateescape").split(b"\n")
    for function in public_functions(module):
        for position, argument in enumerate(next(iter(function.regions[0].blocks)).arguments):
            span = span_of(argument.location)
            if span is None or span.file != "-" or span.line > len(lines) or name_of(argument.location):
                continue
            match = _NAME.match(lines[span.line - 1], span.column - 1)
            name = match.group(1).decode() if match else ""
            if name.isidentifier() and not iskeyword(name) and name not in (f"arg{position}", *_NOT_BY_NAME):
                with module.context:
                    argument.set_location(ir.Location.name(name, argument.location))


def _downcast(location: ir.Location) -> ir.Location:
    """Return a location of its own class: diagnostics carry the base class, which hides the fields."""
    if type(location) is not ir.Location:
        return location
    kind = next((kind for kind in _KINDS if kind.static_typeid == location.typeid), None)
    return kind(location) if kind else location


def _inner(location: ir.Location) -> Iterator[ir.Location]:
    if isinstance(location, ir.NameLoc):
        yield location.child_loc
    elif isinstance(location, ir.CallSiteLoc):
        yield location.callee
        yield location.caller
    elif isinstance(location, ir.FusedLoc):
        yield from location.locations


def _span_of_file(location: ir.FileLineColLoc) -> Span | None:
    if location.start_line == 0:
        return None
    # Column 0 means "the line"; the caret then stands under its first character.
    column = location.start_col or 1
    end = (location.end_line, location.end_col)
    if end <= (location.start_line, location.start_col):
        return Span(location.filename, location.start_line, column)
    return Span(location.filename, location.start_line, column, *end)
