"""TVMScript is parsed without a look at the Python stack."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import mlirtri as mt
from mlirtri.lowering.toolchain import tvm_text
from mlirtri.lowering.toolchain.tvm_names import IRModule, ir, register_pure_operator, structural_equal, tirx


@mt.jit
def shifted(a: mt.Tensor[[4, 8], mt.float32]):
    return a + 1


def test_no_decorator_of_a_text_looks_at_the_python_stack(monkeypatch):
    kernel = shifted.compile()
    modules = [kernel.compilation.records[stage].ir for stage in ("relax", "tir", "scheduled")]
    texts = [tvm_text.print_complete(module) for module in modules]
    assert all("@T.prim_func" in text and "@R.function" in text for text in texts)
    monkeypatch.setattr(inspect, "stack", lambda *_: 1 / 0)
    for module, text in zip(modules, texts, strict=True):
        assert structural_equal(tvm_text.parse(text, "text"), tvm_text.without_spans(module))


N = mt.dyn["n"]


@mt.jit
def of_any_length(a: mt.Tensor[[N], mt.float32]):
    return a + 1


def test_texts_are_the_same_for_every_version_of_python(monkeypatch):
    kernel = of_any_length.compile()
    modules = [kernel.compilation.records[stage].ir for stage in ("relax", "tir", "scheduled")]
    monkeypatch.setattr("tvm.runtime.script_printer.sys", SimpleNamespace(version_info=(3, 9)))
    older = [(tvm_text.print_readable(module), tvm_text.print_complete(module)) for module in modules]
    monkeypatch.setattr("tvm.runtime.script_printer.sys", SimpleNamespace(version_info=(3, 14)))
    assert older == [(tvm_text.print_readable(module), tvm_text.print_complete(module)) for module in modules]


def test_operators_of_ours_are_printed_without_warnings(capfd):
    operator = register_pure_operator("tirx.mlirtri_wrapping_test", "an operator of this test")
    left = tirx.Var("left", "int32")
    assert "mlirtri_wrapping_test(left, left)" in str(ir.Call(operator, [left, left], ret_ty="int32"))
    assert "Warning" not in capfd.readouterr().err


def test_constants_of_128_bits_are_read_back():
    x = tirx.Var("x", "int64")
    wide = tirx.Mul(tirx.Cast("int128", x), tirx.IntImm("int128", 3))
    body = tirx.Evaluate(tirx.Cast("int64", wide))
    module = IRModule({"f": tirx.PrimFunc([x], body).with_attr({"global_symbol": "f", "tirx.noalias": True})})
    text = tvm_text.print_complete(module)
    assert "T.int128(3)" in text
    assert structural_equal(tvm_text.parse(text, "text"), module)
