"""Valid inputs of every entry point: those of the tests, and a few small models."""

from __future__ import annotations

import ast
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


@cache
def _texts() -> tuple[str, ...]:
    """The string literals of the tests that are programs, and the MLIR files of the lit tests."""
    texts = [path.read_text() for path in sorted(ROOT.glob("lit_tests/**/*.mlir"))]
    for path in sorted(ROOT.glob("tests/**/*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        literals = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        texts += [text for text in literals if "func.func @" in text or "@I.ir_module" in text]
    return tuple(text for text in dict.fromkeys(texts) if len(text) < 6000)


def _mlir() -> list[bytes]:
    return [
        text.encode() for text in _texts() if "func.func" in text and "stablehlo" not in text and "tosa." not in text
    ]


def _bytecode() -> list[bytes]:
    from mlirtri.dialect.bindings.mlir import ir
    from mlirtri.errors import KernelError

    seeds = []
    for text in _mlir():
        try:
            with ir.Context() as context:
                context.allow_unregistered_dialects = True
                file = io.BytesIO()
                ir.Module.parse(text).operation.write_bytecode(file)
                seeds.append(file.getvalue())
        except (ir.MLIRError, KernelError, ValueError):
            continue
    return seeds


def _stablehlo() -> list[bytes]:
    return [text.encode() for text in _texts() if "stablehlo" in text and "func.func" in text]


def _tosa() -> list[bytes]:
    return [text.encode() for text in _texts() if "tosa." in text and "func.func" in text]


def _relax() -> list[bytes]:
    return [text.encode() for text in _texts() if "@I.ir_module" in text and "@R.function" in text]


_ONNX = (
    "g (float[2,3] x) => (float[2,3] y) <float[3] w = {1,2,3}> { s = Add(x, w) y = Softmax<axis=1>(s) }",
    "g (float[1,2,6,6] x) => (float[1,2,3,3] y) { r = Relu(x) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) }",
    "g (float[N,4] x, int64[2] i) => (float[N,2] y) { y = Gather<axis=1>(x, i) }",
    "g (float[4] x, bool c) => (float[4] y) { y = If(c) <then_branch = t () => (float[4] a) { a = Neg(x) }, "
    "else_branch = e () => (float[4] b) { b = Abs(x) }> }",
    "g (float[3,4] x) => (float[4,3] y, int64[2] z) <int64[2] n = {4,3}> { y = Reshape(x, n) z = Shape(y) }",
    "g (float[1,1,4,4] x) => (float[1,2,3,3] y) <float[2,1,2,2] w = {1,2,3,4,5,6,7,8}> { y = Conv(x, w) }",
    "g (float[2,3] x, float[3,2] v) => (float[2,2] y) { m = MatMul(x, v) y = Clip(m) }",
    "g (float[6] x) => (float[3] a, float[3] b) { a, b = Split<num_outputs=2>(x) }",
)


def _onnx() -> list[bytes]:
    import onnx.parser

    head = '<ir_version: 9, opset_import: ["" : 18]> '
    return [onnx.parser.parse_model(head + text).SerializeToString() for text in _ONNX]


def _archives() -> Iterator[bytes]:
    import torch

    class Branches(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))

    linear = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).eval()
    convolution = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.BatchNorm2d(2)).eval()
    size = torch.export.Dim("size", min=2, max=64)
    for module, argument, shapes in (
        (linear, torch.randn(2, 3), None),
        (linear, torch.randn(5, 3), ({0: size},)),
        (convolution, torch.randn(1, 1, 5, 5), None),
        (Branches(), torch.randn(4), None),
    ):
        exported = torch.export.export(module, (argument,), dynamic_shapes=shapes)
        file = io.BytesIO()
        torch.export.save(exported, file)
        yield file.getvalue()


def _stages(names: tuple[str, ...], pipeline: str) -> Callable[[], list[bytes]]:
    def texts() -> list[bytes]:
        import numpy as np

        import mlirtri as mt

        def rows(a, b):
            return np.exp(a @ b).sum(axis=1) / 3

        def steps(a, b):
            out = a * 2
            for i in range(3):
                if a[i, 0] > 0:
                    out[i] = a[i] + i
            return out, b

        found = []
        for function in (rows, steps):
            kernel = mt.jit(function, pipeline=pipeline).compile(
                mt.Tensor((4, 3), mt.float32), mt.Tensor((3, 5), mt.float32)
            )
            records = {name: record for name, record in kernel.compilation.records.items() if name in names}
            found += [f"{name}\n{record.complete()}".encode() for name, record in records.items()]
        return found

    return texts


def _dumps() -> list[bytes]:
    """The manifest of a dump."""
    import tempfile

    import numpy as np

    import mlirtri as mt

    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.5]> : tensor<4xf32>
  %s = arith.addf %a, %w : tensor<4xf32>
  return %s : tensor<4xf32>
}"""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLIRTRI_DUMP_DIR"] = folder
        try:
            mt.from_mlir(text).compile(pipeline="mlir")(np.ones(4, np.float32))
        finally:
            del os.environ["MLIRTRI_DUMP_DIR"]
        [dump] = [path for path in Path(folder).iterdir() if path.is_dir()]
        manifest = json.loads((dump / "manifest.json").read_text())
        seeds = [json.dumps(manifest).encode()]
    return seeds


def _overrides() -> list[bytes]:
    seeds = []
    for pipeline in ("linalg", "mlir"):
        for seed in _stages(("linalg", "fused", "bufferized", "relax", "scheduled"), pipeline)():
            stage, _, text = seed.partition(b"\n")
            suffix = b"py" if stage in (b"relax", b"scheduled") else b"mlir"
            if b"rows" in text:
                seeds.append(b"%s %s.%s\n%s" % (pipeline.encode(), stage, suffix, text))
    return seeds


def _settings() -> list[bytes]:
    from mlirtri.settings import SETTINGS

    values = ("1", "0", "2", "dumps", "fused,linalg", "mlir", "cpu", "recompiles", "linalg", "cuda:sm_80", "4294967296")
    lines = [f"{name}={value}".encode() for name in SETTINGS for value in values]
    return [*lines, *(b"\n".join(lines[start :: len(values) * 3]) for start in range(len(values)))]


def _zipped(folder: Path) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, str(path.relative_to(folder)))
    return file.getvalue()


def _saved() -> list[bytes]:
    import tempfile

    from fuzz.hostile.entries import _kernel

    seeds = []
    function, arguments = _kernel()
    for pipeline in ("linalg", "mlir"):
        with tempfile.TemporaryDirectory() as folder:
            function.compile(*arguments, pipeline=pipeline).save(Path(folder, "saved"))
            seeds.append(_zipped(Path(folder, "saved")))
    return seeds


def _cached() -> list[bytes]:
    import subprocess
    import sys
    import tempfile

    from fuzz.hostile.entries import CACHED

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(CACHED)
        environment = {**os.environ, "MLIRTRI_CACHE_DIR": str(Path(folder, "cache"))}
        subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, check=True)
        return [_zipped(Path(folder, "cache"))]


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "mlir": _mlir,
    "bytecode": _bytecode,
    "stablehlo": _stablehlo,
    "tosa": _tosa,
    "onnx": _onnx,
    "onnx-fields": _onnx,
    "pt2": lambda: list(_archives()),
    "pt2-members": lambda: list(_archives()),
    "relax": _relax,
    "stages": _stages(("tri", "linalg", "fused", "bufferized", "llvmdialect"), "mlir"),
    "tvm-stages": _stages(("relax", "tir", "scheduled"), "linalg"),
    "manifest": _dumps,
    "arguments": lambda: [b"a=f32[2,3]", b"n=i32:1..9", b"n=3", b"axis=(0,1)", b"x=f64[2]:0..1", b"mode='\"mean\"'"],
    "opt": lambda: (
        [b"--canonicalize --cse\n" + text for text in _mlir()]
        + [b"--pass-pipeline=builtin.module(func.func(canonicalize,cse),inline)\n" + text for text in _mlir()[:8]]
    ),
    "overrides": _overrides,
    "environment": _settings,
    "saved-members": _saved,
    "cache-members": _cached,
}
TEXT = frozenset({
    "mlir", "stablehlo", "tosa", "relax", "stages", "tvm-stages", "manifest", "arguments", "opt", "overrides",
    "environment",
})  # fmt: skip
"""Entry points that take text."""


def with_mutated_members(
    archive: bytes, mutate: Callable[[bytes, bool], bytes], choose: Callable[[list], object]
) -> bytes:
    """Return a zip file of which `mutate` has damaged the content of one member, with checksums that are right."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        members = {name: source.read(name) for name in source.namelist()}
    victim = choose([name for name, content in members.items() if content])
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as result:
        for name, content in members.items():
            is_json = name.endswith(".json")
            result.writestr(name, mutate(content, is_json) if name == victim else content)
    return target.getvalue()
