"""Trace pages: lines of texts and of sources, differences without names, colours, pages of kernels that fail."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from pygments.token import Error

import mlirtri as mt
import mlirtri.trace.page as page_module
from mlirtri.cli.main import run_command
from mlirtri.lowering.core.stage import Edge
from mlirtri.measure import subjects
from mlirtri.measure.tracing import trace_of
from mlirtri.trace import unified
from mlirtri.trace.chunks import LINES_PER_CHUNK, LineTable, unpacked
from mlirtri.trace.colours import ColourTable, coloured
from mlirtri.trace.data import Trace, TracedKernel, TracedText
from mlirtri.trace.mlir_lexer import MlirLexer
from mlirtri.trace.page import GrowingPage, trace_page
from mlirtri.trace.source_lines import source_lines
from mlirtri.trace.unified import unified_diff

KERNEL = """import numpy as np
import mlirtri as mt

@mt.jit
def softmax(a: mt.Tensor[[8, 16], mt.float32]):
    e = np.exp(a - a.max(axis=1)[:, None])
    return e / e.sum(axis=1)[:, None]
"""


def data_of(page: str):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(text)


def chunks_of(page: str):
    found = re.findall(r'<script type="application/zlib" id="([^"]*)">(.*?)</script>', page)
    return {name: unpacked(chunk) for name, chunk in found}


def lines_of(data, chunks, text) -> tuple[list[str], list[list[int]]]:
    """Return the lines of a text, and the lines of the source that each comes from."""
    count = -(-data["lines"] // data["perChunk"])
    table = [line for number in range(count) for line in chunks[f"lines-{number}"]["text"].split("\n")]
    body = chunks[f"text-{text['body']}"]
    return [table[number] for number in accumulate(body["lines"])], [data["origins"][number] for number in body["from"]]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    (folder / "k.py").write_text(KERNEL)
    command = ["trace", f"{folder}/k.py", "--html", f"{folder}/t.html", "--pipeline=linalg", "--pipeline=mlir"]
    assert run_command(command) == 0
    return folder / "t.html"


def test_a_page_has_every_stage_and_pass_and_the_source(page):
    data = data_of(page.read_text())
    assert [kernel["pipeline"] for kernel in data["kernels"]] == ["linalg", "mlir"]
    stages = [text["stage"] for text in data["kernels"][0]["texts"] if text["pass"] is None]
    assert stages == ["ast", "tri", "linalg", "fused", "relax", "tir", "scheduled", "llvm", "asm"]
    passes = {text["pass"]: text for text in data["kernels"][0]["texts"] if text["pass"]}
    assert passes["canonicalize"]["upstream"] is True
    assert passes["guard-producers"]["upstream"] is False
    assert passes["FuseRows"]["upstream"] is False
    assert passes["FuseOps"]["upstream"] is True
    texts = data["kernels"][0]["texts"]
    pairs = [(one["body"] == other["body"], other["changed"]) for one, other in pairwise(texts) if other["pass"]]
    assert (True, False) in pairs, "a pass that changes nothing has the lines of the text before"
    assert (True, True) not in pairs
    assert data["source"]["file"] == "k.py"
    assert len(data["source"]["lines"]) == len(KERNEL.splitlines())


def test_a_large_program_is_not_compiled_a_second_time_for_clocks(page, monkeypatch):
    from mlirtri.measure import launch_costs
    from mlirtri.measure.tracing import trace_of

    monkeypatch.setattr(launch_costs, "_LONGEST", 0)
    trace = trace_of(str(page.with_name("k.py")), {}, ("mlir",), None, None)
    [kernel] = trace.kernels
    assert len(kernel.launches) > 1
    assert {(launch.seconds, launch.untimed) for launch in kernel.launches} == {(None, "not timed")}
    assert all(launch.bytes for launch in kernel.launches)
    assert "mlir: kernels of a large program are timed by `mlirtri profile` alone" in trace.notes


def test_every_stage_has_lines_of_the_source(page):
    data, chunks = data_of(page.read_text()), chunks_of(page.read_text())
    for kernel in data["kernels"]:
        for text in kernel["texts"]:
            shown, origins = lines_of(data, chunks, text)
            assert len(shown) == len(origins) == text["rows"]
            assert max(map(len, shown)) == text["widest"]
            lines = {line for each in origins for line in each}
            if text["pass"] is None and text["stage"] in ("llvm", "asm"):
                # A scheduled function has the line of its outermost block.
                assert lines & {6, 7}, (kernel["pipeline"], text["stage"])
            elif text["pass"] is None and text["stage"] not in ("ast", "relax"):
                assert {6, 7} <= lines, (kernel["pipeline"], text["stage"])
    [tri] = [text for text in data["kernels"][0]["texts"] if text["stage"] == "tri" and text["pass"] is None]
    shown, origins = lines_of(data, chunks, tri)
    assert [origins[number] for number, line in enumerate(shown) if '"tri.exp"' in line or "tri.exp " in line] == [[6]]


def test_lines_are_kept_once_and_in_compressed_chunks():
    table = LineTable()
    lines = [f"%{number} = foo" for number in range(LINES_PER_CHUNK + 1)]
    numbers = table.numbers("mlir", lines)
    assert numbers == list(range(LINES_PER_CHUNK + 1))
    assert table.numbers("mlir", [lines[7], "%a = bar", lines[7]]) == [7, LINES_PER_CHUNK + 1, 7]
    first, second = map(unpacked, table.chunks())
    assert first["text"].split("\n") == lines[:LINES_PER_CHUNK]
    assert second["text"].split("\n") == [lines[-1], "%a = bar"]
    assert set(first["normal"]) == {0}
    assert second["normal"] == [0, 1]


def test_lines_that_differ_in_numbers_share_their_colours():
    table = ColourTable()
    lines = ('%10 = foo.bar %2 : tensor<12x4xf32> loc("k":3)', '%7 = foo.bar %123 : tensor<1x400xf32> loc("k":36)')
    number, other, third = table.numbers("mlir", [*lines, "%7 = foo.baz %123"])
    assert number == other != third
    runs = table.runs[number]
    line = '%0 = foo.bar %0 : tensor<0x0xf0> loc("k":0)'
    assert sum(runs[::2]) == len(line)
    at, found = 0, {}
    for length, name in zip(runs[::2], runs[1::2], strict=True):
        found.setdefault(table.classes[name], []).append(line[at : at + length])
        at += length
    assert found["nv"] == ["%0", "%0"]
    assert found["nc"] == ["foo.bar"]
    assert found["kt"] == ["tensor"]
    assert table.numbers("listing", ["x"]) == [0]
    assert table.numbers("mlir", ["", "a" * 3000, lines[0]]) == [0, 0, number]


def test_the_page_needs_no_network_and_has_the_plots(page):
    text = page.read_text()
    assert not re.search(r'(?:src|href)="http', text)
    assert text.count('class="graph"') >= 2
    assert 'class="roofline"' in text
    assert "max_sub_exp_sum_div" in text


def test_lines_of_each_kind_of_text():
    mlir = "module {\n  %0 = foo {\n    bar\n  } : f32\n}"
    body = "module {\n  %0 = foo {\n    bar loc(#loc2)\n  } : f32 loc(#loc1)\n}"
    full = f'#loc1 = loc("k.py":3:4)\n#loc2 = loc("x"(#loc1))\n{body}'
    assert source_lines("mlir", mlir, full) == [(), (("k.py", 3),), (("k.py", 3),), (("k.py", 3),), ()]
    assert source_lines("cuda", '#line 7 "k.py"\na;\nb;')[1:] == [(("k.py", 7),), (("k.py", 7),)]
    llvm = 'x !dbg !5\ny\n!1 = !DIFile(filename: "k.py")\n!5 = !DILocation(line: 9, column: 1, scope: !2)'
    assert source_lines("llvm", llvm)[:2] == [(("k.py", 9),), ()]
    assembly = '\t.file\t1 "dir" "k.py"\n\t.loc\t1 4 2\n\tret\n; k.py:6\n\tnop'
    assert source_lines("asm", assembly)[2:] == [(("k.py", 4),), (("k.py", 6),), (("k.py", 6),)]


BEFORE = """func.func @f(%a: f32, %b: f32) {
  %0 = arith.addf %a, %b : f32
  %1 = arith.mulf %0, %a : f32
  return %1 : f32
}"""


def test_renamed_values_are_no_difference_and_swapped_ones_are():
    assert unified_diff("mlir", BEFORE, BEFORE.replace("%0", "%7").replace("%1", "%0"), ("a", "b")) == ""
    swapped = unified_diff("mlir", BEFORE, BEFORE.replace("%0, %a", "%a, %0"), ("a", "b"))
    assert "-  %1 = arith.mulf %0, %a : f32" in swapped
    assert "+  %1 = arith.mulf %a, %0 : f32" in swapped
    later = BEFORE.replace("%1", "%2").replace("%0", "%1").replace("  %1 = arith.addf", "  %c = foo\n  %1 = arith.addf")
    found = unified_diff("mlir", BEFORE, later, ("a", "b"))
    assert [line for line in found.splitlines()[2:] if line[0] in "+-"] == ["+  %c = foo"]


@pytest.mark.parametrize("most", [0, 50, 10**9])
def test_long_texts_are_cut_at_lines_that_both_have_once(monkeypatch, most):
    monkeypatch.setattr(unified, "_QUADRATIC", most)
    random = Random(7)
    for _ in range(60):
        old = [f"x = {random.choice('abcdefghijklmnop')}" for _ in range(random.randrange(40))]
        new = [line for line in old if random.random() < 0.8]
        new[random.randrange(len(new) + 1) :] = [f"y = {random.choice('abcd')}", *random.sample(old, len(old) // 4)]
        steps = unified.difference("listing", "\n".join(old), "\n".join(new))
        assert [old[step[1]] for step in steps if step[0] in " -"] == old
        assert [new[step[2]] for step in steps if step[0] in " +"] == new
        assert all(old[first] == new[second] for kind, first, second in steps if kind == " ")


def test_a_long_text_of_few_different_lines_is_compared_at_once():
    lines = [f"op{number % 3}" if number % 500 else f"mark {number}" for number in range(30_000)]
    changed = [line if number % 1000 != 7 else "other" for number, line in enumerate(lines)]
    start = time.process_time()
    steps = unified.difference("listing", "\n".join(lines), "\n".join(changed))
    assert 30 <= sum(kind == "+" for kind, _, _ in steps) < 300
    assert time.process_time() - start < 10  # minutes where each pair of lines is looked at


def test_the_lexer_knows_all_of_a_module_and_is_registered():
    text = '%e = linalg.generic {maps = [#map], n = -1.5e+0 : f64} ins(%a : tensor<4x?xf32>) loc("k.py":1:2) // c'
    tokens = list(MlirLexer().get_tokens(text))
    assert Error not in {token for token, _ in tokens}
    assert "".join(part for _, part in tokens).strip() == text
    assert {str(token) for token, part in tokens if part == "%e"} == {"Token.Name.Variable"}
    assert coloured("mlir", "%0 = <b>") == "<i class=nv>%0</i> = &lt;b&gt;"
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'mlir = "{MlirLexer.__module__}:{MlirLexer.__name__}"' in project


def test_texts_with_script_tags_stay_data():
    text = TracedText("tri", None, "mlir", 'x = "</script><script>alert(1)"')
    edge = Edge("tri", "a", "b<i>", "k.py:1:1", False, "uses", "two & more")
    page = trace_page(Trace("t", (TracedKernel("f", "linalg", "f()", "cpu", (text,), (edge,)),)))
    assert "</script><script>alert" not in page
    assert "b&lt;i&gt;" in page
    assert data_of(page)["kernels"][0]["texts"][0]["size"] == len(text.text)


def test_a_compilation_that_fails_leaves_its_stages_and_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_TRACE", str(tmp_path))

    @mt.jit
    def double(a):
        return a + a

    double(np.ones(3))
    page = tmp_path / "double-linalg.html"
    data = data_of(page.read_text())
    assert [text["stage"] for text in data["kernels"][0]["texts"] if text["pass"] is None][-1] == "asm"
    assert data["title"] == "double(a: float64[3])"

    def refuse(module, context):
        raise mt.KernelError("not this one", help="reproduce with: mlirtri-opt x.mlir")

    broken = mt.Pipeline.named("linalg").insert_after("fused", mt.Stage("broken", "mlir", refuse))
    with pytest.raises(mt.KernelError):
        double.compile(np.ones(3), pipeline=broken)
    [kernel] = data_of((tmp_path / "double-linalg-2.html").read_text())["kernels"]
    assert [text["stage"] for text in kernel["texts"] if text["pass"] is None][-1] == "fused"
    assert "mlirtri-opt x.mlir" in kernel["failure"]


def test_a_page_that_grows_reads_each_text_once_and_shows_what_one_at_the_end_shows(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(KERNEL)
    trace = trace_of(f"{tmp_path}/k.py", {}, ("mlir",), None, None, runs=False)
    [kernel] = trace.kernels
    read = []
    monkeypatch.setattr(page_module, "source_lines", lambda *each: read.append(each[0]) or source_lines(*each))
    page, bare = GrowingPage(), replace(kernel, texts=(), edges=(), launches=())
    start = 0
    for end, text in enumerate(kernel.texts, 1):
        if text.pass_name is None:
            page.add(kernel.texts[start:end])
            page.write(bare, tmp_path / "grown.html")
            start = end
            shown = data_of((tmp_path / "grown.html").read_text())["kernels"][0]["texts"]
            assert len(shown) == end
    assert len(read) == sum(text.complete is not None or text.kind != "mlir" for text in kernel.texts)
    pages = (tmp_path / "grown.html").read_text(), trace_page(Trace("t", (kernel,)))
    (grown, chunks), (whole, others) = [(data_of(each), chunks_of(each)) for each in pages]
    for text, other in zip(grown["kernels"][0]["texts"], whole["kernels"][0]["texts"], strict=True):
        lines, origins = lines_of(grown, chunks, text)
        assert (lines, origins if text["pass"] is None else None) == (
            lines_of(whole, others, other)[0], lines_of(whole, others, other)[1] if text["pass"] is None else None,
        )  # fmt: skip


def test_a_pipeline_that_refuses_has_the_stages_before(tmp_path):
    def refuse(module, context):
        raise mt.KernelError("not this one")

    (tmp_path / "k.py").write_text(KERNEL)
    broken = mt.Pipeline.named("mlir").insert_after("fused", mt.Stage("broken", "mlir", refuse))
    trace = trace_of(f"{tmp_path}/k.py", {}, (broken,), None, None)
    [kernel] = trace.kernels
    assert [text.stage for text in kernel.texts if text.pass_name is None] == ["ast", "tri", "linalg", "fused"]
    assert "not this one" in kernel.failure


def test_sizes_that_are_open_are_said_to_have_no_costs(tmp_path):
    (tmp_path / "m.mlir").write_text("func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }")
    trace = trace_of(f"{tmp_path}/m.mlir", {}, ("mlir",), None, None)
    assert trace.notes[0].startswith("f has no costs: the sizes of 'a'")
    assert trace.kernels[0].texts


def test_kernels_side_by_side(tmp_path):
    @mt.jit
    def double(a):
        return a + a

    kernels = [double.compile(np.ones(3), pipeline=name) for name in ("relax", "mlir")]
    path = kernels[0].trace(tmp_path / "t.html", kernels[1])
    assert [kernel["pipeline"] for kernel in data_of(path.read_text())["kernels"]] == ["relax", "mlir"]


def test_a_kernel_with_costs_is_compiled_once_with_texts_and_once_with_clocks(tmp_path, monkeypatch):
    file = tmp_path / "k.py"
    file.write_text(KERNEL)
    kept = []
    whole = subjects.KernelSubject.compile_once

    def counted(subject, column):
        kernel = whole(subject, column)
        kept.append((column.name, kernel.compilation.context.keep_passes))
        assert "observed" not in kernel.__dict__
        return kernel

    monkeypatch.setattr(subjects.KernelSubject, "compile_once", counted)
    found = trace_of(str(file), {}, ("mlir",), None, None)
    assert kept == [("mlir", True), ("mlir timed", False)]
    assert len(found.kernels[0].launches) == 4
    shown = trace_page(found)
    assert "<th>share<th>bytes" in shown
    assert len(re.findall(r"<td>\d+\.\d%<td>[\d,]+<td>", shown)) == 4
    assert ">sub_exp (e)<" in shown or ">exp (e)<" in shown


def test_watching_writes_the_page_again_after_a_change(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    command = [sys.executable, "-m", "mlirtri.cli", "trace", "k.py", "--pipeline=mlir", "--no-run", "--watch"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("trace.html: mlir, ")
            (tmp_path / "k.py").write_text(KERNEL.replace("def softmax", "def normal"))
            assert process.stdout.readline().startswith("trace.html: mlir, ")
            data = data_of((tmp_path / "trace.html").read_text())
            assert data["title"].startswith("normal(")
            assert (tmp_path / "trace.html.stamp.js").read_text() == f'watched("{data["watched"]["stamp"]}");\n'
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert not (tmp_path / "trace.html.stamp.js").exists()


def test_a_file_that_is_not_there_is_not_watched(capsys):
    assert run_command(["trace", "no.py", "--watch"]) == 1
    assert capsys.readouterr().err == "there is no file no.py\n"


def test_assembly_of_one_kernel_has_the_lines_of_the_source(tmp_path, capsys):
    (tmp_path / "k.py").write_text(KERNEL)
    spec = f"{tmp_path}/k.py"
    assert run_command(["emit", spec, "--stage=asm", "--kernel=softmax", "--pipeline=mlir"]) == 0
    found = capsys.readouterr().out
    assert found.startswith("mlirtri_softmax:\n")
    block = found.partition("; k.py:6: e = np.exp(a - a.max(axis=1)[:, None])\n")[2].partition("\n;")[0]
    assert "maxps" in block
    assert run_command(["emit", spec, "--stage=asm", "--kernel=max_sub"]) == 0
    found = capsys.readouterr().out
    assert "max_sub_exp_sum_div_compute_:" in found
    assert "; k.py:7: return e / e.sum(axis=1)[:, None]" in found
    assert "__tvm_ffi_max" not in found
    assert run_command(["emit", spec, "--stage=asm", "--kernel=other"]) == 1
    assert "no kernel 'other'" in capsys.readouterr().err
