"""Kernels as folders: saved here, called in a process that loads neither MLIR nor TVM's compiler."""

from __future__ import annotations

import gc
import json
import pickle
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArtifactError, KernelError, UnknownOptionError
from mlirtri.kernels import saved, saved_files
from mlirtri.lowering.runtime.openmp import runtime_library


@mt.jit
def blend(a, b):
    return np.sin(a) * b + a


@mt.jit
def product(a, b):
    return np.exp(a) @ b + 1


@mt.jit
def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@mt.jit
def update(a, b):
    a += b
    return a.sum(), [a.sum(axis=1), a > 1]


@mt.jit
def rotate(z, n: mt.int32):
    w = z * 1j
    for _ in range(n):
        w = w + z
    return w


@mt.jit(debug=True)
def checked(a, i: mt.int32):
    return a[i] * 2


@mt.jit
def halves(a):
    return a / 2


DYNAMIC = """
func.func @grow(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?xi8>) {
  %c0 = arith.constant 0 : index
  %size = tensor.dim %x, %c0 : tensor<?x4xf32>
  %weights = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 0.5, 3.0, 4.0], [9.0, 2.0, 3.0, 4.0],
                                   [1.0, 2.0, 3.0, 0.1]]> : tensor<4x4xf32>
  %zero = arith.constant 0.0 : f32
  %memory = tensor.empty(%size) : tensor<?x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%memory : tensor<?x4xf32>) -> tensor<?x4xf32>
  %product = linalg.matmul ins(%x, %weights : tensor<?x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<?x4xf32>)
    -> tensor<?x4xf32>
  %sum = arith.addf %product, %y : tensor<?x4xf32>
  %bytes = tensor.empty(%size) : tensor<?xi8>
  %seven = arith.constant 7 : i8
  %sevens = linalg.fill ins(%seven : i8) outs(%bytes : tensor<?xi8>) -> tensor<?xi8>
  return %sum, %sevens : tensor<?x4xf32>, tensor<?xi8>
}
"""


def cases(random):
    """By name, a kernel and arguments of some calls."""
    a, b, c = (random.standard_normal(shape).astype("f4") for shape in ((300, 200), (200, 250), (300, 200)))
    z = (a + 1j * c).astype("c8")
    bf16 = a.astype(ml_dtypes.bfloat16)
    grow = mt.from_mlir(DYNAMIC)
    for pipeline in ("linalg", "mlir"):
        yield f"blend-{pipeline}", blend.compile(a, c, pipeline=pipeline), [(a, c), (c, a)]
        yield f"product-{pipeline}", product.compile(a, b, pipeline=pipeline), [(a, b)]
        yield f"update-{pipeline}", update.compile(a, c, pipeline=pipeline), [(a.copy(), c), (a.copy(), c)]
        calls = [(np.ones((n, 4), "f4"), np.ones((n, 4), "f4")) for n in (3, 0, 97)]
        yield f"grow-{pipeline}", grow.compile(pipeline=pipeline), calls
    tensors = torch.from_numpy(a), torch.ones(300, 200)
    yield "rotate", rotate.compile(z, 3), [(z, 3), (z, 0)]
    yield "halves", halves.compile(bf16, pipeline="mlir"), [(bf16,)]
    yield "softmax", softmax.compile(a), [(a,)]
    yield "tensors", blend.compile(*tensors), [tensors]
    yield "empty", blend.compile(a[:0], c[:0]), [(a[:0], c[:0])]
    yield "checked", checked.compile(a, 3), [(a, 2), (a, 299)]


CLEAN = """
import pathlib, pickle, sys
import numpy as np
import mlirtri as mt
import pytest

root = pathlib.Path(sys.argv[1])

def same(left, right):
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    assert type(left) is type(right)
    left, right = np.asarray(left), np.asarray(right)
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()

for folder in sorted(path for path in root.iterdir() if path.is_dir()):
    kernel = mt.load(folder)
    for arguments, after, result in pickle.loads((root / f"{folder.name}.pickle").read_bytes()):
        got = kernel(*arguments)
        assert same(got, result) and same(arguments, after), folder.name
        assert type(got).__name__ == type(result).__name__
    print(folder.name)
with pytest.raises(IndexError, match="index is out of bounds for axis 0 of size 300"):
    mt.load(root / "checked")(np.ones((300, 200), "f4"), 300)
with pytest.raises(mt.KernelError, match="axis 0 of 'y' is 4 and axis 0 of 'x' is 3"):
    mt.load(root / "grow-linalg")(np.ones((3, 4), "f4"), np.ones((4, 4), "f4"))
loaded = [name for name in sys.modules if name.split(".")[0] in ("tvm", "torch_mlir")]
mapped = [name for name in ("libtvm_compiler", "MLIR") if name in pathlib.Path("/proc/self/maps").read_text()]
assert not loaded and not mapped, (loaded, mapped)
"""


def copies(value):
    return pickle.loads(pickle.dumps(value))


def test_kernels_run_in_a_process_without_the_compiler(tmp_path, random):
    names = []
    for name, kernel, calls in cases(random):
        kernel.save(tmp_path / name)
        recorded = []
        for arguments in calls:
            before = copies(arguments)
            result = kernel(*arguments)
            recorded.append((before, list(arguments), tuple(result) if isinstance(result, tuple) else result))
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(recorded))
        names.append(name)
    command = [sys.executable, "-c", CLEAN, str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == sorted(names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "product"
    a = np.ones((4, 4), np.float32)
    kernel = product.compile(a, a)
    kernel.save(folder)
    yield folder
    del kernel  # kept until here, so that tests that compile `product` get this one


def copied(folder, to):
    shutil.copytree(folder, to)
    return to


def edited(folder, change):
    """Change the manifest as who knows the digest could."""
    facts = saved_files.read_folder(folder)
    change(facts)
    facts["digest"] = saved_files._digest_of(facts)
    (folder / "manifest.json").write_text(json.dumps(facts))


def test_files_that_have_changed_are_refused(folder, tmp_path):
    assert mt.load(folder)(*[np.ones((4, 4), np.float32)] * 2).shape == (4, 4)
    for number, path in enumerate(sorted(folder.iterdir())):
        copy = copied(folder, tmp_path / str(number))
        data = path.read_bytes()
        (copy / path.name).write_bytes(data[: len(data) // 2])
        with pytest.raises(ArtifactError, match="is not JSON" if path.suffix == ".json" else "is not as it was saved"):
            mt.load(copy)
        (copy / path.name).unlink()
        with pytest.raises(ArtifactError, match="no saved kernel" if path.suffix == ".json" else "cannot be read"):
            mt.load(copy)
    copy = copied(folder, tmp_path / "edited")
    text = (copy / "manifest.json").read_text()
    (copy / "manifest.json").write_text(text.replace('"float32"', '"float64"', 1))
    with pytest.raises(ArtifactError, match="its own digest differs"):
        mt.load(copy)
    (copy / "manifest.json").write_text("[]")
    with pytest.raises(ArtifactError, match="not the manifest of a saved kernel"):
        mt.load(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts["versions"].update({"apache-tvm": "0.1"}), "saved with apache-tvm 0.1, here it is 0.27"),
        (lambda facts: facts["versions"].update(nowhere="1"), "here it is not installed"),
        (lambda facts: facts["machine"].update(machine="riscv64"), "was compiled for riscv64, this is"),
        (lambda facts: facts["machine"]["instructions"].append("avx9000"), "a CPU with avx9000, which this one lacks"),
        (lambda facts: facts.update({"class": ["os", "abc"]}), "is no class of kernels"),
        (lambda facts: facts.update(interface={}), "that of another state of mlirtri"),
        (lambda facts: facts.pop("pipeline"), "cannot be loaded: KeyError"),
    ],
)
def test_another_machine_or_runtime_is_refused_with_what_differs(folder, tmp_path, change, message):
    copy = copied(folder, tmp_path / "kernel")
    edited(copy, change)
    with pytest.raises(KernelError, match=message):
        mt.load(copy)


def test_a_folder_is_replaced_only_if_it_is_a_saved_kernel(folder, tmp_path, monkeypatch):
    x = np.ones((4, 4), np.float32)
    other, kernel = blend.compile(x, x), mt.load(folder)
    copy = copied(folder, tmp_path / "kernel")
    before = mt.load(copy)
    other.save(copy)
    # The loaded code is that of the files at the time of loading.
    assert np.array_equal(mt.load(copy)(x, x), other(x, x))
    assert np.array_equal(before(x, x), kernel(x, x))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    with pytest.raises(ArtifactError, match="holds other files"):
        other.save(tmp_path / "mine")
    with pytest.raises(ArtifactError, match="is a file"):
        other.save(tmp_path / "mine" / "letter.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel", "mine"]
    monkeypatch.setattr(saved_files.Path, "mkdir", refused)
    with pytest.raises(ArtifactError, match=r"could not be written to .*: .*Permission denied"):
        other.save(tmp_path / "new")


def refused(self, *_arguments, **_keywords):
    raise PermissionError(13, "Permission denied", str(self))


def test_a_loaded_kernel_is_a_kernel(folder, tmp_path, monkeypatch):
    x = np.ones((4, 4), np.float32)
    original = product.compile(x, x)
    loaded = mt.load(folder)
    assert repr(loaded) == repr(original)
    assert loaded.stats == original.stats
    assert loaded.interface == original.interface
    out = np.zeros((4, 4), np.float32)
    assert loaded(x, x, out=out) is out
    assert np.array_equal(out, original(x, x))
    assert np.array_equal(loaded(np.asfortranarray(x), b=x), out)
    with pytest.raises(mt.KernelError, match="'a' was compiled for float32"):
        loaded(np.ones((3, 3), np.float32), x)
    with pytest.raises(UnknownOptionError, match="save it with ir=True"):
        loaded.ir["fused"]
    with pytest.raises(ArtifactError, match="cannot be compiled again"):
        _ = loaded.passes
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(result, out) for result in pool.map(lambda _: loaded(x, x), range(40)))
    # Once more to another folder, to the same one under another name, and as bytes.
    monkeypatch.chdir(tmp_path)
    loaded.save("again")
    (tmp_path / "again").rename(tmp_path / "moved, ünï")
    monkeypatch.chdir(tmp_path / "moved, ünï")
    again = mt.load(".")
    again.save(".")
    assert np.array_equal(mt.load(tmp_path / "moved, ünï")(x, x), out)
    with pytest.raises(ArtifactError, match="cannot be unpacked"):
        saved.from_bytes(saved.to_bytes(again)[:100])
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(original))))
    assert np.array_equal(again(x, x), out)
    assert dict(again.ir) == dict(original.ir)
    assert again.to_mlir("fused") == original.to_mlir("fused")
    assert pickle.loads(pickle.dumps(blend)) is blend  # by its name, as a function
    assert again.fusion == original.fusion
    folder = Path(again.files.name)
    assert folder.is_dir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del again
        gc.collect()
    assert not folder.exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", ["product", "grow"])
def test_a_c_program_calls_the_object_file(tmp_path, name):
    x = np.zeros((4, 4), np.float32)
    kernel = (
        product.compile(x, x, pipeline="mlir") if name == "product" else mt.from_mlir(DYNAMIC).compile(pipeline="mlir")
    )
    kernel.save(tmp_path / "kernel")
    # The example's arrays are zeros, of size 4 where that is open.
    wanted = kernel(x, x)
    firsts = [result.ravel()[0] for result in (wanted if isinstance(wanted, tuple) else [wanted])]
    command = ["cc", "-Wall", "-Werror", "example.c", "kernel.o", "-lm", "-o", "example"]
    has_threads = kernel.compilation.executable.convention.has_threads
    if has_threads:
        runtime = Path(runtime_library())
        command += [str(runtime), f"-Wl,-rpath,{runtime.parent}"]
    subprocess.run(command, cwd=tmp_path / "kernel", check=True)
    output = subprocess.run("./example", cwd=tmp_path / "kernel", capture_output=True, text=True, check=True).stdout
    assert output == "".join(f"out{number}[0] = {value:g}\n" for number, value in enumerate(firsts))


def test_the_header_says_what_each_pointer_is(tmp_path):
    table = np.ones((4, 4), ml_dtypes.bfloat16)
    update.compile(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), pipeline="mlir").save(tmp_path / "update")
    header = (tmp_path / "update" / "kernel.h").read_text()
    assert (
        "    float *in0_a,\n    const float *in1_b,\n    float *out0,\n    float *out1,\n    uint8_t *out2);" in header
    )
    halves.compile(table, pipeline="mlir").save(tmp_path / "halves")
    header = (tmp_path / "halves" / "kernel.h").read_text()
    assert "in0_a: bfloat16[4, 4], argument 'a'; the bits of each bfloat16" in header
    assert "const uint16_t *in0_a" in header
    rotate.compile(np.ones(4, np.complex64), 3, pipeline="mlir").save(tmp_path / "rotate")
    header = (tmp_path / "rotate" / "kernel.h").read_text()
    assert "in0_z: complex64[4], argument 'z'; each element is its real and its imaginary part" in header
    assert "static float in0_z[8];" in (tmp_path / "rotate" / "example.c").read_text()
    checked.compile(np.ones((300, 200), np.float32), 3, pipeline="mlir").save(tmp_path / "checked")
    header = (tmp_path / "checked" / "kernel.h").read_text()
    assert "out1: bool[], result 1: 0, or else KernelIndexError: an index is out of bounds" in header


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_kernels_for_cuda_are_saved_where_there_is_no_gpu(tmp_path):
    types = mt.Tensor((64, 64), mt.float32), mt.Tensor((64, 64), mt.float32)
    kernel = product.compile(*types, target="cuda:sm_90")
    kernel.save(tmp_path / "product")
    files = {file.name.partition("-")[0] for file in (tmp_path / "product").iterdir()}
    assert files >= {"manifest.json", "kernel.cu", "cuda"}
    assert ("kernel.fatbin" in files) == (shutil.which("nvcc") is not None)
    assert (tmp_path / "product" / "kernel.cu").read_text() == kernel.compilation.executable.source
    loaded = mt.load(tmp_path / "product")
    assert repr(loaded) == repr(kernel)
    assert "cuda:sm_90" in repr(loaded)
    executable = loaded.compilation.executable
    assert executable.source == kernel.compilation.executable.source
    x = torch.zeros(64, 64)
    with pytest.raises(mt.KernelError, match="TVM finds no CUDA runtime to launch it: libcu"):
        executable.launch([x, x], [x])
    again = pickle.loads(pickle.dumps(loaded))
    assert again.stats == loaded.stats
    assert {name: kernel.stats[name] for name in again.stats} == again.stats
    assert again.stats["launches"] == kernel.stats["launches"] != ()
    assert again.stats["flops"] == kernel.stats["flops"] > 2 * 64**3
    assert again.stats["launches"][0].resources("sm_90").blocks > 0


def test_what_has_no_code_is_refused(tmp_path):
    x = np.ones(4, np.float32)
    with pytest.raises(ArtifactError, match="an emulated device's kernel has no files"):
        halves.compile(x, target="cuda:emulated").save(tmp_path / "emulated")
    with pytest.raises(ArtifactError, match="has no code to save"):
        halves.compile(x, pipeline=mt.Pipeline.named("linalg").until("fused")).save(tmp_path / "early")
    with pytest.raises(ArtifactError, match="cannot be written to files"):
        halves.compile(x, pipeline="interpreter").save(tmp_path / "interpreted")
    assert not any(tmp_path.iterdir())
