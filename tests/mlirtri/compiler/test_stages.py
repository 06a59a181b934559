"""Stages: read, listed, edited, stopped at, started from, resumed from text, and checked against their contracts."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.compiler.printing import RESUMABLE
from mlirtri.dialect.bindings.mlir import operations_named
from mlirtri.errors import ParseError, PassFailedError, UnknownOptionError
from mlirtri.lowering.core.stage import Stage
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.pipelines import LINALG, pipeline_for

PIPELINES = ("linalg", "relax", "mlir")
STAGES = {
    "linalg": ["ast", "tri", "linalg", "fused", "relax", "tir", "scheduled", "llvm", "asm"],
    "relax": ["ast", "tri", "relax", "tir", "scheduled", "llvm", "asm"],
    "mlir": ["ast", "tri", "linalg", "fused", "bufferized", "llvmdialect", "asm"],
}


def scaled(x, s):
    y = x * s
    return y - 1


@mt.jit
def mixed(a, w, n, s):
    """Tensors of three dtypes, a weak scalar, an inlined helper, infinities, a non-splat constant, a nested result."""
    t = scaled(a @ w, s)
    kept = mt.where(t > 0, t, float("-inf"))
    best = kept.max(1)
    return best, (n // 2, n > 2), a + mt.eye(4)


@mt.jit
def add_chain(a: mt.Tensor[[2, 3], mt.float32], b: mt.Tensor[[2, 3], mt.float32]):
    out = a + b
    out = out + a
    return out


def mixed_arguments():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(4, 4, generator=generator).bfloat16()
    return a, a.T.contiguous(), torch.tensor([0, 3, 200], dtype=torch.uint8), 0.5


def cpu(pipeline="linalg"):
    return pipeline_for(pipeline, as_target("cpu"))


@pytest.fixture(scope="module", params=PIPELINES)
def dumped(request, tmp_path_factory):
    """A kernel of each pipeline, and its dump."""
    folder = tmp_path_factory.mktemp("dump")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLIRTRI_DUMP_DIR", str(folder))
        kernel = mixed.compile(*mixed_arguments(), pipeline=request.param)
    [dump] = folder.iterdir()
    return kernel, dump


# --- resuming ------------------------------------------------------------------------------------------------------


def test_every_text_stage_resumes_to_the_same_text_and_numbers(dumped):
    kernel, dump = dumped
    names = kernel.pipeline.names
    stages = [stage for stage in kernel.pipeline.stages if stage.kind in RESUMABLE]
    for stage in stages[1:-1]:
        # What follows the next stage is a function of its text, which the first and the last resumption go through.
        [file] = dump.glob(f"??_{stage.name}.*")
        following = names[names.index(stage.name) + 1]
        resumed = mt.resume(file, stage.name, pipeline=kernel.pipeline.until(following))
        assert resumed.ir[following] == kernel.ir[following], f"{following} after {stage.name}"
        assert resumed.compilation.records[following].complete() == kernel.compilation.records[following].complete()
    wanted = kernel(*mixed_arguments())
    for stage in (stages[0], stages[-1]):
        [file] = dump.glob(f"??_{stage.name}.*")
        resumed = mt.resume(file, stage.name)
        later = names[names.index(stage.name) :]
        assert tuple(resumed.ir) == later
        for name in later:
            assert resumed.ir[name] == kernel.ir[name], f"{name} after {stage.name}"
            assert resumed.compilation.records[name].complete() == kernel.compilation.records[name].complete()
        found = resumed(*mixed_arguments())
        assert isinstance(found[1], tuple)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert found[1][0].dtype == torch.uint8
        assert resumed.stats["kernels"] == kernel.stats["kernels"]


def test_a_relax_module_read_back_is_structurally_equal():
    from mlirtri.compiler.printing import complete, parse
    from mlirtri.lowering.toolchain.tvm_names import structural_equal

    kernel = mixed.compile(*mixed_arguments(), pipeline="relax")
    made = kernel.compilation.records["relax"].ir
    assert structural_equal(parse("tvmscript", complete("tvmscript", made)), made, map_free_vars=True)


def test_resuming_keeps_numpy_semantics(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    kernel = mt.jit(lambda a: a.sum(0)).compile(x)
    [file] = tmp_path.glob("*/03_fused.mlir")
    found = mt.resume(file, "fused")(x)
    assert isinstance(found, np.ndarray)
    assert found.dtype == kernel(x).dtype == np.sum(x, 0).dtype
    np.testing.assert_array_equal(found, x.sum(0))


def test_mlir_of_somebody_else_resumes_without_a_manifest(tmp_path):
    file = tmp_path / "theirs.mlir"
    file.write_text("""
        func.func @double(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %y = arith.addf %x, %x : tensor<4xf32>
          return %y, %x : tensor<4xf32>, tensor<4xf32>
        }""")
    x = torch.arange(4.0)
    for pipeline in ("linalg", "mlir"):
        doubled, same = mt.resume(file, "linalg", pipeline=pipeline)(x)
        torch.testing.assert_close(doubled, x + x)
        torch.testing.assert_close(same, x)


def test_an_edited_shape_is_what_the_file_says(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    add_chain.compile()
    [file] = tmp_path.glob("*/02_linalg.mlir")
    file.write_text(file.read_text().replace("2x3", "5x3"))
    x = torch.ones(5, 3)
    torch.testing.assert_close(mt.resume(file, "linalg")(x, x), 3 * x)


def test_what_does_not_parse_is_shown_at_its_line(tmp_path):
    file = tmp_path / "broken.mlir"
    file.write_text("func.func @f() {\n  return %nothing : f32\n}\n")
    with pytest.raises(ParseError) as caught:
        mt.resume(file, "fused")
    assert (caught.value.span.file, caught.value.span.line, caught.value.span.column) == (str(file), 2, 10)
    script = add_chain.compile().compilation.records["relax"].complete()
    lines = script.splitlines()
    at = next(number for number, line in enumerate(lines) if "R.call_tir" in line)
    lines[at] = lines[at].replace("R.call_tir", "R.call_tier")
    file = tmp_path / "broken.py"
    file.write_text("\n".join(lines))
    with pytest.raises(ParseError, match="call_tier") as caught:
        mt.resume(file, "relax")
    assert (caught.value.span.file, caught.value.span.line) == (str(file), at + 1)
    file.write_text("@I.ir_module\nclass Module(\n")
    with pytest.raises(ParseError, match="not TVMScript") as caught:
        mt.resume(file, "relax")
    assert caught.value.span.line == 2


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("module {}", "expected a module of one function", 1),
        ("func.func @f() { return }\nfunc.func @g() { return }", "expected a module of one function, found 2", 2),
        ("func.func @f(%x: tensor<*xf32>) { return }", "not a ranked tensor", 1),
        ("\n\nfunc.func @f(%x: memref<4xf32>) { return }", "which buffers of 'f' are results is not said", 3),
    ],
)
def test_modules_that_cannot_be_called_are_refused(tmp_path, text, message, line):
    file = tmp_path / "f.mlir"
    file.write_text(text)
    with pytest.raises(ParseError, match=re.escape(message)) as caught:
        mt.resume(file, "fused", pipeline="mlir")
    assert (caught.value.span.file, caught.value.span.line) == (str(file), line)


def test_resuming_refuses_files_and_stages_it_cannot_read(tmp_path):
    with pytest.raises(ParseError, match="cannot be read"):
        mt.resume(tmp_path / "none.mlir", "fused")
    with pytest.raises(UnknownOptionError, match="no stage 'fusd'"):
        mt.resume(tmp_path / "none.mlir", "fusd")
    with pytest.raises(UnknownOptionError, match="cannot be resumed"):
        mt.resume(tmp_path / "none.s", "asm")
    (tmp_path / "manifest.json").write_text("{")
    (tmp_path / "f.mlir").write_text("func.func @f() { return }")
    with pytest.raises(ParseError, match="not JSON"):
        mt.resume(tmp_path / "f.mlir", "fused")


# --- reading and editing pipelines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_stages_are_those_of_the_page(pipeline):
    kernel = add_chain.compile(pipeline=pipeline)
    assert list(kernel.ir) == list(cpu(pipeline).names) == STAGES[pipeline]
    assert all(kernel.ir.values())
    assert "/" not in kernel.ir["tri"]
    # The relax pipeline has no linalg to give out.
    stage = "tri" if pipeline == "relax" else "fused"
    assert __file__ in kernel.to_mlir(stage)
    assert __file__ not in kernel.to_mlir(stage, bare=True)


def test_akg_names_find_their_stages():
    kernel = add_chain.compile()
    assert kernel.ir["Poly"] == kernel.ir["fused"]
    assert kernel.ir["Flattern"] == kernel.ir["Flatten"] == kernel.ir["scheduled"]
    assert kernel.ir["BeforeLowerFunc"] == kernel.ir["llvm"]
    assert "End" in kernel.ir
    assert kernel.ir.get("nothing") is None
    with pytest.raises(UnknownOptionError, match="did you mean 'fused'"):
        kernel.ir["fusd"]
    with pytest.raises(UnknownOptionError, match="not MLIR"):
        kernel.to_mlir("tir")


def test_a_resumed_kernel_says_what_it_did_not_run(tmp_path):
    (tmp_path / "add.mlir").write_text(add_chain.compile().to_mlir())
    kernel = mt.resume(tmp_path / "add.mlir", "fused")
    assert "tri" not in kernel.ir
    with pytest.raises(UnknownOptionError, match="did not run"):
        kernel.ir["tri"]


def test_passes_of_each_stage_are_kept():
    kernel = add_chain.compile()
    assert "T.prim_func" in kernel.passes["tir"]["LegalizeOps"]
    assert kernel.passes["fused"]["linalg-fuse-elementwise-ops"].count("linalg.generic") == 1
    assert "linalg-fuse-elementwise-ops" in kernel.passes["fused"].changed
    assert "convert-elementwise-to-linalg" in kernel.passes["fused"]
    assert "convert-elementwise-to-linalg" not in kernel.passes["fused"].changed
    legalized = add_chain.compile(pipeline="relax").passes["tir"]
    assert "R.add" not in legalized["LegalizeOps"]
    assert "fused_add_add" in legalized["FuseOps"]
    assert list(legalized).index("LegalizeOps") < list(legalized).index("FuseOps") < list(legalized).index("FuseTIR")


# --- printing --------------------------------------------------------------------------------------------------------


def banners(text):
    return re.findall(r"^// -----// IR Dump After (.+) \((\w+): (\w+)\) //----- //$", text, re.MULTILINE)


def test_print_ir_shows_each_pass_that_changed_something_and_shows_it_again(capfd):
    def chain(a: mt.Tensor[[2, 3], mt.float32]):
        return (a * 2).exp() + a

    kernel = mt.jit(chain, print_ir=True).compile()
    printed = capfd.readouterr().err
    shown = banners(printed)
    assert {stage for _, _, stage in shown} >= {"ast", "tri", "linalg", "fused", "relax", "tir", "llvm", "asm"}
    assert {kernel for _, kernel, _ in shown} == {chain.__qualname__.rpartition(".")[2]}
    for stage, passes in kernel.passes.items():
        names = [name for name, _, where in shown if where == stage]
        assert [name for name in names if name != stage] == list(passes.changed)
        assert not set(names) & (set(passes) - set(passes.changed))
    assert "IR Dump After linalg-fuse-elementwise-ops" in printed
    again = mt.jit(chain, print_ir=True)
    assert again.compile() is kernel
    assert again.compiles == 0
    assert capfd.readouterr().err == printed


def test_printing_follows_the_setting_and_the_cache_does_not_mind(capfd, monkeypatch):
    def chain(a: mt.Tensor[[3, 2], mt.float32]):
        return (a + 2).exp() + a

    kernel = mt.jit(chain).compile()
    assert not banners(capfd.readouterr().err)
    monkeypatch.setenv("MLIRTRI_PRINT_IR", "tri,Poly")
    assert mt.jit(chain).compile() is kernel
    shown = banners(capfd.readouterr().err)
    assert {stage for _, _, stage in shown} == {"tri", "fused"}
    monkeypatch.setenv("MLIRTRI_PRINT_IR", "fusd")
    with pytest.raises(UnknownOptionError, match="no pipeline has a stage 'fusd'"):
        mt.jit(chain).compile()


# --- contracts of stages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_compilers_own_ir_keeps_the_contracts(monkeypatch, pipeline):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    function = mt.jit(lambda a, n: (a.softmax(-1) @ a, n // 3))
    function.compile(mt.Tensor((4, 4), mt.float32), mt.Tensor((3,), mt.int32), pipeline=pipeline)


def test_what_a_stage_may_not_hold_is_named_with_its_line(monkeypatch):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    lazy = cpu().replace("linalg", replace(LINALG, run=lambda module, context: module))
    with pytest.raises(PassFailedError, match=r"stage 'linalg' holds what it may not: tri.add \(2×\)") as caught:
        add_chain.compile(pipeline=lazy)
    assert caught.value.span.file == __file__
    assert "out = a + b" in str(caught.value)


def test_relax_operators_after_tir_are_named_with_their_line(monkeypatch):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    pipeline = cpu("relax")
    lazy = pipeline.replace("tir", replace(pipeline.find("tir"), run=lambda module, context: module))
    with pytest.raises(PassFailedError, match=r"may not: relax\.add") as caught:
        add_chain.compile(pipeline=lazy)
    assert "out = a + b" in str(caught.value)


def test_ir_that_mlir_refuses_is_refused(monkeypatch):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")

    def breaking(module, context):
        [generic] = operations_named(module, "linalg.generic")
        del generic.attributes["iterator_types"]
        return module

    broken = Stage("broken", "mlir", breaking)
    with pytest.raises(PassFailedError, match="MLIR refuses the IR of stage 'broken'"):
        add_chain.compile(pipeline=cpu().until("fused").insert_after("fused", broken))


def test_a_manifest_says_how_the_kernel_was_made(dumped):
    kernel, dump = dumped
    manifest = json.loads((dump / "manifest.json").read_text())
    assert manifest["kernel"] == "mixed"
    assert manifest["pipeline"] == kernel.pipeline.name
    assert manifest["stages"] == list(kernel.pipeline.names) == list(manifest["seconds"])
    assert set(manifest["versions"]) == {"mlirtri", "apache-tvm", "apache-tvm-ffi", "torch-mlir"}
    assert [p["name"] for p in manifest["interface"]["parameters"]] == ["a", "w", "n", "s"]


def total(a):
    return a.sum(), a.max(1)


def product(a):
    return a @ a.mT + 1


@pytest.mark.parametrize("function", [total, product])
def test_a_resumed_schedule_gives_the_same_code_byte_for_byte(function, tmp_path):
    """Names that a schedule repeats, of buffers and of loops in loops, are those of its text."""
    kernel = mt.jit(function).compile(torch.ones(64, 64))
    file = tmp_path / "scheduled.py"
    file.write_text(kernel.compilation.records["scheduled"].complete())
    resumed = mt.resume(file, "scheduled")
    assert list(resumed.ir) == ["scheduled", "llvm", "asm"]
    assert {name: resumed.ir[name] for name in resumed.ir} == {name: kernel.ir[name] for name in resumed.ir}


def running_sums(a, b):
    out = np.zeros_like(a)
    for row in range(a.shape[0]):
        total = np.float32(0)
        while total < a[row]:
            total += b[row]
        out[row] = total
    return out


@pytest.mark.parametrize("start", ["linalg", "fused", "bufferized"])
def test_resumed_loops_have_the_same_locations(start, tmp_path):
    """The first lines of loops declare values, for which text has no locations."""
    kernel = mt.jit(running_sums, pipeline="mlir").compile(np.ones(9, np.float32), np.ones(9, np.float32))
    complete = {name: record.complete() for name, record in kernel.compilation.records.items()}
    file = tmp_path / f"{start}.mlir"
    file.write_text(complete[start])
    resumed = mt.resume(file, start, pipeline="mlir").compilation.records
    assert {name: record.complete() for name, record in resumed.items()} == {name: complete[name] for name in resumed}
