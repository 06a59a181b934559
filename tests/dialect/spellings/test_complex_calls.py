"""Complex numbers as kernels spell them: NumPy's, torch's and cmath's functions, literals, loops, in and out."""

from __future__ import annotations

import cmath

import numpy as np
import pytest
import torch
from combinations import in_turn
from eager_builder import check, refused
from spelling_calls import Case

import mlirtri as mt
from mlirtri.calls.argument_conversion import NonContiguousWarning
from mlirtri.errors import KernelError, KernelTypeError

random = np.random.default_rng(3)
A = random.standard_normal((4, 5)) + 1j * random.standard_normal((4, 5))
S = A.astype(np.complex64)
X = A.real.copy()

SPELLINGS = [
    *(Case(f"numpy.{name}", x) for name in ("real", "imag", "conj", "conjugate", "angle", "isreal", "iscomplex",
                                            "iscomplexobj", "isrealobj", "abs", "vdot")
      for x in (A, S, X) if name != "vdot"),
    Case("numpy.vdot", A, S), Case("numpy.angle", A, deg=True), Case("numpy.angle", X, True),
    Case("numpy.real", 2.5), Case("numpy.conj", 1j), Case("numpy.angle", -1),
    Case("numpy.nan_to_num", np.array([complex("nan+infj"), 1j])), Case("numpy.reciprocal", A),
    *(Case(f"ndarray.{name}", x) for name in ("real", "imag", "conj", "conjugate") for x in (A, X)),
    *(Case(f"torch.{name}", S) for name in ("real", "imag", "conj_physical", "angle", "is_complex", "view_as_real",
                                            "resolve_conj", "abs", "adjoint", "sgn")),
    Case("torch.sgn", X), Case("torch.vdot", S[0], S[1]), Case("Tensor.sgn", S),
    Case("torch.real", X), Case("torch.angle", X), Case("torch.is_complex", X), Case("torch.complex", X, X),
    Case("torch.polar", abs(X), X), Case("torch.view_as_complex", X[:, :2].copy()),
    *(Case(f"Tensor.{name}", S) for name in ("real", "imag", "H", "mH", "conj_physical", "angle", "cfloat", "cdouble")),
    Case("mlirtri.real", A), Case("mlirtri.imag", A), Case("mlirtri.conj", A), Case("mlirtri.angle", A),
]  # fmt: skip


@pytest.mark.parametrize("case", [case for case in SPELLINGS if not case.name.startswith("mlirtri")], ids=str)
def test_same_call_same_result(case):
    check(case.name, *case.arguments, **case.keywords)


def test_what_the_libraries_refuse():
    refused("takes a complex tensor", "torch.view_as_real", X)
    refused("last axis has size 2", "torch.view_as_complex", X)
    refused("both of float32 or both of float64", "torch.complex", X, X.astype(np.float32))


# --- compiled ------------------------------------------------------------------------------------------------------


def agree(function, *arguments, pipeline):
    """The kernel's results are NumPy's, in value, dtype and shape."""
    got = mt.jit(pipeline=pipeline)(function)(*(np.copy(x) if isinstance(x, np.ndarray) else x for x in arguments))
    expected = function(*arguments)
    assert len(got) == len(expected)
    for at, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), at
        tolerance = 1e-5 if theirs.dtype.itemsize <= 8 else 1e-12
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=str(at))


def arithmetic(a):
    return (
        a * 2, a + 1j, 2j * a, a / 2, 1 / a, a * 1.5, -a, a - 1, a**2, a**3, a**-2, a**0.5, a**0, a**2.5, a ** (1 + 1j),
        a**1, a / a.real, a * np.float32(2), a.real * 1j, (a + a.conj()) / (1 - 2j), abs(a), +a,
    )  # fmt: skip


def functions(a):
    return (
        np.exp(a), np.log(a), np.sqrt(a), np.sin(a), np.cos(a), np.tan(a), np.sinh(a), np.cosh(a), np.tanh(a),
        np.square(a), np.reciprocal(a), np.sign(a), np.arcsin(a), np.arctanh(a), np.log10(a), np.expm1(a),
    )  # fmt: skip


def comparisons(a):
    return (
        a == a.conj(), a != 1j, np.isnan(a), np.isfinite(a), np.isinf(a), np.where(a.real > 0, a, 0), a < 1j, a >= 1j,
        np.maximum(a, 1j), a.max(), a.min(1), a.argmax(0), np.clip(a, -1, 1j), np.logical_not(a), a.any(), a.all(),
        np.round(a, 2),
    )  # fmt: skip


def reductions(a):
    return (
        a.sum(), a.sum(0), a.prod(1), a.mean(), a.std(), a.var(0), np.mean(a, axis=1, keepdims=True), a @ a.T,
        np.dot(a, a[0]), np.vdot(a, a), np.inner(a, a), np.outer(a[0], a[1].real), a @ a.conj().T, np.cumsum(a, axis=0),
        np.sum(a.real, dtype=complex),
    )  # fmt: skip


def made(a):
    return (
        np.zeros((2, 3), dtype=complex), np.ones(3, np.complex64), np.full(3, 1j), np.eye(3, dtype=np.complex128),
        np.full((2,), 1 + 2j, dtype=np.complex64), np.zeros_like(a), a.astype(np.complex64), a.real.astype(complex),
        np.arange(3, dtype=complex), np.array(1j), np.complex128(a.real), np.complex64(2), np.array([1j, 2, 3.5]),
        np.array([[1, 2j], [3, 4]]) * a[0, 0], np.exp(2j * np.pi * np.arange(4) / 4), a.astype(np.complex64).real,
    )  # fmt: skip


def moved(a):
    return (
        np.concatenate([a, a.real]), np.stack([a, a]), a.T, a[::-1], a[1:3, ::2], np.flip(a), a.flatten(),
        np.broadcast_to(a[0], (2, 5)), np.tril(a), a[-1, 2],
    )  # fmt: skip


def literals(a):
    z, w = complex(1, 2), 3 - 4j
    return a * z + w.real + abs(w) + z.imag, a * cmath.exp(1j * cmath.pi), a * (1j if w.imag < 0 else 2j)


def statistics(a):
    v, w = a[0], a[1]
    return (
        np.cov(a), np.corrcoef(a), np.linalg.norm(a), np.linalg.norm(v, 1), np.isclose(a, a + 1e-9), np.allclose(a, 1j),
        np.correlate(v, w, "full"), np.convolve(v, w), np.cumprod(a, axis=1), np.diff(a), np.gradient(v),
        np.average(a, weights=a.real), np.einsum("ij,kj->ik", a, a.conj()), np.tensordot(a, a, ([1], [1])),
        np.kron(v, w), np.linspace(0, 1j, 5), np.float_power(a, 2), np.interp(0.1, np.arange(5.0), v), np.nansum(a),
        a.astype(bool), a.cumsum(), a.std(ddof=1), a.trace(), np.add.outer(v, w), np.multiply.reduce(a, axis=1),
    )  # fmt: skip


PROGRAMS = [arithmetic, functions, comparisons, reductions, made, moved, literals, statistics]


@pytest.mark.parametrize(("program", "pipeline"), in_turn(PROGRAMS, ["linalg", "mlir"]))
def test_programs(program, pipeline):
    agree(program, A, pipeline=pipeline)


@pytest.mark.parametrize("program", [arithmetic, comparisons])
def test_programs_in_the_relax_pipeline(program):
    agree(program, A, pipeline="relax")


@pytest.mark.parametrize("program", [arithmetic, comparisons, reductions, made])
def test_programs_in_single_precision(program):
    agree(program, S, pipeline="mlir")


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_astype_alone_leaves_out_imaginary_parts():
    agree(lambda a: (a.astype(float), a.astype(np.int32), np.astype(a, np.float32)), A, pipeline="mlir")
    with pytest.raises(KernelTypeError, match="does not take complex numbers"):
        mt.jit(lambda a: np.interp(a, np.arange(3.0), np.arange(3.0)))(A)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_sorting_is_by_real_and_then_imaginary_parts(pipeline):
    """NaN comes last: after numbers those with a NaN as imaginary part, then those with one as real part."""
    parts = [0.0, 1.0, -2.0, float("nan")]
    values = random.permutation([complex(re, im) for re in parts for im in parts])
    agree(lambda x: (np.sort(x), np.argsort(x)), values, pipeline=pipeline)


def escape_times(c):
    """How many steps of z² + c stay within a circle of 2: Mandelbrot's set."""
    counts = np.zeros(c.shape[0], np.int64)
    for i in range(c.shape[0]):
        z, k = 0j, 0
        while abs(z) < 2 and k < 30:
            z = z * z + c[i]
            k += 1
        counts[i] = k
    return (counts,)


def power_of_rows(a):
    total = 0j
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * a[i, j].conjugate()
    return total, np.sqrt(total.real)


def fourier(x):
    """The discrete Fourier transform from its definition."""
    n = x.shape[0]
    k = np.arange(n)
    w = np.exp(-2j * np.pi * k.reshape(n, 1) * k / n)
    return (w @ x,)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(("program", "argument"), [
    (escape_times, np.linspace(-2, 1, 12) + 0.3j), (power_of_rows, A), (fourier, np.arange(8.0)),
], ids=["escape_times", "power_of_rows", "fourier"])  # fmt: skip
def test_loops(program, argument, pipeline):
    agree(program, argument, pipeline=pipeline)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_an_argument_is_updated_in_place(pipeline):
    @mt.jit(pipeline=pipeline)
    def scaled(a):
        a[1:3] *= 2j
        a[0, 0] = 1

    expected = A.copy()
    expected[1:3] *= 2j
    expected[0, 0] = 1
    for given in (A.copy(), np.asfortranarray(A), torch.from_numpy(A.copy())):
        scaled(given)
        np.testing.assert_array_equal(np.asarray(given), expected)


def written_by_parts(a):
    a.real[0] = 1
    a.imag[:, 1] *= 2
    a.real += 1
    z = np.zeros(3, dtype=complex)
    z.real, z.imag = np.arange(3), 1
    r = a.real
    r[1, 1] = 7
    c = a.conj()
    c[0, 0] = 5
    return z, c, a.sum()


def test_parts_are_views_and_conjugates_are_not():
    given, expected = A.copy(), A.copy()
    wanted = written_by_parts(expected)
    got = mt.jit(pipeline="mlir")(written_by_parts)(given)
    for mine, theirs in zip((*got, given), (*wanted, expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)


def radix_fourier(n, r, k, x, y):
    """Stockham's autosort transform of n = r^k points."""
    y[:] = x[:]
    i_coord, j_coord = np.mgrid[0:r, 0:r]
    dft = np.exp(-2.0j * np.pi * i_coord * j_coord / r)
    for i in range(k):
        permuted = np.transpose(np.reshape(y, (r**i, r, r ** (k - i - 1))), axes=(1, 0, 2))
        turns = np.exp(-2.0j * np.pi * np.arange(r)[:, None] * np.arange(r**i)[None, :] / r ** (i + 1))
        twiddled = permuted * turns.reshape(r, r**i, 1)
        y[:] = np.reshape(dft @ np.reshape(twiddled, (r, r ** (k - 1))), (n,))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_fast_fourier_transform(pipeline):
    x, y = np.resize(A, 64), np.zeros(64, complex)
    mt.jit(pipeline=pipeline)(radix_fourier)(64, 4, 3, x, y)
    np.testing.assert_allclose(y, np.fft.fft(x), rtol=1e-12, atol=1e-12)


# --- in and out ----------------------------------------------------------------------------------------------------

FACTOR = 2j
NARROW = np.complex64(1 + 1j)


@mt.jit
def turned(a):
    a[0] = 1j
    a[1:] *= FACTOR


@pytest.mark.filterwarnings("ignore::mlirtri.calls.argument_conversion.NonContiguousWarning")
@pytest.mark.parametrize("given", [
    torch.from_numpy(A.copy()).conj(), torch.from_numpy(np.concatenate([A, A], 1))[:, ::2], A.copy()[::-1], S.copy(),
], ids=["conjugate", "strided", "reversed", "single"])  # fmt: skip
def test_what_is_written_gets_back_into_memory_of_any_layout(given):
    expected = given.clone() if isinstance(given, torch.Tensor) else given.copy()
    turned.__mlirtri_function__(expected)
    turned(given)
    for mine, theirs in zip(_plain(given), _plain(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _plain(x):
    return [x.resolve_conj().numpy() if isinstance(x, torch.Tensor) else x]


def test_parts_of_a_written_argument_share_its_memory():
    @mt.jit
    def f(a, r):
        a[0] = r[0] + 1

    x = torch.from_numpy(A.copy())
    for part in (x.real, x.conj(), x.imag[1:]):
        with pytest.raises(KernelError, match="shares memory with 'r'"):
            f(x, part)


def test_numbers_from_outside(monkeypatch):
    @mt.jit
    def f(a):
        return a * FACTOR, a.real * NARROW

    assert f(S)[0].dtype == np.complex64
    assert f(A)[1].dtype == np.complex128
    np.testing.assert_array_equal(f(A)[0], A * 2j)
    monkeypatch.setitem(globals(), "FACTOR", -1j)
    np.testing.assert_array_equal(f(A)[0], A * -1j)


@mt.jit
def doubled(x):
    return x * 2


def test_torch_tensors_and_conjugates_that_are_yet_to_be_done():
    x = torch.from_numpy(A)
    assert torch.equal(doubled(x), x * 2)
    with pytest.warns(NonContiguousWarning):
        assert torch.equal(doubled(x.conj()), x.conj() * 2)
    assert torch.equal(doubled(x.conj().imag), x.conj().imag * 2)


def test_results_are_written_into_out():
    out = np.empty_like(A)
    assert doubled(A, out=out) is out
    np.testing.assert_array_equal(out, A * 2)
    strided = np.empty((4, 10), complex)[:, ::2]
    doubled(A, out=strided)
    np.testing.assert_array_equal(strided, A * 2)


def test_python_numbers_are_weak_and_do_not_recompile():
    @mt.jit
    def scaled(x, z):
        return x * z, z * z

    product, square = scaled(S, 1 - 2j)
    assert product.dtype == np.complex64
    np.testing.assert_allclose(product, S * (1 - 2j), rtol=1e-6)
    assert square == (1 - 2j) ** 2
    np.testing.assert_allclose(scaled(S, 3j)[0], S * 3j, rtol=1e-6)
    assert scaled.compiles == 1
    assert scaled(X, 2j)[0].dtype == np.complex128


def test_torchs_default_is_single_precision():
    @mt.jit
    def f(x):
        return x * 1j

    assert f(torch.ones(2)).dtype == torch.complex64
    assert f(torch.ones(2, dtype=torch.int64)).dtype == torch.complex64
    assert f(torch.ones(2, dtype=torch.float64)).dtype == torch.complex128
    with pytest.raises(KernelTypeError, match="complex32 of float16"):
        f(torch.ones(2, dtype=torch.float16))


@pytest.mark.parametrize(("source", "sentence"), [
    (lambda x: x // 2, "floor_divide of complex128 and Python int 2 is refused, as NumPy does"),
    (lambda x: np.floor(x), "floor of complex128 is refused, as NumPy does"),
    (lambda x: np.zeros(3) + np.full(3, 1j, np.float64), "does not fit float64"),
    (lambda x: np.arctan2(x, x), "refused, as NumPy does"),
])  # fmt: skip
def test_what_complex_numbers_have_not(source, sentence):
    with pytest.raises(KernelError, match=sentence):
        mt.jit(source)(A)


def of_torch(x):
    return (
        x * 2, x + 1j, 1 / x, x**2, x**0.5, x**-1, torch.exp(x), torch.log(x), torch.sqrt(x), torch.abs(x), x.mean(0),
        torch.angle(x), x.real, x.imag, x.conj(), x.T, x.mH, x @ x.mH, x.sum(), x.prod(1), torch.var(x), x == x,
        torch.std(x, 0), torch.where(x.real > 0, x, 0), torch.zeros_like(x), x.to(torch.complex128), torch.sigmoid(x),
        torch.full((2,), 1j), torch.eye(2, dtype=torch.complex64), torch.cat([x, x.real]), torch.sgn(x), x.cdouble(),
        torch.nn.functional.silu(x), torch.view_as_real(x), torch.isnan(x), torch.tanh(x), torch.cumsum(x, 0),
    )  # fmt: skip


def test_logarithms_near_the_unit_circle_keep_their_digits():
    z = (S / abs(S) * np.float32(1 + 1e-6)).astype(np.complex64)
    found = mt.jit(lambda z: np.log(z).real, pipeline="mlir")(z)
    np.testing.assert_allclose(found, np.log(z.astype(np.complex128)).real, rtol=1e-5)


@pytest.mark.parametrize("x", [S, A], ids=["complex64", "complex128"])
def test_torchs_functions(x):
    x = torch.from_numpy(x)
    for at, (mine, theirs) in enumerate(zip(mt.jit(pipeline="mlir")(of_torch)(x), of_torch(x), strict=True)):
        torch.testing.assert_close(mine, theirs.resolve_conj(), msg=lambda text, at=at: f"result {at}: {text}")


def test_torch_does_not_order_complex_numbers():
    with pytest.raises(KernelTypeError, match="less of complex128 and complex128 is refused, as torch does"):
        mt.jit(lambda x: x < x)(torch.from_numpy(A))
