"""Elementary functions on the CPU are vector arithmetic, within 2 units in the last place, with C's special values."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest
import torch
from loop_functions import function

import mlirtri as mt
from mlirtri.lowering.elementary.tir_pass import expand, mark
from mlirtri.lowering.toolchain.tvm_names import IRModule, structural_walk, tirx

FUNCTIONS = {
    "exp": (-110, 95), "exp2": (-155, 130), "expm1": (-20, 90), "log": (0, 10), "log2": (0, 3), "log10": (0, 100),
    "log1p": (-1, 5), "tanh": (-10, 10), "sin": (-1000, 1000), "cos": (-1000, 1000),
}  # fmt: skip
"""With the range where most of the numbers are taken from; the bits of the others are random."""
DTYPES = (np.float32, np.float64)
ENDS = (0.0, -0.0, 1.0, -1.0, -2.0, 0.5, 2.0, 3.0, np.inf, -np.inf, np.nan)


def numbers(dtype, low: float, high: float) -> np.ndarray:
    generator = np.random.default_rng(0)
    facts = np.finfo(dtype)
    unsigned = np.dtype(f"u{facts.bits // 8}")
    anything = generator.integers(0, 2**facts.bits - 1, 20_000, dtype=np.uint64).astype(unsigned).view(dtype)
    edges = [facts.tiny, -facts.tiny, facts.smallest_subnormal, facts.max, -facts.max]
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, *edges]
    near_one = 1 + generator.uniform(-1e-3, 1e-3, 4_000)
    small = np.exp(generator.uniform(-20, 0, 4_000)) * generator.choice([-1, 1], 4_000)
    scale = 8 if dtype is np.float64 and high > 80 else 1
    usual = generator.uniform(low * scale, high * scale, 30_000)
    return np.concatenate([anything, np.array(ends, dtype), *(each.astype(dtype) for each in (near_one, small, usual))])


def check(found: np.ndarray, exact: np.ndarray, most: float = 2.0) -> None:
    """`exact` has more digits; what is no finite number in the dtype has to be the same, zeros with their sign."""
    with np.errstate(all="ignore"):
        wanted = exact.astype(found.dtype)
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(found[~finite], wanted[~finite])
        errors = np.abs((found.astype(exact.dtype) - exact) / np.spacing(np.abs(wanted)))[finite]
    assert errors.max() <= most, f"{errors.max()} ulp"
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


@mt.jit
def all_of(x):
    return (
        np.exp(x), np.exp2(x), np.expm1(x), np.log(x), np.log2(x), np.log10(x), np.log1p(x), np.tanh(x), np.sin(x),
        np.cos(x),
    )  # fmt: skip


all_by_mlir = mt.jit(pipeline="mlir")(all_of.__wrapped__)


@pytest.mark.parametrize("kernel", [all_of, all_by_mlir], ids=["linalg", "mlir"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float_is_within_two_units(name, dtype, kernel):
    x = numbers(dtype, *FUNCTIONS[name])
    found = dict(zip(FUNCTIONS, kernel(x), strict=True))[name]
    with np.errstate(all="ignore"):
        check(found, getattr(np, name)(x.astype(np.longdouble)))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_circles_next_to_whole_quarters(pipeline):
    """Where hardly anything is left of the angle."""
    x = np.arange(1, 50_000) * (np.pi / 2)

    def circles(x):
        return np.sin(x), np.cos(x), np.tan(x)

    exact = x.astype(np.longdouble)
    for found, wanted in zip(mt.jit(pipeline=pipeline)(circles)(x), circles(exact), strict=True):
        check(np.asarray(found), wanted)


WIDE = ("tan", "arctan", "arcsin", "arccos", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "cbrt")


@mt.jit
def wide_ones(x):
    return (
        np.tan(x), np.arctan(x), np.arcsin(x), np.arccos(x), np.sinh(x), np.cosh(x), np.arcsinh(x), np.arccosh(x),
        np.arctanh(x), np.cbrt(x),
    )  # fmt: skip


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(("dtype", "exact", "most"), [(np.float32, np.float64, 2), (np.float64, np.longdouble, 3)])
def test_functions_in_doubles(dtype, exact, most, pipeline):
    x = np.concatenate([numbers(dtype, -1, 1), numbers(dtype, -100, 100)])
    found = mt.jit(pipeline=pipeline)(wide_ones.__wrapped__)(x)
    with np.errstate(all="ignore"):
        for name, one in zip(WIDE, found, strict=True):
            check(one, getattr(np, name)(x.astype(exact)), most)


@mt.jit
def angle(y, x):
    return np.arctan2(y, x)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize(("dtype", "exact", "most"), [(np.float32, np.float64, 1), (np.float64, np.longdouble, 2)])
def test_angles_in_all_quadrants(dtype, exact, most, pipeline):
    smallest = np.finfo(dtype).smallest_subnormal
    ends = np.array([*ENDS, smallest, -smallest], dtype)
    y, x = (np.concatenate([each.ravel()] * 16) for each in np.meshgrid(ends, ends))
    y, x = (np.concatenate([each, numbers(dtype, *ends)]) for each, ends in ((y, (-3, 3)), (x, (-9, 5))))
    x[len(ends) ** 2 * 16 :] = x[len(ends) ** 2 * 16 :][::-1]
    kernel = mt.jit(pipeline=pipeline)(angle.__wrapped__)
    with np.errstate(invalid="ignore"):
        check(kernel(y, x), np.arctan2(y.astype(exact), x.astype(exact)), most)


@mt.jit
def error_function(x):
    return torch.erf(x)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_the_error_function(pipeline):
    kernel = mt.jit(pipeline=pipeline)(error_function.__wrapped__)
    x = torch.from_numpy(numbers(np.float32, -5, 5))
    check(kernel(x).numpy(), torch.erf(x.double()).numpy())
    y = numbers(np.float64, -7, 7)
    exact = torch.erf(torch.from_numpy(y)).numpy().astype(np.longdouble)
    # What torch has is within half of one itself.
    check(kernel(torch.from_numpy(y)).numpy(), exact, most=2.5)


@mt.jit
def rest(x, y):
    return np.fmod(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_are_exact(dtype):
    generator = np.random.default_rng(2)
    y = np.exp(generator.uniform(-9, 9, 20_000)).astype(dtype)
    y *= generator.choice([-1, 1], y.size).astype(dtype)
    near = (y * generator.integers(-9, 9, y.size)).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, dtype(0)), numbers(dtype, -100, 100)])
    ends = np.repeat(np.array([*ENDS, np.finfo(dtype).smallest_subnormal], dtype), 16)
    x, y = (
        np.concatenate([np.resize(each, 50_000), more.ravel()])
        for each, more in zip((x, y), np.meshgrid(ends, ends), strict=True)
    )
    with np.errstate(all="ignore"):
        wanted, found = np.fmod(x, y), rest(x, y)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))
        for one in (0, 7, -1):
            np.testing.assert_array_equal(rest(x[one], y[one]), wanted[one])


@mt.jit
def power(x, y):
    return x**y


power_by_mlir = mt.jit(pipeline="mlir")(power.__wrapped__)


@pytest.mark.parametrize(
    ("pipeline", "dtype"), [("linalg", "float64"), ("relax", "float64"), ("relax", "float32")], ids=str
)
def test_constant_powers_without_a_warning(capfd, pipeline, dtype):
    @mt.jit(pipeline=pipeline)
    def powers(x):
        return x**4, np.power(x, -3), np.power(x, 2.5), np.power(x, 5.0)

    x = np.linspace(0.1, 4, 9).astype(dtype)
    for result, expected in zip(powers(x), (x**4, x**-3.0, x**2.5, x**5.0), strict=True):
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(dtype).eps)
    assert "Warning" not in capfd.readouterr().err


@pytest.mark.parametrize("power", [power, power_by_mlir], ids=["linalg", "mlir"])
def test_powers(power):
    generator = np.random.default_rng(1)
    x = np.exp(generator.uniform(-20, 20, 40_000)).astype(np.float32)
    y = generator.uniform(-5, 5, 40_000).astype(np.float32)
    with np.errstate(all="ignore"):
        check(power(x, y), np.power(x.astype(np.float64), y.astype(np.float64)), most=1.0)


@pytest.mark.parametrize("power", [power, power_by_mlir], ids=["linalg", "mlir"])
@pytest.mark.parametrize("lanes", [1, 16])
def test_powers_of_what_needs_the_library(lanes, power):
    x, y = (each.astype(np.float32).repeat(lanes).ravel() for each in np.meshgrid(ENDS, ENDS))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(power(x, y), np.power(x, y), rtol=1e-6)


def test_one_number_alone_is_computed_like_the_others():
    x = np.linspace(-3, 3, 37, dtype=np.float32)
    together = all_of(x)
    for at in (0, 5, 36):
        for one, many in zip(all_of(x[at]), together, strict=True):
            np.testing.assert_array_equal(one, many[at])


def circles(x):
    return np.sin(x) + np.cos(x) + np.tan(x) ** x


def test_circles_and_powers_by_mlir_call_no_library():
    assembly = mt.jit(circles).compile(mt.Tensor((4096,), mt.float32), pipeline="mlir").ir["asm"]
    assert not re.findall(r"\b(?:sin|cos|tan|pow)f\b", assembly)
    assert "vfmadd" in assembly or platform.machine() not in ("x86_64", "AMD64")


@mt.jit
def gate(x):
    return torch.tanh(x) * torch.sigmoid(x) + torch.erf(x) + torch.log2(x) - torch.round(x)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_loops_call_no_library(pipeline):
    kernel = gate.compile(mt.Tensor((4096,), mt.float32), pipeline=pipeline)
    assert "exp" in kernel.ir["scheduled" if pipeline == "linalg" else "bufferized"]
    assert "zmm" in kernel.ir["asm"] or "ymm" in kernel.ir["asm"] or platform.machine() not in ("x86_64", "AMD64")
    assert not re.findall(r"\b(?:exp|tanh|erf|log2|nearbyint|rint|roundeven)f\b", kernel.ir["asm"])


@mt.jit
def mish_of_mish(x):
    once = x * torch.tanh(torch.where(x > 20.0, x, torch.log1p(torch.exp(x))))
    return once * torch.tanh(torch.where(once > 20.0, once, torch.log1p(torch.exp(once))))


def test_functions_of_named_values():
    """Names in values have memory of their own before functions become names as well: inside of each other, minutes."""
    text = "v = T.float32()\nA[0] = T.Let(v * T.tanh(v), where={v: A[0] + T.tanh(A[0])})"
    made = function(text, A=((1,), "float32"))
    names = []
    structural_walk(expand(mark(IRModule({"f": made})))["f"].body, (tirx.Let, names.append))
    assert len(names) == 0
    x = torch.linspace(-30, 30, 999)
    wanted = torch.nn.functional.mish(torch.nn.functional.mish(x.double()))
    torch.testing.assert_close(mish_of_mish(x).double(), wanted, rtol=1e-6, atol=1e-12)


def escape_times(starts, out):
    for i in mt.prange(starts.shape[0]):
        x, rounds = starts[i], 0
        while rounds < 20 and x < 4:
            x = x * x + 0.3
            rounds += 1
        out[i] = np.log2(x)
    for i in mt.prange(starts.shape[0]):
        out[i] = np.exp(out[i])


def test_beside_a_while_functions_are_the_library_s():
    starts, out = np.linspace(0, 2, 200), np.zeros(200)
    kernel = mt.jit(escape_times).compile(starts, out)
    kernel(starts, out)
    want = np.zeros(200)
    escape_times(starts, want)
    np.testing.assert_allclose(out, want, rtol=1e-14)
    calls = set(re.findall(r"call\w*\s+(\w+)@PLT", kernel.ir["asm"]))
    assert "log2" in calls
    assert "exp" not in calls  # of a vector
