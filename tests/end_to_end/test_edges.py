"""Edges where compilers go wrong quietly: long sums, empty parts, signed zeros, operators that are not functions.

Every case runs through all pipelines and is compared with the library, zeros' signs included.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tolerances import tolerance

import mlirtri as mt
from mlirtri import errors

PIPELINES = ("linalg", "relax", "mlir")
SCALE = np.float32(2)
EPSILON_OF_ONE = {"float64": 32 * 2.0**-52, "float32": 32 * 2.0**-23}
"""For normalised values around 1, whose small ones are differences of large ones."""


def totals(x):
    return x.mean(), x.sum()


def row_totals(x):
    return x.sum(1)


def powers(x):
    return x**2.0, x**0.5, x**2


def norms(x, w):
    return F.rms_norm(x, (16,), w), F.layer_norm(x, (16,), w, w)


def joined(x):
    return torch.cat([x, x], 0), torch.stack([x, x]), torch.cat([x, x[:0]], 0)


def fields(x):
    return torch.max(x, 1).values, torch.min(x, 1).indices


def remainders(x, y):
    return x % y, x // y


def scaled(x):
    return x * SCALE


def wrapped_logsumexp(x):
    return torch.logsumexp(x, 0)


def rounded(x):
    return torch.round(x, decimals=1)


# Before 2.3 NumPy squared integers to the power of 2.0 as integers.
IS_NEW_NUMPY = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 3)
POWER_DTYPES = (np.float32, np.float64, *((bool, np.int8, np.int32) if IS_NEW_NUMPY else ()))
CASES = [
    (rounded, (torch.tensor([1e4, 0.26, -3.14]).half(),)),
    (totals, (torch.ones(5000, 401),)),
    (totals, (np.full(10**6, 0.1, np.float32),)),
    (totals, (torch.ones(300, 400).half(),)),
    (row_totals, (torch.linspace(1, 2, 25005).reshape(5, 5001),)),
    *((powers, (np.array([100, 3, 1]).astype(dtype),)) for dtype in POWER_DTYPES),
    (norms, (torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(4, 16), torch.ones(16, dtype=torch.float64))),
    *((joined, (torch.ones(shape),)) for shape in ((0, 4), (3, 0), (2, 3))),
    (fields, (torch.linspace(-1, 1, 12).sin().reshape(3, 4),)),
    (remainders, (np.array([0.0, -0.0, 0.0, 3.0, -3.0, 0.5]), np.array([1.0, 1.0, -1.0, 3.0, 3.0, np.inf]))),
    *((scaled, (np.ones(3, dtype),)) for dtype in (np.float16, np.float64)),
    (wrapped_logsumexp, (torch.tensor([255, 254, 3], dtype=torch.uint8),)),
]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_as_the_library(function, arguments, pipeline):
    with np.errstate(all="ignore"):
        wanted = function(*arguments)
    found = mt.jit(function, pipeline=pipeline)(*arguments)
    for f, w in zip(flat(found), flat(wanted), strict=True):
        assert (f.dtype, f.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(f, w, rtol=tolerance(w.dtype.name), atol=EPSILON_OF_ONE.get(w.dtype.name, 0))
        assert np.array_equal(np.signbit(f), np.signbit(w))


def flat(value) -> list[np.ndarray]:
    return [np.asarray(each) for each in (value if isinstance(value, tuple) else (value,))]


def keyword_only(a, *, b=2):
    return a * b


def test_keyword_only_parameters_are_named():
    kernel = mt.jit(keyword_only)
    assert np.array_equal(kernel(np.ones(3), b=3), np.full(3, 3.0))
    with pytest.raises(errors.ArgumentMismatchError, match="too many positional"):
        kernel(np.ones(3), 3)


@pytest.mark.parametrize("value", [np.ma.masked_array([1.0, 2.0], [0, 1]), np.matrix([[1.0]])])
def test_arrays_with_rules_of_their_own_are_refused(value):
    with pytest.raises(errors.ArgumentMismatchError, match="rules of its own"):
        mt.jit(totals)(value)


def pair(x):
    return x + 1, x + 2


def test_out_that_overlaps_itself_is_refused():
    x = torch.ones(4, 6)
    with pytest.raises(errors.ArgumentMismatchError, match="share memory"):
        mt.jit(keyword_only)(x, out=torch.zeros(6).expand(4, 6))
    out = torch.zeros(4, 6)
    with pytest.raises(errors.ArgumentMismatchError, match="share memory"):
        mt.jit(pair)(x, out=(out, out))


def test_deep_expressions_end_in_a_sentence(tmp_path):
    file = tmp_path / "deep.py"
    file.write_text(f"def deep(x):\n    return {'+'.join(['x'] * 1500)}\n")
    namespace: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    with pytest.raises(errors.KernelValueError, match="nested too deeply") as caught:
        mt.jit(namespace["deep"])(np.ones(3))
    assert (caught.value.span.file, caught.value.span.line, caught.value.span.column) == (str(file), 2, 5)


def halves(x):
    return x / 2, x.sum()


def test_semantics_may_be_chosen():
    array = np.array([1, 2], np.int8)
    quotient, total = mt.jit(halves, semantics="torch")(array)
    assert (type(quotient), quotient.dtype, total.dtype) == (np.ndarray, np.float32, np.int64)
    quotient, total = mt.jit(halves, semantics="numpy")(torch.from_numpy(array))
    assert (type(quotient), quotient.dtype) == (torch.Tensor, torch.float64)
    with pytest.raises(errors.UnknownOptionError, match="unknown semantics 'jax'"):
        mt.jit(halves, semantics="jax")


def test_out_with_a_negative_stride_is_refused():
    with pytest.raises(errors.ArgumentMismatchError, match="negative stride"):
        mt.jit(keyword_only)(np.ones(3), out=np.zeros(3)[::-1])


def three_hundred(x):
    return np.full_like(x, 300)


def test_numbers_that_a_dtype_does_not_hold():
    assert np.array_equal(mt.jit(three_hundred)(np.ones(2, np.int16)), np.full(2, 300, np.int16))
    with pytest.raises(errors.KernelValueError, match="300 does not fit int8"):
        mt.jit(three_hundred)(np.ones(2, np.int8))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_tensors_without_memory_are_refused(pipeline):
    kernel = mt.jit(totals, pipeline=pipeline)
    with pytest.raises(errors.KernelTypeError, match="has no memory"):
        torch.vmap(lambda x: kernel(x)[0])(torch.ones(3, 4))
    with pytest.raises(errors.KernelTypeError, match="has no memory"):
        torch.vmap(mt.jit(scaled_by_two, pipeline=pipeline))(torch.ones(3, 4))


def scaled_by_two(x):
    return x * 2


@mt.jit
def long_chain_of_integers(x, y):
    result = x
    for turn in mt.static_range(40):
        result = result * np.where(y % 2 == 1, y, 3) + turn
        y = y // 2
    return result


def test_a_long_chain_of_integers_compiles_in_time_that_grows_with_its_length():
    # TVM's simplifier goes through nested sums of a wider dtype twice per level: 2**40 times, were they one expression.
    x, y = np.arange(-5, 9), np.arange(14) * 7919
    wanted, rest = x, y
    for turn in range(40):
        wanted = wanted * np.where(rest % 2 == 1, rest, 3) + turn
        rest = rest // 2
    np.testing.assert_array_equal(long_chain_of_integers(x, y), wanted)
