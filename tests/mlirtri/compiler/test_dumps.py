"""Dumps appear whole or not at all and say everything; an edited file stands in for the stage it was dumped from."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import torch

import mlirtri as mt
from mlirtri.errors import DumpError, KernelError, ParseError, UnknownOptionError
from mlirtri.lowering.fusion import linalg_to_fused


@mt.jit
def scaled(a: mt.Tensor[[2, 3], mt.float32]):
    out = a + 1.0
    out = out * a
    return out


@mt.jit
def other(a: mt.Tensor[[2, 3], mt.float32]):
    return a * 4.0


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def dump(tmp_path, monkeypatch):
    """The folder of a dump of `scaled`; nothing is dumped any more."""
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    scaled.compile()
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [folder] = tmp_path.iterdir()
    return folder


def edit(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


# --- what a dump holds -----------------------------------------------------------------------------------------------


def test_a_dump_has_every_stage_every_pass_and_a_manifest(dump):
    kernel = scaled.compile()
    stages = [name for name in files(dump) if "/" not in name]
    assert stages == [
        "00_ast.txt", "01_tri.mlir", "02_linalg.mlir", "03_fused.mlir", "04_relax.py", "05_tir.py", "06_scheduled.py",
        "07_llvm.ll", "08_asm.s", "manifest.json",
    ]  # fmt: skip
    for stage, passes in kernel.passes.items():
        written = sorted(dump.glob(f"??_{stage}/*"))
        assert [path.read_text() for path in written] == list(passes.values())
    assert (dump / "05_tir" / "000_LegalizeOps.py").is_file()
    assert "relax.func_attr" not in (dump / "04_relax.py").read_text()
    assert "mlirtri.locations" in (dump / "04_relax.py").read_text()
    assert f'loc("{__file__}"' in (dump / "03_fused.mlir").read_text()
    assert oct(dump.stat().st_mode & 0o055) == "0o55"


def test_the_texts_hold_nothing_of_the_run(dump):
    manifest = json.loads((dump / "manifest.json").read_text())
    assert manifest["command"]
    for path in dump.rglob("*.*"):
        if path.name != "manifest.json" and path.is_file():
            assert manifest["versions"]["apache-tvm"] not in path.read_text()


def test_a_second_dump_is_equal_and_replaces_the_first(dump, monkeypatch):
    before = {name: (dump / name).read_text() for name in files(dump) if name != "manifest.json"}
    edit(dump, "03_fused.mlir", "1.000000e+00", "2.000000e+00")
    (dump / "left_over.txt").write_text("")
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(dump.parent))
    assert scaled.compile() is scaled.compile()
    assert list(dump.parent.iterdir()) == [dump]
    assert {name: (dump / name).read_text() for name in files(dump) if name != "manifest.json"} == before


def test_each_specialization_has_its_own_dump(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    function = mt.jit(lambda a: a + 1)
    for shape in ((2,), (3,)):
        function(torch.ones(shape))
    function.compile(torch.ones(2), pipeline="mlir")
    assert len(list(tmp_path.iterdir())) == 3


def test_kernels_with_constants_too_large_to_print_resume(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    x = torch.arange(3, dtype=torch.uint8)
    kernel = mt.jit(lambda a: a + 200).compile(x, pipeline="relax")
    [file] = tmp_path.glob("*/02_relax.py")
    assert "metadata" in file.read_text()
    torch.testing.assert_close(mt.resume(file, "relax")(x), kernel(x))


def test_many_threads_dump_one_kernel(tmp_path, monkeypatch):
    from mlirtri.compiler.dumps import write_dump

    kernel = scaled.compile()
    problems = []

    def write():
        try:
            write_dump(tmp_path, "scaled-1", kernel.pipeline, kernel.compilation, {"kernel": "scaled"})
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert [path.name for path in tmp_path.iterdir()] == ["scaled-1"]
    assert json.loads((tmp_path / "scaled-1" / "manifest.json").read_text())["kernel"] == "scaled"


def test_a_failed_compile_leaves_nothing(tmp_path, monkeypatch):
    def failing(module, context):
        raise KernelError("no")

    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path))
    monkeypatch.setattr(linalg_to_fused, "lower", failing)
    with pytest.raises(KernelError, match="no"):
        mt.jit(lambda a: a + 3).compile(torch.ones(2))
    assert not list(tmp_path.iterdir())


def test_a_failed_dump_leaves_nothing_and_keeps_what_was_there(dump, monkeypatch):
    before = files(dump)
    kernel = scaled.compile()
    monkeypatch.setattr(Path, "write_text", _full_disk)
    from mlirtri.compiler.dumps import write_dump

    with pytest.raises(DumpError, match="No space left"):
        write_dump(dump.parent, dump.name, kernel.pipeline, kernel.compilation, {})
    assert files(dump) == before
    assert list(dump.parent.iterdir()) == [dump]


def _full_disk(*_arguments, **_keywords):
    raise OSError(28, "No space left on device")


def test_a_folder_that_cannot_be_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(DumpError, match="MLIRTRI_DUMP_DIR"):
        scaled.compile()


# --- edited files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("01_tri.mlir", "value = 1.000000e+00", "value = 5.000000e+00"),
        ("03_fused.mlir", "1.000000e+00", "5.000000e+00"),
        ("06_scheduled.py", "T.float32(1.0)", "T.float32(5.0)"),
    ],
)
def test_the_edited_file_of_a_dump_changes_the_result_and_is_named(dump, monkeypatch, capsys, name, old, new):
    x = torch.full((2, 3), 2.0)
    edit(dump, name, old, new)
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(dump.parent))
    kernel = scaled.compile()
    torch.testing.assert_close(kernel(x), torch.full((2, 3), 14.0))
    stage = name[3:].partition(".")[0]
    assert new in kernel.ir[stage]
    assert old not in kernel.ir[stage]
    assert list(kernel.passes) == list(kernel.ir)
    assert f"mlirtri: stage {stage} of scaled is taken from {dump / name}\n" in capsys.readouterr().err


def test_edited_files_that_are_never_taken_are_said(dump, monkeypatch, capsys):
    edit(dump, "07_llvm.ll", "define", "define ")
    (dump.parent / "fusd.mlir").write_text("")
    (dump.parent / "tir.txt").write_text("")
    (dump.parent / "notes.mlir").write_text("")
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(dump.parent))
    scaled.compile()
    scaled.compile(pipeline="relax")
    first, second, third = sorted(capsys.readouterr().err.splitlines())
    assert first == f"mlirtri: {dump.parent / 'fusd.mlir'} is not taken: did you mean 'fused.mlir'?"
    assert second.startswith(f"mlirtri: {dump / '07_llvm.ll'} is not taken: stage 'llvm' is not made of text; edit")
    assert third == f"mlirtri: {dump.parent / 'tir.txt'} is not taken: did you mean 'tir.py'?"


def test_an_edited_file_does_not_stay_in_any_cache(dump, monkeypatch):
    x = torch.full((2, 3), 2.0)
    function = mt.jit(scaled.__mlirtri_function__)
    plain = scaled.compile()
    edit(dump, "03_fused.mlir", "1.000000e+00", "5.000000e+00")
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(dump))
    assert function(x)[0, 0] == function(x)[0, 0] == 14
    assert function.compiles == 1
    edit(dump, "03_fused.mlir", "5.000000e+00", "6.0000000e+00")
    assert function(x)[0, 0] == 16
    monkeypatch.delenv("MLIRTRI_OVERRIDE_DIR")
    assert function(x)[0, 0] == 6
    assert function.compile() is plain
    assert mt.jit(scaled.__mlirtri_function__)(x)[0, 0] == 6


def test_files_of_other_kernels_are_left_alone(dump, monkeypatch):
    x = torch.full((2, 3), 2.0)
    edit(dump, "03_fused.mlir", "1.000000e+00", "5.000000e+00")
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(dump))
    assert mt.jit(other.__mlirtri_function__)(x)[0, 0] == 8
    wider = mt.jit(lambda a: a + 1.0)
    assert wider(torch.ones(5))[0] == 2
    assert scaled.compile(pipeline="mlir")(x)[0, 0] == 6
    assert "5.000000e+00" not in scaled.compile(target="cuda").ir["fused"]


def test_a_bare_file_stands_for_its_stage(tmp_path, monkeypatch):
    x = torch.full((2, 3), 2.0)
    text = scaled.compile(pipeline="mlir").ir["fused"].replace("1.000000e+00", "5.000000e+00")
    (tmp_path / "fused.mlir").write_text(text)
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(tmp_path))
    assert scaled.compile(pipeline="mlir")(x)[0, 0] == 14
    with pytest.raises(ParseError, match="function 'scaled' cannot stand for the kernel 'other'"):
        other.compile(pipeline="mlir")
    (tmp_path / "fused.mlir").write_text(text.replace("2x3", "2x4"))
    with pytest.raises(ParseError, match="keeps the kernel's name and signature"):
        scaled.compile(pipeline="mlir")


@pytest.mark.parametrize("name", ["absent", "file"])
def test_an_override_folder_that_is_none_is_a_sentence(tmp_path, monkeypatch, name):
    (tmp_path / "file").write_text("")
    scaled.compile(pipeline="mlir")
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(tmp_path / name))
    with pytest.raises(UnknownOptionError, match=f"MLIRTRI_OVERRIDE_DIR=.*{name} is not a folder"):
        scaled.compile(pipeline="mlir")


def test_an_edited_file_that_does_not_parse_is_shown_at_its_line(dump, monkeypatch):
    edit(dump, "03_fused.mlir", "arith.addf", "arith.adf")
    line = next(n for n, text in enumerate((dump / "03_fused.mlir").read_text().splitlines(), 1) if "adf" in text)
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(dump.parent))
    with pytest.raises(ParseError, match="adf") as caught:
        scaled.compile()
    assert (caught.value.span.file, caught.value.span.line) == (str(dump / "03_fused.mlir"), line)
    monkeypatch.delenv("MLIRTRI_OVERRIDE_DIR")
    assert scaled(torch.full((2, 3), 2.0))[0, 0] == 6
