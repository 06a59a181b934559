"""`mlirtri lsp`: a scripted editor that opens, changes and asks, over the protocol; and the analysis by itself."""

from __future__ import annotations

import asyncio
import sys

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from mlirtri.lsp.analysis import analyse
from mlirtri.lsp.documents import read_document
from mlirtri.lsp.server import COMMAND

TEXT = """\
import numpy as np
import mlirtri as mt

# mlirtri: a=f32[4,3] n=2
@mt.jit
def scaled(a, b: mt.Tensor[(3,), "float32"], n):
    größe, c = a.sum(0), a + b
    for i in range(n):
        c = np.exp(c)
    return größe * c
"""


def lines_of(analysis):
    return [(error.span.line, error.message) for error in analysis.errors]


def test_types_of_names_and_expressions(tmp_path):
    analysis = analyse(str(tmp_path / "k.py"), TEXT)
    assert analysis.errors == []
    names = {(each.span.line, each.name): each.text for each in analysis.assigned(1, 100)}
    assert names == {
        (7, "größe"): "float32[3]", (7, "c"): "float32[4, 3]", (8, "i"): "int 1", (9, "c"): "float32[4, 3]",
    }  # fmt: skip
    assert analysis.at(10, 12).text == "float32[3]"
    assert analysis.at(10, 18).text == "float32[4, 3]"
    assert next(analysis.assigned(9, 9)).name == "c"
    assert analysis.at(1, 1) is None


def test_the_buffer_is_read_and_not_the_file(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("nothing to see\n")
    analysis = analyse(str(file), TEXT.replace("a + b", "a + foo"))
    assert lines_of(analysis) == [(7, "name 'foo' is not defined")]
    assert analyse(str(file), TEXT).errors == []


def test_all_mistakes_of_a_kernel_and_those_around_it(tmp_path):
    text = TEXT.replace("np.exp(c)", "np.exq(c)").replace("a.sum(0)", "a.sum(5)") + "x = 1 / 0\ny = undefined\n"
    analysis = analyse(str(tmp_path / "k.py"), text)
    assert [line for line, _ in lines_of(analysis)] == [11, 12, 7, 9]
    assert lines_of(analysis)[0] == (11, "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("text", ["def f(:\n", "x = '\0'\n", "    x = 1\n"])
def test_text_that_is_no_python(tmp_path, text):
    [error] = analyse(str(tmp_path / "k.py"), text).errors
    assert "this is not valid Python" in error.message
    assert error.span.line == 1


HALF_TYPED = """\
import mlirtri as mt

@mt.jit
def first(a: mt.Tensor[(3,), "float32"]):
    b = a + 1
    return b

@mt.jit
def typed(a: mt.Tensor[(3,), "float32"]):
    c = first(a)
    return c

@mt.jit
def last(a: mt.Tensor[(3,), "float32"]):
    d = typed(a) + first(a)
    e = first(a)
    return e
"""


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("c = first(a)", "c = first(a", 10),
        ("c = first(a)", "c = 'first", 10),
        ("return c", "return c +", 11),
        ("return c", "if c:", 13),
        ("return c", "  return c", 11),
        (" c = first(a)\n    return c", "", 13),
    ],
)
def test_what_is_half_typed_leaves_other_kernels_as_they_are(tmp_path, before, after, line):
    analysis = analyse(str(tmp_path / "k.py"), HALF_TYPED.replace(before, after, 1))
    [(found, message)] = lines_of(analysis)
    assert "this is not valid Python" in message
    assert found in (line, line - 1)
    assert [kernel.name for kernel in analysis.kernels] == ["first", "last"]
    moved = HALF_TYPED.count("\n") - HALF_TYPED.replace(before, after, 1).count("\n")
    assert (5, "b") in [(each.span.line, each.name) for each in analysis.expressions.values()]
    # A line of the last kernel after the one that uses what is half typed.
    whole = analyse(str(tmp_path / "k.py"), HALF_TYPED.replace(before, after, 1).replace("typed(a) + ", ""))
    assert (16 - moved, "e") in [(each.span.line, each.name) for each in whole.expressions.values()]


def test_what_is_run_of_a_file(tmp_path, capsys):
    """Imports, definitions and assignments; no calls, no kernels, no loops."""
    text = TEXT + (
        "print('a')\nraise SystemExit\nfor i in 1,: print('b')\nif __name__ == '__main__': print('c')\n"
        "result = scaled(np.ones((4, 3), 'f'), np.ones(3, 'f'), 2)\nsize = 3\n"
        "@mt.jit\ndef late(x: mt.Tensor[(size,), 'float32']):\n    return x\n"
    )
    document = read_document(str(tmp_path / "k.py"), text)
    assert document.errors == []
    assert [kernel.name for kernel in document.kernels] == ["scaled", "late"]
    assert capsys.readouterr() == ("", "")


def test_arguments_of_run_lines(tmp_path):
    text = (
        "# RUN: mlirtri emit %s::f --arg 'a=f32[2,3]' --stage=tri | FileCheck %s\n"
        "# RUN: mlirtri emit %s::g --arg a=f32[7]\n"
        "import mlirtri as mt\n@mt.jit\ndef f(a):\n    b = a + 1\n    return b\n"
    )
    analysis = analyse(str(tmp_path / "k.py"), text)
    assert [each.text for each in analysis.assigned(1, 99)] == ["float32[2, 3]"]
    assert read_document(str(tmp_path / "k.py"), text.replace("[2,3]", "[2,")).errors[0].span.line == 1


def scripted(session, tmp_path):
    """Run an editor's session with a server of its own."""

    async def run():
        client = LanguageClient("editor", "1")
        client.published = asyncio.Queue()
        client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda sent: client.published.put_nowait(sent))
        client.feature(lsp.WINDOW_SHOW_DOCUMENT)(lambda parameters: lsp.ShowDocumentResult(True))
        await client.start_io(sys.executable, "-m", "mlirtri.cli", "lsp")
        abilities = lsp.ClientCapabilities()
        await client.initialize_async(lsp.InitializeParams(capabilities=abilities))
        uri = (tmp_path / "k.py").as_uri()
        client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "python", 1, TEXT)),
        )
        await session(client, uri)
        await client.shutdown_async(None)
        client.exit(None)
        assert await asyncio.wait_for(client._server.wait(), 30) == 0
        await client.stop()

    asyncio.run(asyncio.wait_for(run(), 120))


def test_an_editor_types_hovers_and_looks_at_a_stage(tmp_path):
    async def session(client, uri):
        document = lsp.TextDocumentIdentifier(uri)
        assert not (await client.published.get()).diagnostics
        position = lsp.Position(6, 11)
        shown = await client.text_document_hover_async(lsp.HoverParams(document, position))
        assert "c: float32[4, 3]" in shown.contents.value
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(20, 0))
        hints = await client.text_document_inlay_hint_async(lsp.InlayHintParams(document, whole))
        assert (hints[0].label, hints[0].position) == (": float32[3]", lsp.Position(6, 9))
        lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(document))
        assert [lens.command.title for lens in lenses][:3] == ["ast", "tri", "linalg"]
        command = lsp.ExecuteCommandParams(COMMAND, [uri, "scaled", "tri"])
        assert "tri.exp" in await client.workspace_execute_command_async(command)
        change = lsp.TextDocumentContentChangeWholeDocument(TEXT.replace("* c", "@ d"))
        newer = lsp.VersionedTextDocumentIdentifier(2, uri)
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(newer, [change]))
        [diagnostic] = (await client.published.get()).diagnostics
        assert diagnostic.message == "name 'd' is not defined"
        # Saving one document checks all: they may import it.
        client.text_document_did_save(lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier("file:///other.py")))
        assert [diagnostic] == [*(await client.published.get()).diagnostics]
        assert diagnostic.range == lsp.Range(lsp.Position(9, 19), lsp.Position(9, 20))
        assert (diagnostic.code, diagnostic.source) == ("UnknownNameError", "mlirtri")
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
        assert not (await client.published.get()).diagnostics

    scripted(session, tmp_path)


def test_modules_that_were_edited_are_imported_anew(tmp_path):
    helpers = tmp_path / "lsp_helpers.py"
    text = (
        "import mlirtri as mt\nfrom lsp_helpers import N\n@mt.jit\ndef f(a: mt.Tensor[[N], mt.float32]):\n    b = a\n"
    )
    for number in (3, 44):
        helpers.write_text(f"N = {number}\n")
        analysis = analyse(str(tmp_path / "k.py"), f"{text}    return b\n")
        assert [each.text for each in analysis.assigned(1, 99)] == [f"float32[{number}]"]


def test_a_kernel_that_is_not_checked_says_so(tmp_path):
    text = "import mlirtri as mt\n@mt.jit\ndef f(a, b, n=3):\n    return a + c\n"
    analysis = analyse(str(tmp_path / "k.py"), text)
    [(span, comment)] = analysis.unchecked
    assert (span.line, span.column, comment) == (3, 5, "# mlirtri: a=f32[2,3] b=f32[2,3]")
    assert not analysis.errors
    checked = analyse(str(tmp_path / "k.py"), text.replace("@mt", f"{comment}\n@mt"))
    assert (len(checked.errors), checked.unchecked) == (1, [])
