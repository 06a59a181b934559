"""Compilations of one thread share an MLIR context until it has kept enough, or a pass has failed in it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.dialect import working_context as module
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.working_context import leave_context, note_letters, pass_manager, working_context
from mlirtri.errors import PassFailedError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes

BROKEN = """
func.func @f(%a: tensor<4xf32>) -> memref<4xf32> {
  %b = bufferization.to_buffer %a : tensor<4xf32> to memref<4xf32>
  return %b : memref<4xf32>
}"""


@pytest.fixture(autouse=True)
def own_context():
    leave_context()
    yield
    leave_context()


def test_a_context_is_left_after_some_compilations_or_much_text(monkeypatch):
    monkeypatch.setattr(module, "MOST_COMPILATIONS", 2)
    first = working_context()
    assert working_context() is first
    second = working_context()
    assert second is not first
    note_letters(module.MOST_LETTERS)
    assert working_context() is not second


def test_pass_managers_are_kept_for_the_working_context_alone():
    made = []

    def make(text, context):
        made.append(context)
        return object()

    shared, other = working_context(), ir.Context()
    assert pass_manager("cse", shared, make) is pass_manager("cse", shared, make)
    assert pass_manager("cse", other, make) is not pass_manager("cse", other, make)
    assert made == [shared, other, other]


def test_a_failed_pass_leaves_the_context():
    context = working_context()
    with context, ir.Location.unknown():
        broken = ir.Module.parse(BROKEN)
        with pytest.raises(PassFailedError):
            run_passes(broken, [Pass("convert-func-to-llvm", "fails")], CompileContext("f", as_target("cpu")))
    assert working_context() is not context


def test_stages_are_the_same_text_whatever_was_compiled_before():
    def scaled(a):
        return np.exp(a) * 2 + a.sum()

    def looped(a):
        out = np.zeros(a.shape, np.float32)
        for i in range(a.shape[0]):
            out[i] = a[i] / 3
        return out

    a = np.arange(6, dtype=np.float32)
    texts = []
    for earlier in ((), (looped,), (scaled, looped)):
        leave_context()
        for function in earlier:
            mt.jit(function, pipeline="mlir").compile(a)
        kernel = mt.jit(scaled, pipeline="mlir").compile(a)
        texts.append({name: str(kernel.ir[name]) for name in ("tri", "linalg", "fused", "bufferized", "llvmdialect")})
    assert texts[0] == texts[1] == texts[2]


def test_threads_compile_in_contexts_of_their_own():
    contexts, results = {}, {}

    def compile_in(number):
        def scaled(a):
            return a * number

        a = np.arange(4, dtype=np.float32)
        results[number] = mt.jit(scaled, pipeline="mlir")(a).tolist()
        contexts[number] = working_context()

    threads = [threading.Thread(target=compile_in, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [0.0, number, 2.0 * number, 3.0 * number] for number in range(3)}
    assert len({id(context) for context in contexts.values()}) == 3
