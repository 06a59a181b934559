"""The traceback of an error has the user's frames alone, unless `MLIRTRI_DEBUG` asks for the compiler's."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module

import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelError
from mlirtri.lowering.linalg import elementwise as linalg_rules


def product(a: mt.Tensor[[4, 8], mt.float32], w: mt.Tensor[[8, 8], mt.float32]):
    return a @ w


def boom(*_arguments, **_keywords):
    raise RuntimeError("boom")


def refused(a):
    return a.nothing


def frames_of(call):
    try:
        call()
    except (KernelError, TypeError) as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)], error
    raise AssertionError("nothing was raised")


def line_below(function):
    """The line below the one where a function of this file begins."""
    return function.__code__.co_firstlineno + 1


USERS = ["frames_of", "<lambda>"]
"""The frames of a traceback: none is ours."""


@mt.macro
def doubled(value: mt.Ref):
    value = value * 2


def calls_of_classes():
    stage = mt.Stage("extra", "mlir", boom)
    pipeline = mt.Pipeline.named("mlir")
    return (
        lambda: mt.Stage("two words", "mlir", boom),
        lambda: mt.Stage("name", "kind", boom),
        lambda: mt.Pipeline("mine", [1]),
        lambda: mt.Pipeline.named("nothing"),
        lambda: pipeline.insert_before("nothing", stage),
        lambda: pipeline.insert_after("nothing", stage),
        lambda: pipeline.replace("nothing", stage),
        lambda: pipeline.find("nothing"),
        lambda: pipeline.until("nothing"),
        lambda: pipeline.after("nothing"),
        lambda: mt.Tensor((2, -1), mt.float32),
        lambda: mt.Tensor[[2], "nothing"],
        lambda: mt.device("toaster"),
        lambda: mt.device("cpu").__enter__(),
        lambda: mt.relax.nn.relu(1),
        lambda: mt.tensorir(3),
        lambda: mt.sum(1),
        lambda: doubled(1),
        lambda: mt.macro(3),
        lambda: mt.Stage(),
        lambda: mt.jit(doubled, nothing=3),
        lambda: mt.graph(3),
        lambda: mt.dyn["two words"],
        lambda: mt.StridedTensor((2,), mt.float32),
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there a bare `raise` restores the traceback")
def test_a_traceback_has_the_users_frames_alone(tmp_path):
    x = torch.ones(4, 8)
    function = mt.jit(refused)
    assert frames_of(lambda: function(x))[0] == USERS
    assert frames_of(lambda: function.compile(x))[0] == USERS
    assert frames_of(lambda: function(x, x, x))[0] == USERS
    kernel = mt.jit(product).compile()
    assert frames_of(lambda: kernel(x))[0] == USERS
    program = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    calls = (
        lambda: kernel(x),
        lambda: mt.resume(tmp_path / "none.mlir", "tri"),
        lambda: mt.jit(refused, pipeline="nothing"),
        lambda: mt.compare(function, x, x),
        lambda: mt.compare(len, x),
        lambda: mt.tune(function, x),
        lambda: mt.autotune([])(function),
        lambda: mt.autotune([mt.Config()])(len),
        lambda: mt.autotune([mt.Config()])(function)(x),
        lambda: mt.Config(pipeline="nothing"),
        lambda: mt.from_mlir("nothing"),
        lambda: mt.from_mlir(program)(x),
        lambda: mt.from_torch(torch.nn.Linear(8, 2), (x,)).load_state_dict({}),
    )
    for call in calls + calls_of_classes():
        assert frames_of(call)[0] == USERS


def test_debugging_shows_the_compilers_frames(monkeypatch):
    monkeypatch.setenv("MLIRTRI_DEBUG", "1")
    monkeypatch.setattr(import_module("mlirtri.kernels.jit"), "_kernels", {})
    monkeypatch.setitem(linalg_rules.RULES.entries, "matmul", boom)
    frames, error = frames_of(lambda: mt.jit(product).compile())
    assert "run_stages" in frames
    assert isinstance(error.__cause__, RuntimeError)


def test_the_bound_check_of_a_helper_shows_the_call():
    def caller(a):
        return refused(a)

    _, error = frames_of(lambda: mt.jit(caller).compile(torch.ones(2)))
    text = str(error)
    assert f"{__file__}:{line_below(refused)}:" in text
    assert f"{__file__}:{line_below(caller)}:" in text
