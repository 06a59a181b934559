"""The Language Server Protocol over stdin and stdout: an editor's requests, answered from the analysis of a document.

Diagnostics while typing; hover and inlay hints with the type of what the cursor is on and of each name; a code lens
above each kernel whose commands open the IR of its stages (`COMMAND`: URI, kernel, stage).
Positions of the protocol count lines and UTF-16 units from 0, spans of errors lines and characters from 1.
"""

from __future__ import annotations

import tempfile
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from mlirtri.errors import KernelError, Span
from mlirtri.lsp.analysis import Analysis, analyse, stages_of

COMMAND = "mlirtri.stage"
"""The command that opens the IR of a stage."""
_ENDINGS = {"mlir": ".mlir", "tvmscript": ".py", "python": ".txt", "asm": ".s", "llvm": ".ll", "cuda": ".cu"}


class KernelServer(LanguageServer):
    """The server and the newest analysis of each open document."""

    def __init__(self) -> None:
        super().__init__("mlirtri", version("mlirtri"))
        self._analyses: dict[str, Analysis] = {}
        self._sources: dict[str, str] = {}
        self._lock = threading.RLock()

    def analysis(self, uri: str) -> Analysis:
        """Return the analysis of the document as it is now."""
        source = self.workspace.get_text_document(uri).source
        with self._lock:
            if self._sources.get(uri) != source:
                self._analyses[uri] = analyse(path_of(uri), source)
                self._sources[uri] = source
            return self._analyses[uri]

    def forget(self, uri: str) -> None:
        """Drop the analysis of a document that is closed."""
        with self._lock:
            self._sources.pop(uri, None)
            self._analyses.pop(uri, None)

    def range_of(self, uri: str, span: Span) -> lsp.Range:
        """Return a span of a document in the units of the protocol; all of the line where it has no end."""
        lines = self.workspace.get_text_document(uri).source.splitlines()
        line = min(max(span.line - 1, 0), max(len(lines) - 1, 0))
        end_line = min((span.end_line or span.line) - 1, max(len(lines) - 1, 0))
        text, end_text = (lines[number] if lines else "" for number in (line, end_line))
        end_column = (span.end_column or len(end_text) + 1) - 1
        start = lsp.Position(line, _units(text[: span.column - 1]))
        return lsp.Range(start, lsp.Position(end_line, _units(end_text[:end_column])))


def path_of(uri: str) -> str:
    """Return the file of a URI; a document that was never saved has its name."""
    parts = urllib.parse.urlparse(uri)
    return urllib.request.url2pathname(parts.path) if parts.scheme == "file" else uri


def new_server() -> KernelServer:
    """Return a server that answers the requests named in this file's docstring."""
    server = KernelServer()
    for feature in (lsp.TEXT_DOCUMENT_DID_OPEN, lsp.TEXT_DOCUMENT_DID_CHANGE):
        server.feature(feature)(publish)
    server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)(publish_all)
    server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)(close)
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(hover)
    server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)(inlay_hints)
    server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)(code_lenses)
    server.command(COMMAND)(server.thread()(open_stage))
    return server


def publish(server: KernelServer, parameters: object) -> None:
    """Send the diagnostics of a document that was opened or changed."""
    _publish(server, parameters.text_document.uri)


def publish_all(server: KernelServer, parameters: lsp.DidSaveTextDocumentParams) -> None:
    """Send the diagnostics of all open documents: they may import the one that was saved."""
    for uri in list(server.workspace.text_documents):
        server.forget(uri)
        _publish(server, uri)


def _publish(server: KernelServer, uri: str) -> None:
    errors = server.analysis(uri).errors
    diagnostics = [_diagnostic(server, uri, error) for error in errors]
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))


def close(server: KernelServer, parameters: lsp.DidCloseTextDocumentParams) -> None:
    """Clear the diagnostics of a document that is closed."""
    uri = parameters.text_document.uri
    server.forget(uri)
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


def hover(server: KernelServer, parameters: lsp.HoverParams) -> lsp.Hover | None:
    """Return the type, or the value at compile time, of the smallest expression at the cursor."""
    uri = parameters.text_document.uri
    expression = server.analysis(uri).at(*_position(server, uri, parameters.position))
    if expression is None:
        return None
    shown = f"{expression.name}: {expression.text}" if expression.name else expression.text
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, f"```\n{shown}\n```")
    return lsp.Hover(content, server.range_of(uri, expression.span))


def inlay_hints(server: KernelServer, parameters: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Return the type of each name that is assigned in the range, after the name."""
    uri, shown = parameters.text_document.uri, parameters.range
    names = server.analysis(uri).assigned(shown.start.line + 1, shown.end.line + 1)
    kind = lsp.InlayHintKind.Type
    return [lsp.InlayHint(server.range_of(uri, name.span).end, f": {name.text}", kind=kind) for name in names]


def code_lenses(server: KernelServer, parameters: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """Return a command per stage above each kernel; above an unchecked one, the comment that would have it checked."""
    uri = parameters.text_document.uri
    lenses, seen = [], set()
    for span, comment in server.analysis(uri).unchecked:
        # A command without a name is text.
        lenses.append(lsp.CodeLens(server.range_of(uri, span), lsp.Command(f"not checked; write above: {comment}", "")))
    for kernel in server.analysis(uri).kernels:
        if kernel.name in seen:
            continue
        seen.add(kernel.name)
        range_of_kernel = server.range_of(uri, kernel.span)
        commands = [lsp.Command(stage, COMMAND, arguments=[uri, kernel.name, stage]) for stage in stages_of(kernel)]
        lenses += [lsp.CodeLens(range_of_kernel, command) for command in commands]
    return lenses


def open_stage(server: KernelServer, uri: str, name: str, stage: str) -> str | None:
    """Compile a kernel, open the text of a stage in the editor and return it; an error is shown as a message."""
    analysis = server.analysis(uri)
    try:
        text, kind = analysis.stage(name, stage)
    except KernelError as error:
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, str(error)))
        return None
    folder = Path(tempfile.mkdtemp(prefix="mlirtri-stage-"))
    file = folder / f"{name}.{stage}{_ENDINGS.get(kind, '.txt')}"
    file.write_text(text, encoding="utf-8")
    server.window_show_document(lsp.ShowDocumentParams(file.as_uri(), take_focus=False))
    return text


def _diagnostic(server: KernelServer, uri: str, error: KernelError) -> lsp.Diagnostic:
    path = path_of(uri)
    spans = [span for span in (error.span, *(note.span for note in error.notes)) if span is not None]
    span = next((span for span in spans if span.file == path), Span(path, 1, 1))
    message = error.message if not error.help else f"{error.message}\nhelp: {error.help}"
    related = list(_related(error, span))
    return lsp.Diagnostic(
        server.range_of(uri, span), message, lsp.DiagnosticSeverity.Error, type(error).__name__, source="mlirtri",
        related_information=related or None,
    )  # fmt: skip


def _related(error: KernelError, shown: Span) -> Iterator[lsp.DiagnosticRelatedInformation]:
    notes = [(error.message, error.span), *((note.message, note.span) for note in error.notes)]
    for message, span in notes:
        if span is None or span == shown or not Path(span.file).is_absolute():
            continue
        start = lsp.Position(span.line - 1, span.column - 1)
        end = lsp.Position((span.end_line or span.line) - 1, (span.end_column or span.column + 1) - 1)
        yield lsp.DiagnosticRelatedInformation(lsp.Location(Path(span.file).as_uri(), lsp.Range(start, end)), message)


def _position(server: KernelServer, uri: str, position: lsp.Position) -> tuple[int, int]:
    """Return line and column of a position, in characters from 1."""
    lines = server.workspace.get_text_document(uri).source.splitlines()
    text = lines[position.line] if position.line < len(lines) else ""
    units = text.encode("utf-16-le")[: 2 * position.character]
    return position.line + 1, len(units.decode("utf-16-le", "ignore")) + 1


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
