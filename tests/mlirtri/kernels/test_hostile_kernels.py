"""Sizes and numbers past all memory and all integers, in kernels and in arguments: a `KernelError` at the line."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt
from mlirtri.errors import KernelMemoryError, KernelTypeError, KernelValueError
from mlirtri.kernels.argument_text import parse_argument, random_array

A = np.ones(3, np.float32)


def zeros(a):
    return np.zeros(10**20, np.float32) + a[0]


def square(a):
    return np.zeros((10**10, 10**10), np.float32) + a[0]


def tiled(a):
    return np.tile(a, 10**19)


def repeated(a):
    return np.repeat(a, 2**62)


def broadcast(a):
    return np.broadcast_to(a, (2**62, 2**62, 3)).sum()


def counted(a):
    return np.arange(10**19)


def padded(a):
    return np.pad(a, 2**63)


def concatenated(a):
    return np.concatenate([np.zeros(2**62)] * 4)


@pytest.mark.parametrize(
    "function", [zeros, square, tiled, repeated, broadcast, counted, padded, concatenated], ids=lambda f: f.__name__
)
def test_a_tensor_past_all_memory_is_refused_at_its_line(function):
    with pytest.raises(KernelMemoryError, match=r"elements of \w+ is past all memory") as caught:
        mt.jit(function).compile(A)
    assert caught.value.span.line == function.__code__.co_firstlineno + 1


def multiplied(a):
    return a * 10**400


def looped(a):
    total = 0.0
    for _ in range(10**30):
        total += a[0]
    return total


@pytest.mark.parametrize(
    ("function", "message", "line"), [(multiplied, "int too large to convert", 1), (looped, "past 64 bits", 2)]
)
def test_a_number_past_its_type_is_refused_at_its_line(function, message, line):
    with pytest.raises(KernelValueError, match=message) as caught:
        mt.jit(function).compile(A)
    assert caught.value.span.line == function.__code__.co_firstlineno + line


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (f"a=f32[{'9' * 5000}]", KernelValueError, "is not a size"),
        (f"a=f32[{'9' * 19},9]", KernelValueError, "is not a size"),
        ("a=f32[2 3]", KernelValueError, "'2 3' is not a size"),
        ("a=" + "[" * 5000, KernelValueError, "neither a tensor nor a Python literal"),
        ("a=f99[3]", KernelTypeError, "'f99' is not a dtype"),
    ],
    ids=["digits", "64 bits", "two", "nesting", "dtype"],
)
def test_an_argument_of_the_command_line_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        parse_argument(text)


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_random_data_past_all_memory_is_refused(dtype):
    with pytest.raises(KernelMemoryError, match="no memory for random data of 'a'"):
        random_array("a", mt.Tensor((10**15, 9000), dtype).type)
