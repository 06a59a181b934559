"""`raise` in kernels: the error that Python raises, after the call, or while compiling where every call raises it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import KernelError, UnsupportedSyntaxError

PIPELINES = ["linalg", "relax", "mlir"]
LIMIT = 9


def straight(a):
    if a.sum() > LIMIT:
        raise ValueError(f"the sum of {a.dtype} is above {LIMIT}")
    return a * 2


def chain(a):
    x = a[0]
    if x < 0:
        raise ValueError("negative", a.shape)
    elif x == 0:
        return x + 10, a
    elif x < 3:
        return x * 2, a
    else:
        raise OverflowError(f"{x} is large")


def in_a_loop(a):
    total = 0
    for i in range(len(a)):
        if a[i] < 0:
            raise IndexError("negative")
        if a[i] == 0:
            raise ZeroDivisionError
        total += 6 // a[i]
    return total


def in_inner_loops(a):
    for i in range(1, 3):
        for j in range(len(a)):
            if a[j] == i and j == 0:
                raise RuntimeError("first")
            if a[a[j]] < 0:
                return j
    raise NotImplementedError("never")


def collatz(a):
    n, steps = a[0], 0
    if n <= 0:
        a[1] = n
        raise ValueError("not positive")
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def endless(a):
    i = 0
    while True:
        if a[i] > 2:
            return i
        i += 1
        if i == len(a):
            raise KeyError("none")


def checked(x):
    if x.ndim != 1:
        raise TypeError("one axis")
    if not (x < LIMIT).all():
        raise ArithmeticError("large")
    return x.shape[0]


def in_a_helper(a):
    n = checked(a)
    return a.sum() / n


def names_of_one_arm(a):
    if a[0] > 0:
        root = np.sqrt(a[0])
    else:
        a[0] = 7
        raise AssertionError("no root")
    return root


def cholesky(a):
    n = a.shape[0]
    if n < 2:
        raise Exception("small")
    lower = a[:1, :].T @ a[:1, :] * 0.0
    for i in range(n):
        for j in range(i + 1):
            rest = a[i, j] - lower[i, :j] @ lower[j, :j]
            if i == j:
                if rest <= 0:
                    raise np.linalg.LinAlgError("not positive definite")
                lower[i, i] = np.sqrt(rest)
            else:
                lower[i, j] = rest / lower[j, j]
    return lower


def after_a_while(a):
    x, count = a[0] * 1.0, 0
    while abs(x * x - a[1]) > 1e-9 and count < 20:
        x = (x + a[1] / x) / 2
        count += 1
    else:
        if count == 20:
            raise RuntimeError("no convergence")
    return x


CALLS = [
    (straight, [[1, 2], [5, 6]]),
    (chain, [[-1], [0], [2], [5]]),
    (in_a_loop, [[1, 2, 3], [1, -2, 0], [2, 0, -1], [-1, 0]]),
    (in_inner_loops, [[3, 1, 2], [1, 9, 9], [0, 7, 1], [1, 0]]),
    (collatz, [[27, 0], [0, 0], [-5, 0]]),
    (endless, [[1, 3, 5], [1, 2, 2]]),
    (in_a_helper, [[1, 2], [1, 20], [[1, 2]]]),
    (names_of_one_arm, [[4.0], [-4.0]]),
    (cholesky, [[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0]]]),
    (after_a_while, [[1.0, 2.0], [1.0, -2.0]]),
]


def outcome(function, argument):
    """Return the result, or the class and the text of the error."""
    try:
        return function(argument)
    except Exception as error:
        return error


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_call_raises_what_python_raises(function, arguments, pipeline):
    kernel = mt.jit(function, pipeline=pipeline)
    for argument in arguments:
        ours, pythons = outcome(kernel, np.array(argument)), outcome(function, np.array(argument))
        if not isinstance(pythons, Exception):
            assert not isinstance(ours, Exception), ours
            for got, wanted in zip(*([r] if not isinstance(r, tuple) else r for r in (ours, pythons)), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-15)
            continue
        assert isinstance(ours, KernelError), ours
        assert isinstance(ours, type(pythons)), (ours, pythons)


def test_the_text_and_the_line_are_the_statements():
    with pytest.raises(ValueError, match="the sum of int64 is above 9") as caught:
        mt.jit(straight)(np.array([5, 6]))
    assert caught.value.span.line == straight.__code__.co_firstlineno + 2
    with pytest.raises(OverflowError, match=r"\{x\} is large"):
        mt.jit(chain)(np.array([5]))
    with pytest.raises(ValueError, match=r"negative \(1,\)"):
        mt.jit(chain)(np.array([-5]))
    with pytest.raises(ZeroDivisionError, match="ZeroDivisionError is raised here"):
        mt.jit(in_a_loop)(np.array([0]))


def test_what_every_call_reaches_is_raised_while_compiling():
    with pytest.raises(TypeError, match="one axis") as caught:
        mt.jit(in_a_helper).compile(mt.Tensor((2, 2), mt.float32))
    assert "in checked, called from here" in str(caught.value)


def test_torch_and_the_interpreter():
    assert mt.jit(straight)(torch.tensor([1, 2])).tolist() == [2, 4]
    for kernel in (mt.jit(straight), mt.jit(straight, pipeline="interpreter")):
        with pytest.raises(ValueError, match="is above 9"):
            kernel(torch.tensor([5, 6]))


def test_a_check_before_whole_arrays_adds_no_branch():
    text = mt.jit(straight).compile(mt.Tensor((4,), mt.float32)).ir["tri"]
    assert "scf." not in text


class OwnError(ValueError):
    def __init__(self, code, *, reason):
        super().__init__(f"{code}: {reason}")


def own(a):
    if a[0] > 0:
        raise OwnError("mine")
    return a


@pytest.mark.parametrize("pipeline", ["linalg", "mlir", "interpreter"])
def test_a_class_of_the_users(pipeline, tmp_path):
    kernel = mt.jit(own, pipeline=pipeline)
    assert kernel(np.zeros(2)).tolist() == [0, 0]
    with pytest.raises(OwnError, match="mine") as caught:
        kernel(np.ones(2))
    assert isinstance(caught.value, mt.KernelError)
    assert type(caught.value).__name__ == "OwnError"
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), OwnError)
    if pipeline == "linalg":
        # A file has no class of a program's.
        mt.jit(own).compile(np.ones(2)).save(tmp_path / "own")
        with pytest.raises(ValueError, match="mine") as caught:
            mt.load(tmp_path / "own")(np.ones(2))
        assert not isinstance(caught.value, OwnError)


def again(a):
    if a[0] > 0:
        raise
    return a


@pytest.mark.parametrize(("function", "message"), [(again, "a `raise` names what it raises")])
def test_what_is_refused(function, message):
    with pytest.raises(UnsupportedSyntaxError, match=message):
        mt.jit(function)(np.ones(2))
