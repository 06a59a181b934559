"""Fourier transforms as kernels spell them, NumPy's and torch's, against the libraries' own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from eager_builder import check, refused
from spelling_calls import Case

import mlirtri as mt
from mlirtri.errors import KernelTypeError

random = np.random.default_rng(3)
X = random.standard_normal((4, 6))
Z = X + 1j * random.standard_normal((4, 6))
S, C, N = X.astype(np.float32), Z.astype(np.complex64), np.arange(12).reshape(3, 4)
ROWS = mt.dyn["N"]
LONG = random.standard_normal((2, 134))

NUMPY = [
    *(Case(f"numpy.fft.{name}", x) for name in ("fft", "ifft", "fft2", "ifftn", "irfft", "irfft2", "hfft")
      for x in (X, Z, S, C, N)),
    *(Case(f"numpy.fft.{name}", x) for name in ("rfft", "rfft2", "rfftn", "ihfft") for x in (X, S, N, X > 0)),
    *(Case(f"numpy.fft.{name}", Z, n, axis, norm) for name in ("fft", "ifft", "irfft", "hfft")
      for n, axis, norm in ((9, 0, "ortho"), (3, 1, "forward"), (1, -2, "backward"))),
    *(Case(f"numpy.fft.{name}", X, n, axis, norm) for name in ("rfft", "ihfft")
      for n, axis, norm in ((9, 0, "ortho"), (3, 1, "forward"), (1, -2, None))),
    Case("numpy.fft.fftn", Z, (3, 7), (1, 0)), Case("numpy.fft.irfftn", Z, (3, 5), norm="forward"),
    Case("numpy.fft.rfftn", X, (-1, 5), (0, 1)), Case("numpy.fft.fft", S.astype(np.float16)),
    *(Case("numpy.fft.fft", LONG[:, :size]) for size in (65, 67, 128, 134)), Case("numpy.fft.rfft", LONG),
    Case("numpy.fft.irfft", LONG + 1j), Case("numpy.fft.ifft", LONG[0, :127] + 1j),
    *(Case(f"numpy.fft.{name}", n, 0.1) for name in ("fftfreq", "rfftfreq") for n in (1, 7, 8)),
    *(Case(f"numpy.fft.{name}", x, axes) for name in ("fftshift", "ifftshift") for x in (X, N) for axes in (None, 1)),
]  # fmt: skip
TORCH = [
    *(Case(f"torch.fft.{name}", Z) for name in ("fft", "ifft2", "ifftn", "irfft", "irfftn", "hfft", "hfft2", "hfftn")),
    *(Case(f"torch.fft.{name}", S, norm="ortho") for name in ("fft", "rfft", "rfft2", "ihfft", "ihfftn")),
    Case("torch.fft.fftn", N), Case("torch.fft.rfft", N, 3, 0), Case("torch.fft.fftshift", C, 0),
    Case("torch.fft.fftfreq", 5), Case("torch.fft.rfftfreq", 6, 0.5), Case("torch.fft.ifftshift", C),
]  # fmt: skip


@pytest.mark.parametrize("case", [*NUMPY, *TORCH], ids=str)
def test_same_call_same_result(case):
    check(case.name, *case.arguments, **case.keywords)


def test_what_the_libraries_refuse():
    refused("one element or more", "numpy.fft.fft", X[:, :0])
    refused("one element or more", "numpy.fft.ifft", X, 0)
    refused("takes real elements", "numpy.fft.rfft", Z)
    refused("norm is 'backward', 'ortho' or 'forward', not 'sideways'", "numpy.fft.fft", X, norm="sideways")
    refused("a length for each axis, not 1 for 2", "numpy.fft.fft2", X, (3,))
    refused("takes no float16 on CPUs", "torch.fft.fft", S.astype(np.float16))


def convolved(x, y):
    size = len(x) + len(y) - 1
    return np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(y, size), size)


@pytest.mark.parametrize("pipeline", ["linalg", pytest.param("relax", marks=pytest.mark.slow), "mlir"])
def test_compiled(pipeline):
    x, y = LONG[0, :70], LONG[1, :12]
    np.testing.assert_allclose(mt.jit(pipeline=pipeline)(convolved)(x, y), np.convolve(x, y), rtol=0, atol=1e-13)


def test_a_run_time_length_is_refused():
    @mt.jit
    def spectrum(x: mt.Tensor[[ROWS], mt.float64]):
        return np.fft.fft(x)

    with pytest.raises(KernelTypeError, match="lengths are known at compile time"):
        spectrum(LONG[0])


def test_many_rows_of_one_kernel():
    @mt.jit
    def spectra(x: mt.Tensor[[ROWS, 6], mt.float32]):
        return torch.fft.rfft(x)

    # Parts of a row whose number is known at run time only.
    for rows in (1, 5):
        x = torch.from_numpy(S).repeat(2, 1)[:rows]
        torch.testing.assert_close(spectra(x), torch.fft.rfft(x), rtol=0, atol=1e-5)
