"""`mlirtri run` on files: arguments, results, and what they are compared with."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mlirtri.cli.main import run_command

KERNELS = """
import numpy as np

import mlirtri as mt

@mt.jit
def scaled(x, k: mt.int32, y):
    return x * k - y, x + 1

@mt.jit
def bumped(a):
    a[0] = a[0] + 1

@mt.jit
def raised(a):
    a[0] = np.maximum(a[0], 5)

@mt.jit
def half(x: mt.Tensor[[3], mt.bfloat16]):
    return x + x
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command line in a folder with kernels and arrays; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNELS)
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    np.save("x.npy", x)
    np.savez("all.npz", x=x, y=y, k=np.int32(2))

    def call(*arguments: str) -> tuple[int, str, str]:
        status = run_command(["run", *arguments])
        return status, *capsys.readouterr()

    return call


def test_results_are_compared_with_those_of_libraries(run):
    options = ("--arg=x=f32[3]", "--arg=k=2", "--arg=y=f32[3]:4")
    status, out, err = run("k.py::scaled", *options, "--check-against=torch")
    assert (status, err, out.splitlines()[-1]) == (0, "", "agrees with torch")
    _, _, err = run("k.py::scaled", *options, "--check-against=numpy")
    assert err == "numpy does not run what this is written in\n  help: it runs in torch, iree, torch.compile\n"
    status, out, _ = run("k.py::raised", "--input=a=x.npy", "--check-against=numpy")
    assert (status, out.splitlines()[-1]) == (0, "agrees with numpy"), "what is written is compared"
    np.save("h.npy", np.arange(3).astype(ml_dtypes.bfloat16))
    assert run("k.py::half", "--input=x=h.npy", "--check-against=torch")[0] == 0
    assert run("k.py::half", "--from=fused", "--check-against=numpy")[2].startswith("numpy does not run IR")


def test_arguments_and_results_in_files(run):
    status, out, err = run("k.py::scaled", "--input", "all.npz", "--output", "r.npz", "--check-against=interpreter")
    assert (status, err) == (0, "")
    assert out.endswith("agrees with interpreter\n")
    found = np.load("r.npz")
    np.testing.assert_array_equal(found["result0"], np.arange(3) * 2.0 - 1)
    np.testing.assert_array_equal(found["result1"], np.arange(3) + 1.0)
    status, out, _ = run("k.py::scaled", "--input", "all.npz", "--pipeline=mlir", "--check-against=r.npz")
    assert (status, out.endswith("agrees with r.npz\n")) == (0, True)
    status, out, _ = run("k.py::scaled", "--input=x=x.npy", "--arg=y=f32[3]:4", "--check-against=r.npz")
    assert status == 1
    assert "differs from r.npz: result0[0] is -4.0, not -1.0" in out


def test_arguments_that_are_written_are_results(run):
    status, out, _ = run("k.py::bumped", "--input=a=x.npy", "--output=a.npy", "--check-against=interpreter")
    assert (status, out) == (0, "result: None\nagrees with interpreter\n")
    np.testing.assert_array_equal(np.load("a.npy"), np.float32([1, 1, 2]))


def test_dtypes_that_numpy_files_lose(run):
    np.save("h.npy", np.array([1, 2, 3], ml_dtypes.bfloat16))
    status, _, _ = run("k.py::half", "--input=x=h.npy", "--output=r.npy", "--check-against=mlir")
    assert status == 0
    np.testing.assert_array_equal(np.load("r.npy").view(ml_dtypes.bfloat16).astype(float), [2, 4, 6])
    assert run("k.py::half", "--input=x=h.npy", "--check-against=r.npy")[0] == 0


def test_random_arguments_are_the_same_from_every_stage(run, capsys):
    arguments = ["k.py::scaled", "--arg=x=f32[3]", "--arg=y=f32[3]"]
    _, expected, _ = run(*arguments)
    for stage, pipeline in (("tri", "linalg"), ("fused", "linalg"), ("tir", "relax"), ("bufferized", "mlir")):
        assert run_command(["emit", *arguments, f"--stage={stage}", f"--pipeline={pipeline}"]) == 0
        Path("stage.mlir").write_text(capsys.readouterr().out)  # the readable text, without locations
        assert run("stage.mlir", f"--from={stage}", f"--pipeline={pipeline}")[1] == expected, stage


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--input=z=x.npy"], 1, "has no parameter 'z'"),
        (["--input=x=all.npz"], 1, "all.npz holds x, y, k"),
        (["--input=x=x.npy", "--input=all.npz"], 1, "--input x is given twice"),
        (["--input=x=k.py"], 1, "k.py is no file of arrays"),
        (["--input=x=absent.npy"], 1, "there is no file absent.npy"),
        (["--input=all.npz", "--output=r.npy"], 1, "the kernel gives result0, result1"),
        (["--input=all.npz", "--output=r.txt"], 1, "results are written as .npy or .npz"),
        (["--input=all.npz", "--arg=x=f64[3]"], 1, "--input x is float32, the parameter float64[3]"),
        (["--input=all.npz", "--check-against=relx"], 2, "did you mean 'relax'? name an .npy or .npz file, or one of"),
    ],
)
def test_what_is_refused(run, arguments, status, message):
    found, out, err = run("k.py::scaled", *arguments)
    assert found == status
    assert message in err
    assert "agrees" not in out
