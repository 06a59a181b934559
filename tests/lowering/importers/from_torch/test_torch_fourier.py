"""Fourier transforms of torch programs against eager ones: of one axis and several, padded, short and long, scaled."""

from __future__ import annotations

import pytest
import torch

import mlirtri as mt

fft = torch.fft


def of_short_axes(x, z):
    """Real and complex, by one matrix each."""
    return (
        *(fft.fft(x), fft.ifft(z), fft.rfft(x, 5), fft.irfft(z, 7), fft.hfft(z, dim=0), fft.ihfft2(x)),
        *(fft.fftn(x, (2, 9), norm="forward"), fft.irfft2(z, (3, 6), (1, 0), "ortho"), fft.hfftn(z, norm="ortho")),
        fft.fftshift(z),
    )


def of_long_axes(x, z):
    """Parted once or twice, and a prime length."""
    return fft.rfft(x), fft.irfft(z, 225), fft.fft2(x[:, :67]), fft.ifft(z[0]), fft.rfft(x.flatten()[:4100])


def near(found, wanted, dtype):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        # Errors are of the size of the largest element.
        size = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=0, atol=40 * torch.finfo(dtype).eps * size)


def check(function, rows, columns, half, pipeline, dtype):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, columns, generator=generator, dtype=dtype)
    z = torch.randn(rows, half, generator=generator, dtype=dtype.to_complex())
    near(mt.from_torch(function, (x, z)).compile(pipeline=pipeline)(x, z), function(x, z), dtype)


def test_a_short_and_a_long_axis():
    check(lambda x, z: (fft.rfft(x), fft.irfft(z, 7)), 2, 130, 4, "linalg", torch.float32)


def there_and_back(x, z):
    """Frames of a signal, and the signal of these."""
    frames = torch.stft(x, 32, 12, 24, torch.hann_window(24, dtype=x.dtype) + 0.1, return_complex=True)
    return torch.istft(frames, 32, 12, 24, torch.hann_window(24, dtype=x.dtype) + 0.1, normalized=True, length=222), z


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "sizes"), [(of_short_axes, (4, 8, 8)), (of_long_axes, (42, 100, 113)), (there_and_back, (2, 220, 1))]
)
@pytest.mark.parametrize(("pipeline", "dtype"), [("linalg", torch.float32), ("mlir", torch.float64)])
def test_transforms(function, sizes, pipeline, dtype):
    check(function, *sizes, pipeline, dtype)


def test_windows_that_leave_a_gap_raise():
    z = torch.ones(9, 3, dtype=torch.complex64)
    kernel = mt.from_torch(lambda z, w: torch.istft(z, 16, window=w), (z, torch.ones(16))).compile()
    with pytest.raises(mt.KernelError, match="a gap"):
        kernel(z, torch.zeros(16))


def test_a_long_prime_length_is_refused():
    with pytest.raises(mt.KernelError, match="fft"):
        mt.from_torch(fft.fft, (torch.ones(2053),)).compile()
