"""What leaves mlirtri as MLIR: parsed by bindings that know nothing of ours, and run again with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.dialect.bindings.mlir import ir

RELAX = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), u: R.Tensor((4,), "uint8")):
        y = R.matmul(x, w)
        return (R.add(y, R.astype(u, "float32")), R.maximum(u, u))
"""
RANDOM = np.random.default_rng(0)
X, W = (RANDOM.standard_normal(shape).astype("float32") for shape in ((2, 3), (3, 4)))
U = np.array([0, 1, 200, 255], dtype="uint8")
WANTED = (X @ W + U, U)
STAGES = ("linalg", "fused", "bufferized", "llvmdialect")


@mt.jit(pipeline="mlir")
def normalized(x, w):
    y = x @ w
    return y - np.mean(y, axis=1, keepdims=True), np.argmax(y, axis=1)


def kernel():
    return normalized.compile(X, W)


def program():
    return mt.from_relax(RELAX, params={"w": W})


def parsed(module: str | bytes) -> ir.Module:
    """By a context in which no dialect but upstream's exists."""
    return ir.Module.parse(module, ir.Context())


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("source", [kernel, program])
def test_stock_tools_parse_text_and_bytecode(source, stage, bare):
    text = source().to_mlir(stage, bare=bare)
    code = source().to_mlir(stage, bare=bare, format="bytecode")
    assert isinstance(code, bytes)
    assert code.startswith(b"ML\xefR")
    # Bytecode orders attributes and names values in its own way.
    found, wanted = (str(ir.Module.parse(str(parsed(each)), ir.Context())) for each in (code, text))
    assert len(found.splitlines()) == len(wanted.splitlines())
    assert found.count(" = ") == wanted.count(" = ")
    assert (b"mlirtri.bound" in code) == (stage in STAGES[:2] and not bare and source is program)


def test_bare_text_has_nothing_of_ours():
    for stage in STAGES[:3]:
        text = program().to_mlir(stage, bare=True)
        assert "mlirtri" not in text
        assert "loc(" not in text
    assert 'mlirtri.dtype = "uint8"' in program().to_mlir()
    assert 'mlirtri.bound = "w"' in program().to_mlir()


def test_bytecode_runs_again():
    found = mt.from_mlir(program().to_mlir(format="bytecode", params="inline"))(X, U)
    for f, w in zip(found, WANTED, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-6)


def test_weights_are_arguments_or_constants():
    outside, inside = program().to_mlir(bare=True), program().to_mlir(params="inline", bare=True)
    assert "%w: tensor<3x4xf32>" in outside
    assert "tensor<3x4xf32>" not in inside.partition("func.func")[2].partition("{")[0]
    assert "dense<" in inside
    named = mt.from_mlir(outside)
    for f, w in zip(named(X, U.view("int8"), W), WANTED, strict=True):
        np.testing.assert_allclose(np.asarray(f).view(w.dtype), w, rtol=1e-6)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32([[1, np.nan], [-np.inf, -0.0]]), None),
        (np.array([True, False, True]), None),
        (np.full((5, 7), 2.5), "dense<2.5"),
        (np.float16([1, 65504, 6e-8]), None),
        (np.array([2**63, 1], dtype="uint64"), None),
        (np.array([1 + 2j, 0]), None),
        (np.zeros((0, 3), "float32"), None),
        (np.arange(1000, dtype="int16"), None),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, np.ndarray) else "",
)
def test_constants_keep_their_bits(array, text):
    from mlirtri.lowering.mlir_common.constants import constant_of, operation_constant

    with ir.Context(), ir.Location.unknown():
        element = {"b": "i1", "u": f"i{array.itemsize * 8}", "c": "complex<f64>"}.get(array.dtype.kind)
        element = element or f"{array.dtype.kind}{array.itemsize * 8}"
        kind = ir.RankedTensorType.get(list(array.shape), ir.Type.parse(element))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            constant_of(array, kind)
        again = ir.Module.parse(str(module))
        [constant] = again.body.operations
        assert text is None or text in str(module)
        assert operation_constant(constant.operation).tobytes() == array.tobytes()


def test_results_in_the_callers_memory():
    text = program().to_mlir("fused", destinations=True, bare=True)
    signature = text.partition("func.func")[2].partition("\n")[0]
    assert "-> (" not in signature
    assert "%out0: memref<2x4xf32>" in signature
    assert "%out1: memref<4xi8>" in signature
    assert text.count("bufferization.materialize_in_destination") == 2
    module = parsed(text)
    with module.context:
        from mlirtri.dialect.bindings.mlir import passmanager

        passmanager.PassManager.parse(
            "builtin.module(eliminate-empty-tensors,one-shot-bufferize{bufferize-function-boundaries=true})"
        ).run(module.operation)
    assert "tensor<" not in str(module)


def test_what_cannot_be():
    with pytest.raises(mt.KernelError, match="stage 'relax' is not MLIR"):
        program().to_mlir("relax")
    with pytest.raises(mt.KernelError, match="export stage linalg or fused"):
        program().to_mlir("bufferized", params="inline")
    with pytest.raises(mt.KernelError, match="export stage linalg or fused"):
        kernel().to_mlir("llvmdialect", destinations=True)
    with pytest.raises(mt.KernelError, match="format='binary' is not known"):
        kernel().to_mlir(format="binary")
    with pytest.raises(mt.KernelError, match="one of arguments, inline"):
        kernel().to_mlir(params="constants")


# --- from_relax ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_relax_program_runs_in_every_pipeline(pipeline):
    bound = program().compile(pipeline=pipeline)
    assert [each.name for each in bound.interface.parameters] == ["x", "u"]
    assert bound.pipeline.names[0] == ("imported" if pipeline == "linalg" else "relax")
    free = mt.from_relax(RELAX).compile(pipeline=pipeline)
    for found in (bound(X, U), free(X, W, U)):
        assert isinstance(found, tuple)
        for f, w in zip(found, WANTED, strict=True):
            assert f.dtype == w.dtype
            np.testing.assert_allclose(f, w, rtol=1e-6)


def test_modules_paths_and_parameters(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(RELAX)
    module = mt.from_relax(file).module
    for source, params in ((str(file), {"w": W}), (module, {"w": W}), (module, {"main": [W, U]})):
        found = mt.from_relax(source, params=params)
        arguments = (X,) if "main" in params else (X, U)
        np.testing.assert_allclose(found(*arguments)[0], WANTED[0], rtol=1e-6)
    changed = mt.from_relax(module, params={"w": W})
    changed(X, U)
    changed.params["w"] = 2 * W
    np.testing.assert_allclose(changed(X, U)[0], X @ (2 * W) + U, rtol=1e-6)


def test_large_constants_are_parameters():
    text = RELAX.replace("return (R.add(y", "return (R.add(R.add(y, R.sum(C))")
    from mlirtri.lowering.toolchain.tvm_names import relax

    module = mt.from_relax(text.replace("R.sum(C)", "R.sum(w)")).module
    [(callee, function)] = [each for each in module.functions_items() if isinstance(each[1], relax.Function)]
    table = RANDOM.standard_normal((3, 40)).astype("float32")
    other = relax.Function(
        [function.params[0]],
        relax.op.matmul(function.params[0], relax.const(table)),
        relax.TensorType((2, 40), "float32"),
    )
    module.update_func(callee, other)
    for pipeline in ("linalg", "mlir"):
        kernel = mt.from_relax(module).compile(pipeline=pipeline)
        assert list(kernel.params) == ["constant"]
        np.testing.assert_allclose(kernel(X), X @ table, rtol=1e-5)


def test_refusals():
    with pytest.raises(mt.KernelError, match="not TVMScript"):
        mt.from_relax("@I.ir_module\nclass Module:\n    x = (\n")
    with pytest.raises(mt.KernelError, match="no function has a parameter 'v'"):
        mt.from_relax(RELAX, params={"v": W})
    with pytest.raises(mt.KernelError, match="takes an IRModule"):
        mt.from_relax(3)
    recursive = RELAX.replace("y = R.matmul(x, w)", "q = Module.main(x, w, u)\n        y = R.matmul(x, w)")
    recursive = recursive.replace(
        '"uint8")):', '"uint8")) -> R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((4,), "uint8")):'
    )
    with pytest.raises(mt.KernelError, match="calls itself"):
        mt.from_relax(recursive.replace("Module.main", "cls.main").replace("y = ", "y = ", 1).replace(
            "        q = ", "        cls = Module\n        q = ")).compile()  # fmt: skip


def test_everything_that_has_no_counterpart_is_said_at_once():
    text = RELAX.replace("y = R.matmul(x, w)", """
        a = R.call_dps_packed("nobody.knows", (x,), out_ty=R.Tensor((2, 3), "float32"))
        b = R.call_pure_packed("nobody.cares", a, ty_args=R.Tensor((2, 3), "float32"))
        y = R.matmul(b, w)""")  # fmt: skip
    with pytest.raises(mt.KernelError) as caught:
        mt.from_relax(text).to_mlir()
    assert "call_dps_packed" in str(caught.value)
    assert "call_pure_packed" in str(caught.value)
