"""`mlirtri-opt` runs the passes, conversions and translations of ours beside upstream's."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest

import mlirtri as mt
from mlirtri.opt import main as opt
from mlirtri.opt import registry
from mlirtri.opt.own_passes import CONVERSIONS, OWN, REWRITES, TRANSLATIONS, own_names
from mlirtri.opt.pipelines import elements_of, leaves, pass_name
from mlirtri.opt.registry import available_dialects, registered_passes

ROOT = Path(__file__).parents[3]
STAGES = ("linalg", "fusion", "bridge", "mlir_backend")
"""The folders of `lowering` whose rewrites have options of their own; importers run as whole stages."""


@mt.jit
def add_twice(a: mt.Tensor[[2, 3], mt.float32], b: mt.Tensor[[2, 3], mt.float32]):
    return a + b + a


@pytest.fixture(scope="module")
def kernel():
    return add_twice.compile(pipeline="mlir")


@pytest.fixture
def call(tmp_path, capfd):
    """Run the tool on a text; gives (status, stdout, stderr)."""

    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        file = tmp_path / "in.mlir"
        file.write_text(text)
        status = opt.main([*arguments, str(file)])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def test_every_rewrite_of_the_stages_has_an_option():
    files = [file for stage in STAGES for file in (ROOT / "lowering" / stage).rglob("*.py")]
    names = {name for file in files for name in re.findall(r'run_rewrite\(\s*"([\w-]+)"', file.read_text())}
    assert len(names) > 30
    assert names == set(REWRITES), "a new rewrite is a row of REWRITES in mlirtri/opt/own_passes.py"


def test_every_pass_loads_and_none_hides_one_of_upstream():
    assert all(callable(own.load()) for own in OWN.values())
    listed = registered_passes()
    assert set(own_names()) <= set(listed)
    assert len(listed) > 300
    assert {"tri", "linalg", "scf", "cf", "torch", "stablehlo"} <= set(available_dialects())


def test_conversions_give_the_stages_of_a_kernel(call, kernel):
    text, options = kernel.to_mlir("tri"), ["--mlir-use-nameloc-as-prefix"]
    for stage in ("linalg", "fused", "bufferized", "llvmdialect"):
        options.append(next(f"--{name}" for name in CONVERSIONS if name.endswith(f"-to-{stage}")))
        status, out, err = call(text, *options)
        assert (status, err) == (0, "")
        assert out == kernel.ir[stage], stage


def test_rewrites_run_among_passes_of_upstream(call, kernel):
    """The passes of stage `fused`, by hand."""
    ran = [name.partition("#")[0] for name in kernel.passes["fused"]]
    assert "guard-producers" in ran
    status, out, err = call(kernel.to_mlir("linalg"), "--mlir-use-nameloc-as-prefix", *(f"--{name}" for name in ran))
    assert (status, err) == (0, "")
    assert out == kernel.ir["fused"]
    pipeline = "builtin.module(cse,convolutions-to-channels-last,func.func(canonicalize,cse),release-producers)"
    status, _, err = call(kernel.to_mlir("linalg"), f"--pass-pipeline={pipeline}", "--mlir-print-ir-after-all")
    assert status == 0
    assert re.findall(r"IR Dump After \w+: ([\w-]+)", err) == [
        "cse", "convolutions-to-channels-last", "canonicalize", "cse", "release-producers",
    ]  # fmt: skip


def test_translations_give_relax(call, kernel):
    for names in (["tri-to-linalg", "linalg-to-fused", "linalg-to-relax"], ["tri-to-relax"]):
        status, out, err = call(kernel.to_mlir("tri"), *(f"--{name}" for name in names))
        assert (status, err) == (0, "")
        assert "class Module:" in out
        assert "def add_twice(" in out
    assert set(TRANSLATIONS) == {"tri-to-relax", "linalg-to-relax"}


def test_dumps_of_named_passes_alone_and_into_a_folder(call, kernel, tmp_path):
    pipeline = "--pass-pipeline=builtin.module(func.func(canonicalize,cse),linalg-to-fused)"
    text = kernel.to_mlir("linalg")
    status, _, err = call(text, pipeline, "--mlir-print-ir-after=cse,linalg-to-fused", "--mlir-print-ir-before=cse")
    assert status == 0
    assert re.findall(r"IR Dump (\w+) \w+: ([\w-]+)", err) == [
        ("Before", "cse"), ("After", "cse"), ("After", "linalg-to-fused"),
    ]  # fmt: skip
    folder = tmp_path / "dumps"
    status, _, err = call(text, pipeline, "--mlir-print-ir-after-all", f"--mlir-print-ir-tree-dir={folder}")
    assert (status, "IR Dump" in err) == (0, False)
    assert any("cse" in file.name for file in folder.rglob("*.mlir"))
    _, _, err = call(text, "--cse", "--canonicalize=max-iterations=3", "--guard-producers", "--dump-pass-pipeline")
    assert "Pass Manager with 3 passes:\nbuiltin.module(cse,canonicalize{" in err
    assert "max-iterations=3" in err
    assert "guard-producers)" in err


SCALAR = "func.func @f(%a: tensor<4xf32>) -> f32 {\n  %0 = arith.constant 1.0 : f32\n  return %0 : f32\n}\n"


def test_a_reproducer_holds_the_ir_and_the_passes(call, tmp_path, monkeypatch, capfd):
    file = tmp_path / "reproducer.mlir"
    options = ["--cse", "--fused-to-bufferized", f"--mlir-pass-pipeline-crash-reproducer={file}"]
    status, out, err = call(SCALAR, *options)
    assert (status, out) == (1, "")
    assert "in.mlir:1:1: error: the function 'f' takes or returns a f32" in err
    assert "note: help: " in err
    text = file.read_text()
    assert text.startswith("// mlirtri-opt --run-reproducer reproducer.mlir\n")
    assert 'loc("in.mlir":1:' in text
    assert str(tmp_path) not in text
    assert "piece" not in text
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    assert opt.main(shlex.split(text.partition("\n")[0])[2:]) == 1
    assert "mlir_reproducer" not in capfd.readouterr().err
    assert 'pipeline: "builtin.module(cse,fused-to-bufferized)"' in file.read_text()
    call(SCALAR, *options, "--mlir-pass-pipeline-local-reproducer")
    assert 'pipeline: "builtin.module(fused-to-bufferized)"' in file.read_text()
    assert call(SCALAR, "--cse", options[-1])[0] == 0
    assert not file.exists(), "a reproducer of what did not fail is removed"


def test_bytecode_is_exported_and_imported(call, kernel, tmp_path):
    binary = tmp_path / "out.mlirbc"
    assert call(kernel.to_mlir("linalg"), "--emit-bytecode", "-o", str(binary))[0] == 0
    assert binary.read_bytes().startswith(opt.BYTECODE)
    assert opt.main([str(binary), "-o", str(tmp_path / "text.mlir")]) == 0
    assert (tmp_path / "text.mlir").read_text() == call(kernel.to_mlir("linalg"))[1]


def test_markers_and_only_expected_diagnostics(call):
    text = "func.func @f()\n// ####\n// expected-error@+1 {{expected}}\nfunc.func\n// ####\nfunc.func @g() { x }\n"
    options = ["--split-input-file=// ####", "--output-split-marker=// here"]
    status, out, _ = call(text, *options, "--verify-diagnostics=only-expected")
    assert status == 0
    assert call(text, *options, "--verify-diagnostics")[0] == 1
    status, out, _ = call("func.func private @f()\n// ####\nfunc.func private @g()\n", *options)
    assert re.sub(r"\s+", " ", out) == "module { func.func private @f() } // here module { func.func private @g() } "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--linalg-to-fusd"], "did you mean 'linalg-to-fused'"),
        (["--cs"], "--cs is neither an option nor a pass; did you mean 'cse'?"),
        (["--split-input-fil"], "did you mean 'split-input-file'"),
        (["--pass-pipeline=builtin.module(canonicalise)"], "did you mean 'canonicalize'"),
        (["--pass-pipeline=builtin.module(func.func(guard-producers))"], "guard-producers runs on modules"),
        (["--linalg-to-relax", "--cse"], "--linalg-to-relax gives no MLIR: it comes last"),
        (["--tile-contractions=thread=2"], "has no option 'thread': did you mean 'threads'?"),
        (["--tile-contractions=threads=two"], "--tile-contractions=threads=two: the value does not parse"),
        (["--guard-producers=x=1"], "--guard-producers has no option 'x': it has none"),
        (["--cse", "--mlir-print-ir-after=csse"], "--mlir-print-ir-after: 'csse' is no pass; did you mean 'cse'?"),
        (["--run-reproducer"], "the file names no passes"),
        (["--run-reproducer", "--cse"], "has its passes in the file"),
        (["--emit-bytecode", "--split-input-file"], "writes one module"),
        (["--verify-diagnostics=some"], "the value is all, only-expected, 0, 1, true or false"),
    ],
)
def test_what_makes_no_sense(call, arguments, message):
    status, out, err = call(SCALAR, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_texts_of_pipelines():
    text = "builtin.module(cse, a{x=1,2 y={b,c}} ,func.func(b{m=<p,q>},scf.for(c)))"
    elements = elements_of(text)
    assert elements == ["cse", "a{x=1,2 y={b,c}}", "func.func(b{m=<p,q>},scf.for(c))"]
    assert [leaf for element in elements for leaf in leaves(element)] == [
        "cse", "a{x=1,2 y={b,c}}", "func.func(b{m=<p,q>})", "func.func(scf.for(c))",
    ]  # fmt: skip
    assert [pass_name(leaf) for element in elements for leaf in leaves(element)] == ["cse", "a", "b", "c"]


def test_near_names_are_found_without_trying_every_string(monkeypatch):
    tried = []
    is_registered = registry._is_registered
    monkeypatch.setattr(registry, "_is_registered", lambda *arguments: tried.append(1) or is_registered(*arguments))
    assert registry.passes_near("css")[0] == "cse"
    assert registry.passes_near("canonicalise")[0] == "canonicalize"
    assert len(tried) < 500, "all of them take seconds"


@pytest.mark.parametrize("name", OWN)
def test_each_pass_takes_its_options(name):
    own = OWN[name]
    context = ["context"] if own.takes_context else []
    options = own.options.keys() - ({"target"} if own.takes_context else set())
    inspect.signature(own.load()).bind("module", *context, **dict.fromkeys(options))
