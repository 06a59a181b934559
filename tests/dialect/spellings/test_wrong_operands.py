"""Operands of a kind that a library function does not take are refused at the line of the call."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from wrong_operands import failure, mutants

import mlirtri as mt
from mlirtri.errors import KernelDivisionError, KernelTypeError, KernelValueError


def test_a_sample_of_wrong_calls_is_refused():
    errors = [failure(text, arrays, case.name.startswith(("torch.", "Tensor."))) for case, text, arrays in mutants(199)]
    assert len(errors) > 100
    assert [str(error) for error in errors if error is not None] == []


WRONG = {
    "got str 'a'": lambda x: np.isin(x, [1, "a"]),
    "got the class float32": lambda x: np.pad(x, 1, constant_values=np.float32),
    r"got a tuple of int 1, int 2": lambda x: F.softplus(x, beta=(1, 2)),
    r"got a tuple of int 1": lambda x: F.layer_norm(x, (3,), eps=(1,)),
    "got str 'c'": lambda x: np.linspace([0, 1], ["c", 2], 3),
    "got str 'b'": lambda x: np.logspace("b", 1),
    r"vander\(N=…\) is an integer, not 2.5": lambda x: np.vander(x, 2.5),
    r"threshold=…\) is a real number, not 1j": lambda x: F.softplus(x, 1, 1j),
    r"vstack\(tup=…\) is a tuple or list of tensors, not 1": lambda x: np.vstack(1),
    r"split_size_or_sections=…\) is an integer or several, not None": lambda x: torch.split(x, None),
    r"bias=…\) is a tensor, not 0.5": lambda x: F.linear(x, x, 0.5),
    r"mode=…\) is a text or a number, not \[1\]": lambda x: np.convolve(x, x, [1]),
}


@pytest.mark.parametrize("message", WRONG)
def test_kinds_of_operands(message):
    with pytest.raises(KernelTypeError, match=message) as raised:
        mt.jit(WRONG[message], pipeline="interpreter").compile(torch.ones(3))
    assert raised.value.span.line == WRONG[message].__code__.co_firstlineno


def test_weights_that_sum_to_zero():
    average = mt.jit(lambda x, w: np.average(x, axis=0, weights=w), pipeline="interpreter")
    weights = np.array([[1.0, 2.0], [3.0, -1.0]])
    np.testing.assert_array_equal(average(weights, weights), np.average(weights, axis=0, weights=weights))
    weights[0, 1] = 1.0
    with pytest.raises(KernelDivisionError, match="sum to zero"):
        average(weights, weights)
    with pytest.raises(KernelDivisionError, match="a spacing of 0"):
        mt.jit(lambda: np.fft.rfftfreq(4, 0.0), pipeline="interpreter")()


@pytest.mark.parametrize(
    "view", [lambda x: x[::2].view("u4"), lambda x: x[:, ::2].view("u1"), lambda x: x.T.view("u1")]
)
def test_views_of_elements_that_lie_apart(view):
    bits = np.arange(32, dtype=np.uint16).reshape(4, 8)
    kernel = mt.jit(view, pipeline="interpreter")
    try:
        expected = view(bits)
    except ValueError:
        with pytest.raises(KernelValueError, match="follow each other along the last axis"):
            kernel(bits)
    else:
        np.testing.assert_array_equal(kernel(bits), expected)
