"""Arrays viewed as another dtype, ``x.view(dtype)`` and `numpy.frombuffer`, against NumPy."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

import mlirtri as mt

FLOATS = np.array([[0.5, -0.0, 3.25, np.inf], [1e-40, np.nan, -2.0, 7.5]], np.float32)
BYTES = np.array([0, 255, 7, 128, 9, 77, 1, 2], np.uint8)
COMPLEX = np.array([1 + 2j, -3.5j])


def widths(x, u, c):
    same = (
        x.view(np.uint32),
        x.view("i4"),
        u.view(np.int8),
        (x > 0).view(np.uint8),
        x[0, 2].view(np.int32),
    )
    narrower = x.view(np.uint8), x.view(np.int16), c.view(np.float64), c.view(np.uint32), (x > 0).view("u1")
    wider = u.view(np.uint32), u.view(np.float64), x.view(np.complex64), x.view(np.int64), u.view(np.float16)
    return same, narrower, wider, np.frombuffer(u, "<u2"), np.frombuffer(u, np.uint8, count=3, offset=2)


def written(x, u, c):
    bits = x.view(np.uint32)
    bits[0] ^= np.uint32(0x80000000)
    bits[1, :2] = 5
    x[1, 3] = 2.0
    guess = (0x5F3759DF - (x.view(np.int32) >> 1)).view(np.float32)
    return bits, guess, bits.T.view(np.int32)


def same(result, expected):
    if isinstance(expected, tuple):
        for mine, other in zip(result, expected, strict=True):
            same(mine, other)
    else:
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir", "interpreter"])
@pytest.mark.parametrize("function", [widths, written])
def test_views_have_the_bits(function, pipeline):
    ours, plain = deepcopy((FLOATS, BYTES, COMPLEX)), deepcopy((FLOATS, BYTES, COMPLEX))
    same(mt.jit(function, pipeline=pipeline)(*ours), function(*plain))
    same(ours, plain)


def test_torch_views_have_the_bits():
    x = torch.tensor(FLOATS)
    result = mt.jit(lambda x: (x.view(torch.int32), x.view(torch.int16)), pipeline="mlir")(x)
    assert torch.equal(result[0], x.view(torch.int32))
    assert torch.equal(result[1], x.view(torch.int16))


def written_after(u):
    words = u.view(np.uint16)
    u[0] = 1
    return words


def written_through(u):
    u.view(np.uint16)[0] = 1


def torn(u):
    return u[:3].view(np.uint16)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (written_after, "a view of the array in NumPy, and that was written since"),
        (written_through, "the result of view is a copy in kernels"),
        (torn, "has to be a multiple of 2 for a wider dtype"),
    ],
)
def test_what_is_no_view_is_refused(function, text):
    with pytest.raises(mt.KernelError, match=text):
        mt.jit(function, pipeline="mlir")(BYTES.copy())


def test_bytes_as_booleans_are_true_where_they_are_not_zero():
    np.testing.assert_array_equal(mt.jit(lambda u: u.view(bool), pipeline="mlir")(BYTES), BYTES != 0)
