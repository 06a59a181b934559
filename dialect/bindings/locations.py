"""Where an operation came from: MLIR's locations to and from the user's `Span`.

Takes any MLIR location (file, named, fused, call site). Gives the one place that an error is shown at, and the names
and callers it carries. Refuses nothing: a location that leads nowhere has no span.

    loc("total"("/home/me/k.py":3:4 to :9))  ◄──►  Span("/home/me/k.py", 3, 4, 3, 9) and the name "total"
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named
from mlirtri.errors import CompilerBugError, KernelError, Note, ParseError, Span

_KINDS = (ir.FileLineColLoc, ir.NameLoc, ir.CallSiteLoc, ir.FusedLoc)
_SHOWN_BODIES = ("linalg.generic", "linalg.map", "linalg.reduce")


def span_of(location: ir.Location | None) -> Span | None:
    """The user's place behind `location`: the helper's line at a call site, the first known one of a fused location."""
    if location is None:
        return None
    location = _downcast(location)
    if isinstance(location, ir.FileLineColLoc):
        return _span_of_file(location)
    return next((span for inner in _inner(location) if (span := span_of(inner))), None)


def location_of(span: Span | None, name: str | None = None) -> ir.Location:
    """The location of `span` in the current Context, wrapped in a name when the user's variable has one."""
    if span is None:
        place = ir.Location.unknown()
    elif span.end_column is None:
        place = ir.Location.file(span.file, span.line, span.column)
    else:
        end_line = span.end_line or span.line
        place = ir.Location.file(span.file, span.line, span.column, end_line, span.end_column)
    return ir.Location.name(name, place) if name else place


def name_of(location: ir.Location | None) -> str | None:
    """The variable name that `location` carries; of a fused location the first one."""
    if location is None:
        return None
    location = _downcast(location)
    if isinstance(location, ir.NameLoc):
        return location.name_str
    return next((name for inner in _inner(location) if (name := name_of(inner))), None)


def callers_of(location: ir.Location | None) -> list[Note]:
    """One "called from here" note per call site around the place of `span_of`, innermost first."""
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
    here = [Note("called from here", span)] if span else []
    return [*callers_of(location.callee), *here, *callers_of(location.caller)]


@contextmanager
def errors_at(operation: ir.Operation) -> Iterator[None]:
    """Errors inside get the operation's place and the calls it was inlined through; unexpected ones become ours."""
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
    """Give the bodies of named linalg operations, which no text shows, the place of their operation."""
    for operation in operations_named(module, "linalg.*"):
        if operation.name in _SHOWN_BODIES or not operation.regions:
            continue
        for block in operation.regions[0].blocks:
            for argument in block.arguments:
                argument.set_location(operation.location)
            for inner in block.operations:
                inner.operation.location = operation.location


def give_places(module: ir.Module, otherwise: Span) -> None:
    """Give operations that lead nowhere the place of what they are in; the names that they carry stay."""
    spans: dict[ir.Operation, Span] = {}
    for operation in all_operations(module):
        span = span_of(operation.location)
        parent = operation.parent
        spans[operation] = span or spans.get(parent.operation if parent is not None else None, otherwise)
        if span is None:
            with module.context:
                operation.location = location_of(spans[operation], name_of(operation.location))


def parse_text(text: str, file: str, context: ir.Context) -> ir.Module:
    """A module of MLIR text; raises `ParseError` at the place that does not parse."""
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        first = error.error_diagnostics[0] if error.error_diagnostics else None
        span = span_of(first.location) if first else None
        # Text is parsed under the name "-": show the file that it came from.
        place = Span(file, span.line, span.column) if span and span.file == "-" else span or Span(file, 1, 1)
        raise ParseError(first.message if first else str(error), place) from None


def _downcast(location: ir.Location) -> ir.Location:
    """Diagnostics carry locations of the base class, which hides their fields."""
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
