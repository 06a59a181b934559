"""Executables as files: written here, read and run in a process that loads neither MLIR nor TVM's compiler."""

from __future__ import annotations

import copy
import ctypes
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from tvm_stage_helpers import branching, compiled, module, op, random

import mlirtri as mt
from mlirtri.errors import ArtifactError, CodegenError
from mlirtri.lowering.runtime import artifact, linking
from mlirtri.lowering.runtime.artifact import read_artifact, write_artifact
from mlirtri.lowering.toolchain.tvm_names import relax


@mt.jit
def product(a, b):
    return np.exp(a) @ b + 1


@mt.jit
def update(a, b):
    a += b
    return a.sum(), (a * 2).astype(np.float16)


def steps(emit, a):
    """A constant, a view, a repeated result and an argument that is one."""
    added = emit(op.add(a, relax.const(np.arange(50, dtype="float32"), "float32")))
    flat = emit(op.reshape(added, (50, 60)))
    halves = emit(op.multiply(emit(op.astype(flat, "bfloat16")), relax.const(random(60).numpy(), "bfloat16")))
    return [flat, halves, flat, a]


def executables():
    """By name: an executable, its inputs, and zeros for its outputs."""
    a, b = random(300, 200), random(200, 250)
    for pipeline in ("linalg", "mlir"):
        kernel = product.compile(a.numpy(), b.numpy(), pipeline=pipeline)
        yield f"product_{pipeline}", kernel, [a, b], [torch.zeros(300, 250)]
        kernel = update.compile(a.numpy(), a.numpy(), pipeline=pipeline)
        total, half = torch.zeros(()), torch.zeros(300, 200, dtype=torch.float16)
        written = a.clone()
        by_result = {dict(kernel.interface.updates)[0]: written}
        rest = iter((total, half))
        outputs = [by_result[index] if index in by_result else next(rest) for index in range(3)]
        yield f"update_{pipeline}", kernel, [written, a], outputs
    yield "branch", compiled(branching()), [torch.tensor(True), torch.arange(8.0)], [torch.zeros(8)]
    flat = torch.zeros(50, 60)
    outputs = [flat, flat.bfloat16(), flat.clone(), torch.zeros(60, 50)]
    yield "steps", compiled(module(steps, (60, 50))), [random(60, 50)], outputs


CLEAN = """
import sys, json, pathlib, torch
from mlirtri.lowering.runtime.artifact import read_artifact
for folder in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir()):
    executable = read_artifact(folder, json.loads((folder / "description.json").read_text()))
    inputs, outputs, expected = torch.load(folder / "tensors.pt")
    executable.launch(inputs, outputs)
    for output, wanted in zip(outputs, expected, strict=True):
        assert torch.equal(output, wanted), folder.name
    print(folder.name, executable.kernels)
loaded = [name for name in sys.modules if name.split(".")[0] in ("tvm", "torch_mlir")]
mapped = [name for name in ("libtvm_compiler", "MLIR") if name in pathlib.Path("/proc/self/maps").read_text()]
assert not loaded and not mapped, (loaded, mapped)
"""


def test_executables_run_from_files_without_the_compiler(tmp_path):
    expected = []
    for name, made, inputs, outputs in executables():
        executable = made.executable if hasattr(made, "executable") else made.compilation.executable
        folder = tmp_path / name
        folder.mkdir()
        description = write_artifact(executable, folder)
        (folder / "description.json").write_text(json.dumps(description))
        # One file, so that an output that is an input's memory stays that.
        torch.save([inputs, outputs, []], folder / "tensors.pt")
        executable.launch(inputs, outputs)
        before = torch.load(folder / "tensors.pt")
        torch.save([*before[:2], [output.clone() for output in outputs]], folder / "tensors.pt")
        expected.append(f"{name} {executable.kernels}")
        again = read_artifact(folder, description)
        copy = tmp_path / f"{name}_copy"
        copy.mkdir()
        assert write_artifact(again, copy) == description
        assert {file.name for file in copy.iterdir()} == {file.name for file in folder.iterdir()} - {
            "description.json", "tensors.pt",
        }  # fmt: skip
        for file in copy.iterdir():
            file.unlink()
        copy.rmdir()
    finished = subprocess.run([sys.executable, "-c", CLEAN, str(tmp_path)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert sorted(finished.stdout.split("\n")) == sorted(["", *expected])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    a = np.ones((4, 4), np.float32)
    return folder, write_artifact(product.compile(a, a).compilation.executable, folder)


def test_what_is_no_artifact_is_refused(written, tmp_path):
    folder, description = written
    with pytest.raises(ArtifactError, match="is not one"):
        read_artifact(folder, {**description, "kind": "neither"})
    with pytest.raises(ArtifactError, match="is not one"):
        read_artifact(folder, {**description, "plan": {}})
    with pytest.raises(ArtifactError, match="cannot be loaded"):
        read_artifact(tmp_path, description)
    name = description["library"]["file"]
    (tmp_path / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(ArtifactError, match="cannot be loaded"):
        read_artifact(tmp_path, description)
    with pytest.raises(ArtifactError, match="object objects cannot be written to files"):
        write_artifact(object(), tmp_path)


@pytest.fixture
def without_compiler(monkeypatch):
    monkeypatch.setattr(linking, "compiler", lambda: None)
    artifact._starter.cache_clear()
    yield
    artifact._starter.cache_clear()


@pytest.mark.skipif(linking.platform.machine() != "x86_64", reason="our linker is for x86-64")
def test_executables_are_linked_without_a_c_compiler(without_compiler, tmp_path):
    for name, made, inputs, outputs in executables():
        executable = made.executable if hasattr(made, "executable") else made.compilation.executable
        folder = tmp_path / name
        folder.mkdir()
        loaded = read_artifact(folder, write_artifact(executable, folder))
        # One object, so that an output that is an input's memory stays that.
        again = copy.deepcopy((inputs, outputs))
        executable.launch(inputs, outputs)
        loaded.launch(*again)
        assert all(map(torch.equal, outputs, again[1])), name


def test_what_cannot_be_linked_is_refused(monkeypatch, tmp_path):
    file, library = tmp_path / "kernel.o", tmp_path / "kernel.so"
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CodegenError, match="no reason given"):
        linking.link([], library)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CodegenError, match="does not run"):
        linking.link([], library)
    monkeypatch.setattr(linking, "compiler", lambda: None)
    file.write_bytes(b"\x7fELF\x02\x01")
    with pytest.raises(CodegenError, match="cannot be read"):
        linking.link([file], library)
    file.write_bytes(bytes(64))
    with pytest.raises(CodegenError, match="not one for x86-64"):
        linking.link([file], library)
    monkeypatch.setattr(linking.platform, "machine", lambda: "riscv64")
    with pytest.raises(CodegenError, match="without a C compiler"):
        linking.link([file], library)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_code_that_our_linker_does_not_take(without_compiler, tmp_path):
    def linked(code: str, *options: str):
        (tmp_path / "code.c").write_text(code)
        subprocess.run(["cc", "-c", "-O1", *options, "code.c"], cwd=tmp_path, check=True)
        linking.link([tmp_path / "code.o"], tmp_path / "code.so")
        return ctypes.CDLL(str(tmp_path / "code.so"))

    code = """
    #include <math.h>
    static double table[3] = {1, 2, 4};
    double *middle = table + 1;
    int calls;
    double second(double x) { calls += 1; return exp2(x) + middle[1]; }
    """
    second = linked(code, "-fPIC").second
    second.argtypes, second.restype = [ctypes.c_double], ctypes.c_double
    assert second(3.0) == 12
    with pytest.raises(CodegenError, match="nothing defines absent, which the compiled code calls"):
        linked("void absent(void); void f(void) { absent(); }", "-fPIC")
    with pytest.raises(CodegenError, match=r"a section '\.tbss'"):
        linked("_Thread_local int x; int f(void) { return x++; }", "-fPIC")
    with pytest.raises(CodegenError, match="relocations of kind"):
        linked("int table[9]; int f(int i) { return table[i]; }", "-fno-pic", "-mcmodel=small")
