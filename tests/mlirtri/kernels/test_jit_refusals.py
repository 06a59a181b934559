"""Functions that `@mlirtri.jit` refuses: without source, methods, coroutines; names and options that are not there."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri import errors

X = np.ones((2, 3), np.float32)
V = np.ones(3, np.float32)


def test_source_that_is_not_there():
    namespace: dict = {}
    exec(compile("def f(x): return x", "<nowhere>", "exec"), namespace)
    with pytest.raises(errors.SourceNotAvailableError, match="the source of 'f' is not available"):
        mt.jit(namespace["f"])(X)
    with pytest.raises(errors.SourceNotAvailableError, match="jit takes a Python function"):
        mt.jit(len)


class Owner:
    @mt.jit
    def method(self, x):
        return x

    @staticmethod
    @mt.jit
    def doubled(x):
        return x * 2

    def plain(self, x):
        return x


def test_methods_are_refused():
    with pytest.raises(errors.SourceNotAvailableError, match="'method' is a method") as caught:
        Owner().method(X)
    assert caught.value.help == "call it on the class: Owner.method(…)"
    with pytest.raises(errors.SourceNotAvailableError, match="'plain' is a method"):
        mt.jit(Owner().plain)(X)
    with pytest.raises(errors.SourceNotAvailableError, match="jit takes a Python function") as caught:
        mt.jit(staticmethod(coroutine))
    assert caught.value.help == "put @staticmethod above @mlirtri.jit"


def test_kernels_in_a_class_are_called_on_the_class():
    assert np.array_equal(Owner.method(V, X), X)
    assert np.array_equal(Owner.doubled(X), X * 2)
    assert np.array_equal(Owner().doubled(X), X * 2)


@mt.jit(pipeline="mlir")
def weighted_loss(prediction, target, schedule: int = 2):
    return ((prediction - target) ** 2).sum() * schedule


def test_parameters_may_have_names_of_options():
    assert weighted_loss(V, target=V * 2, schedule=3) == 9
    assert weighted_loss.compile(V, target=V, pipeline="linalg").pipeline.name == "linalg"
    assert weighted_loss.compile(V, V, schedule=5).pipeline.name == "mlir"
    assert weighted_loss.compile(V, V, schedule=5)(V, V * 2) == 15
    config = {"prediction": V, "target": mt.Tensor((3,), mt.float32), "pipeline": "relax"}
    [kernel] = weighted_loss.par_compile([config], workers=1)
    assert kernel.pipeline.name == "relax"


async def coroutine(x):
    return x


def test_coroutines_are_refused():
    with pytest.raises(errors.UnsupportedSyntaxError, match="cannot be async"):
        mt.jit(coroutine)(X)


def test_language_functions_outside_of_a_kernel():
    with pytest.raises(errors.KernelError, match="called outside of one"):
        mt.exp(1.0)
    with pytest.raises(AttributeError, match="no attribute 'exq'"):
        _ = mt.exq
