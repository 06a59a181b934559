"""IREE, which nobody here wrote, compiles and runs what mlirtri exports, and gives the numbers of NumPy and torch.

The kernels are of every kind that the frontend has; programs come from Relax, MLIR and torch. Skipped without the extra
``iree``. What IREE itself cannot: elements inserted one by one into arrays of two axes and more (it writes past them),
and the C library's functions of fp64.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from relax_results import SEVERAL, flat

import mlirtri as mt

compiler = pytest.importorskip("iree.compiler", reason="needs the extra iree")
runtime = pytest.importorskip("iree.runtime", reason="needs the extra iree")

pytestmark = pytest.mark.slow
FLAGS = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]
RANDOM = np.random.default_rng(0)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def run_by_iree(module: str | bytes, name: str, arguments) -> list[np.ndarray]:
    code = compiler.compile_str(module, target_backends=["llvm-cpu"], extra_args=FLAGS)
    loaded = runtime.load_vm_flatbuffer(code, driver="local-sync")
    # IREE's integers have no sign, as MLIR's.
    given = [each.view(f"i{each.itemsize}") if each.dtype.kind == "u" else each for each in map(np.asarray, arguments)]
    made = loaded[name](*given)
    return [each.to_host() if hasattr(each, "to_host") else np.asarray(each) for each in flat_results(made)]


def flat_results(made) -> list:
    return [each for part in made for each in flat_results(part)] if isinstance(made, (tuple, list)) else [made]


def check(found: list[np.ndarray], wanted: list) -> None:
    assert len(found) == len(wanted)
    for f, w in zip(found, map(np.asarray, wanted), strict=True):
        assert f.shape == w.shape
        assert f.itemsize == w.itemsize
        if f.dtype != w.dtype:
            f = f.view(w.dtype)
        tolerance = 2e-2 if w.dtype.itemsize == 2 else 1e-4 if w.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(f, w, tolerance, tolerance)


# --- kernels ---------------------------------------------------------------------------------------------------------


def linear_relu(a, b, c):
    return np.maximum(a @ b + c, 0)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def statistics(x):
    return np.mean(x, axis=0), np.std(x), np.argmax(x, axis=1), np.min(x)


def signed(a, b):
    return a // b, a % b, a * b, a << 2, a ^ b


def unsigned(a, b):
    return a // b, a % b, a + b, a < b, np.maximum(a, b), a.astype(np.float32)


def doubles(a, b):
    return a @ b, np.sqrt(np.abs(a)), np.rint(a)


def choices(m, a, b):
    return np.where(m, a, b), np.any(m), np.all(m, axis=0), ~m


def gathered(x, i):
    return x[i], np.take(x, i, axis=1)


def shapes(x):
    return x.transpose(2, 0, 1), x.reshape(6, 8), x[:, ::2, 1:5], np.concatenate((x, x), axis=1)


def padded(x):
    return np.pad(x, ((1, 2), (0, 3))), np.roll(x, 2, axis=1), x[::-1]


def running(x):
    return np.cumsum(x), np.cumprod(x)


def batched(a, b):
    return np.matmul(a, b), np.einsum("bij,bjk->ik", a, b)


def outer(a, b):
    return np.outer(a, b), a[:, None] - b


def functions(x):
    return np.sin(x), np.exp(x), np.log1p(np.abs(x)), np.floor(x), np.arctan(x), np.sinh(x)


def rows(x):
    y = x * 1
    for i in range(1, 6):
        y[i] = y[i] + 0.5 * y[i - 1]
    return y


def scaled(x, s):
    return x * s, s + 1


def counted(x):
    n = 0
    s = 0.0
    while s < 3.0 and n < 16:
        s = s + abs(x[n])
        n = n + 1
    return s, n


def branched(x):
    if x[0] > 0:
        y = x * 2
    else:
        y = x - 1
    return y


def triangles(x):
    return np.tril(x), np.triu(x, 1), np.trace(x), np.diag(x)


def norms(a, b):
    return np.linalg.norm(a), a @ b, np.dot(b, b)


def constants(x):
    return x + np.array([1.0, 2.0, 3.0], dtype=np.float32), np.arange(3) * 2, np.linspace(0, 1, 5)


def attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def normalized(x, w, b):
    return torch.nn.functional.layer_norm(x, (16,), w, b), torch.nn.functional.gelu(x), torch.nn.functional.silu(x)


def halves(a, b):
    return a @ b, torch.softmax(a, 1), a + 1


Q = floats(2, 4, 6, 8)
INTEGERS = RANDOM.integers(-50, 50, (4, 6)).astype("int32"), RANDOM.integers(1, 9, (4, 6)).astype("int32")
BYTES = RANDOM.integers(0, 255, (4, 6)).astype("uint8"), RANDOM.integers(1, 255, (4, 6)).astype("uint8")
KERNELS = [
    (linear_relu, floats(8, 16), floats(16, 12), floats(12)), (softmax, floats(6, 9)), (statistics, floats(5, 7)),
    (signed, *INTEGERS), (unsigned, *BYTES), (doubles, floats(3, 4, dtype="float64"), floats(4, 3, dtype="float64")),
    (choices, floats(4, 5) > 0, floats(4, 5), floats(4, 5)), (gathered, floats(6, 5), np.array([3, 0, 4, 1])),
    (shapes, floats(2, 3, 8)), (padded, floats(4, 5)), (running, floats(9)),
    (batched, floats(3, 4, 5), floats(3, 5, 2)), (outer, floats(7), floats(9)), (functions, floats(4, 8)),
    (rows, floats(6, 6)), (scaled, floats(6, 6), np.float64(3)), (counted, floats(16)),
    (branched, floats(5)), (triangles, floats(5, 5)), (norms, floats(5, 5), floats(5)),
    (constants, floats(3)), (attention, Q, Q[::-1].copy(), Q + 1), (normalized, floats(4, 16), floats(16), floats(16)),
    (halves, floats(4, 6, dtype="float16"), floats(6, 3, dtype="float16")),
]  # fmt: skip
TORCH = (attention, normalized, halves)


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case[0].__name__)
def test_kernels(case):
    function, *arguments = case
    given = [torch.from_numpy(each) for each in arguments] if function in TORCH else arguments
    kernel = mt.jit(function, pipeline="mlir").compile(*given)
    wanted = flat(function(*given))
    check(run_by_iree(kernel.to_mlir("fused"), function.__name__, arguments), wanted)


def test_there_are_enough():
    assert len(KERNELS) >= 20


def test_bytecode():
    kernel = mt.jit(softmax, pipeline="mlir").compile(KERNELS[1][1])
    module = kernel.to_mlir("linalg", bare=True, format="bytecode")
    check(run_by_iree(module, "softmax", KERNELS[1][1:]), [softmax(KERNELS[1][1])])


# --- programs --------------------------------------------------------------------------------------------------------

RELAX = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((6, 2, 3, 3), "float32"), b: R.Tensor((6,), "float32")):
        y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=2)
        z = R.nn.max_pool2d(R.nn.relu(R.add(y, R.reshape(b, (1, 6, 1, 1)))), [2, 2], strides=[2, 2])
        return (R.nn.log_softmax(R.flatten(R.mean(z, axis=[2]))), R.argmax(z, axis=1))
"""
MLIR = """
func.func @main(%x: tensor<3x4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %sums = linalg.reduce ins(%x : tensor<3x4xf32>) outs(%start : tensor<4xf32>) dimensions = [0]
    (%a: f32, %o: f32) {
      %factor = tensor.extract %s[] : tensor<f32>
      %b = arith.mulf %a, %factor : f32
      %c = arith.addf %o, %b : f32
      linalg.yield %c : f32
    }
  return %sums : tensor<4xf32>
}
"""


def test_relax():
    arguments = floats(1, 4, 8, 8), floats(6, 2, 3, 3), floats(6)
    program = mt.from_relax(RELAX)
    check(run_by_iree(program.to_mlir(), "main", arguments), flat(program(*arguments)))


def test_relax_with_branches():
    x = floats(4)
    for condition in (np.array(True), np.array(False)):
        wanted = flat(mt.from_relax(SEVERAL).compile("main")(x, condition))
        module = mt.from_relax(SEVERAL).to_mlir(entry="main")
        check(run_by_iree(module, "main", [x, condition.astype("int8")]), wanted)


def test_imported_mlir():
    x, s = floats(3, 4), np.float32(1.5)
    check(run_by_iree(mt.from_mlir(MLIR).to_mlir(), "main", [x, s]), [(x * s).sum(0)])


class Block(torch.nn.Module):
    """A transformer's."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        self.forward_ = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.forward_(self.norm(x))


def perceptron():
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 10), torch.nn.Softmax(-1)
    )


def convolutional():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 8, 3, stride=2, groups=2), torch.nn.Flatten(), torch.nn.Linear(72, 5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "shape"), [(perceptron, (4, 16)), (convolutional, (2, 3, 16, 16)), (Block, (2, 6, 16))]
)
def test_models(model, shape):
    torch.manual_seed(0)
    module, x = model().eval(), torch.randn(shape)
    text = mt.from_torch(module, (x,)).to_mlir(params="inline")
    [name] = re.findall(r"func\.func @(\w+)", text)
    with torch.no_grad():
        check(run_by_iree(text, name, [x.numpy()]), [module(x)])


# --- beside the pipelines --------------------------------------------------------------------------------------------


def test_iree_is_a_row_of_a_comparison():
    x = floats(6, 8)
    found = mt.compare(mt.jit(softmax), x, pipelines=("mlir",), beside="iree", repeat=1)["iree"]
    assert found.refusal is None
    assert found.max_error < 1e-6
    counts = mt.compare(mt.jit(unsigned), *BYTES, pipelines=("mlir",), beside="iree", repeat=1)["iree"]
    assert (counts.refusal, counts.max_error) == (None, 0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
    program = mt.from_torch(module.eval(), (torch.from_numpy(x),))
    row = mt.compare(program, torch.from_numpy(x), pipelines=("mlir",), beside="iree", repeat=1)["iree"]
    assert row.refusal is None
    assert row.max_relative < 1e-5


def add_into(total, x):
    total += x


def test_a_kernel_that_writes_is_refused():
    found = mt.compare(mt.jit(add_into), floats(4), floats(4), pipelines=("mlir",), beside="iree", repeat=1)["iree"]
    assert "writes an argument" in found.refusal
