"""Every operator and elementwise function against NumPy and torch, for every dtype, through all three pipelines.

Kernels are written to a file, many expressions each, since a compile costs more than an element. The oracle is the same
source run by Python on the library's own arrays. Exact where IEEE or integer arithmetic is; a few ulp elsewhere.
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from combinations import in_turn

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir")
LIBRARIES = ("numpy", "torch")
WAYS = [(LIBRARIES[number % 2], PIPELINES[number % 3]) for number in range(6)]
"""Each library with each pipeline. A dtype takes one of them in turn, so that libraries alternate.

Unary expressions take them the other way round: a dtype that runs there by NumPy's rules runs here by torch's.
"""
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
BINARY = {
    "x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x & y", "x | y", "x ^ y", "x << y", "x >> y",
    "x == y", "x != y", "x < y", "x <= y", "x > y", "x >= y", "lib.minimum(x, y)", "lib.maximum(x, y)",
    "lib.logical_and(x, y)", "lib.logical_or(x, y)", "lib.logical_xor(x, y)", "lib.where(x > y, x, y)",
}  # fmt: skip
EXACT_UNARY = {
    "-x", "~x", "abs(x)", "lib.sign(x)", "lib.floor(x)", "lib.ceil(x)", "lib.trunc(x)", "lib.round(x)",
    "lib.isnan(x)", "lib.isinf(x)", "lib.isfinite(x)", "lib.logical_not(x)", "lib.square(x)", "x ** 2", "x * 2",
    "x + 1", "x / 2", "x // 2", "x % 3", "1 - x", "x == 1", "x > 0.5",
}  # fmt: skip
INEXACT_UNARY = {
    "lib.sqrt(x)", "lib.exp(x)", "lib.exp2(x)", "lib.log(x)", "lib.log2(x)", "lib.log10(x)", "lib.log1p(x)",
    "lib.expm1(x)",
    "lib.sin(x)", "lib.cos(x)", "lib.tan(x)", "lib.arcsin(x)", "lib.arccos(x)", "lib.arctan(x)", "lib.sinh(x)",
    "lib.cosh(x)", "lib.tanh(x)", "lib.arcsinh(x)", "lib.arccosh(x)", "lib.arctanh(x)", "x ** 0.5", "x ** 1.5",
}  # fmt: skip
TORCH_ONLY = {
    # Clamped: torch's own gelu of infinity is NaN for some lengths.
    "lib.rsqrt(x)", "lib.erf(x)", "lib.sigmoid(x)", "lib.relu(x)", "lib.nn.functional.gelu(lib.clamp(x, -50, 50))",
    "lib.nn.functional.gelu(lib.clamp(x, -50, 50), approximate='tanh')", "lib.nn.functional.silu(x)",
    "lib.nn.functional.softplus(x)",
}  # fmt: skip
ULPS = 8
"""What a float function of ours may differ from a float function of theirs, which are not exact themselves."""


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def samples(name: str) -> np.ndarray:
    """Zeros of both signs, ones, halves, extremes, infinities and NaN, as far as the dtype has them."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array(
            [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min // 2, limits.max // 3], dtype
        )
    special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    values = [*special, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.5, 3.7, -7.3, 0.1, 11.0, 25.0, 1e-4]
    # Thirty-two of them fill whole vectors; some functions have other code there.
    return np.resize(values, 32).astype(dtype)


def pairs(left: str, right: str) -> tuple[np.ndarray, np.ndarray]:
    both = list(itertools.product(samples(left), samples(right)))
    return np.array([a for a, _ in both], numpy_dtype(left)), np.array([b for _, b in both], numpy_dtype(right))


def as_torch(array: np.ndarray) -> torch.Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def load(tmp_path, library: str, parameters: str, expressions: list[str]):
    """The function that returns all expressions, defined in a file of its own."""
    alias = {"numpy": "import numpy as lib", "torch": "import torch as lib"}[library]
    file = tmp_path / f"kernel_{abs(hash((parameters, *expressions)))}.py"
    body = ",\n        ".join(expressions)
    file.write_text(f"{alias}\n\ndef kernel({parameters}):\n    return (\n        {body},\n    )\n")
    specification = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.kernel


def accepted(expressions, library, **values) -> list[str]:
    """The expressions that the library itself computes for these dtypes."""
    names = {"lib": {"numpy": np, "torch": torch}[library], **values}
    found = []
    for expression in sorted(expressions):
        try:
            eval(expression, names)
        except (TypeError, RuntimeError, AttributeError, OverflowError, NotImplementedError):
            continue
        found.append(expression)
    return found


def to_numpy(value) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return (
            value.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if value.dtype == torch.bfloat16 else value.numpy()
        )
    return np.asarray(value)


def check(expression: str, got, want, ulps: int) -> str | None:
    """What is wrong with a result, in words."""
    got, want = to_numpy(got), to_numpy(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{expression}: {got.dtype}{got.shape}, the library has {want.dtype}{want.shape}"
    if want.dtype.kind in "iub":
        wrong = got != want
    else:
        exact, found = want.astype(np.float64), got.astype(np.float64)
        eps = float(ml_dtypes.finfo(want.dtype).eps)
        with np.errstate(invalid="ignore"):
            near = np.abs(found - exact) <= ulps * eps * np.maximum(np.abs(exact), eps)
        wrong = ~((found == exact) | (np.isnan(found) & np.isnan(exact)) | near)
    if not wrong.any():
        return None
    at = int(np.flatnonzero(wrong)[0])
    return f"{expression}: {int(wrong.sum())} wrong, at [{at}] {got.flat[at]!r}, the library has {want.flat[at]!r}"


def run(tmp_path, library, parameters, expressions, arguments, ulps, pipeline) -> None:
    function = load(tmp_path, library, parameters, expressions)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = function(*arguments)
        got = mt.jit(function, pipeline=pipeline)(*arguments)
    problems = [check(e, g, w, ulps) for e, g, w in zip(expressions, got, want, strict=True)]
    shown = "\n".join(problem for problem in problems if problem)
    assert not shown, f"\n{shown}"


def converted(library: str, *arrays: np.ndarray):
    return arrays if library == "numpy" else tuple(as_torch(array) for array in arrays)


@pytest.mark.parametrize(("dtype", "way"), in_turn(DTYPES, WAYS[::-1]))
def test_unary_exact(tmp_path, dtype, way):
    library, pipeline = way
    [x] = converted(library, samples(dtype))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expressions = accepted(EXACT_UNARY, library, x=x)
    run(tmp_path, library, "x", expressions, (x,), 0, pipeline)


@pytest.mark.parametrize(("dtype", "way"), in_turn(("int32", "float16", "bfloat16", "float32", "float64"), WAYS))
def test_unary_functions(tmp_path, dtype, way):
    library, pipeline = way
    [x] = converted(library, samples(dtype))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expressions = accepted(INEXACT_UNARY | (TORCH_ONLY if library == "torch" else set()), library, x=x)
    if dtype == "bfloat16" and np.lib.NumpyVersion(np.__version__) < "2.3.0":
        # There x ** 0.5 of a dtype that is not NumPy's own is C's pow, which has inf for -inf; later it is sqrt.
        expressions.remove("x ** 0.5")
    run(tmp_path, library, "x", expressions, (x,), ULPS, pipeline)


@pytest.mark.parametrize(("dtype", "way"), in_turn(DTYPES, WAYS))
def test_binary_same_dtype(tmp_path, dtype, way):
    library, pipeline = way
    x, y = pairs(dtype, dtype)
    if library == "torch" and numpy_dtype(dtype).kind in "iu":
        # torch raises for an integer divided by zero; test_checks has that.
        keep = y != 0
        if dtype.startswith("int"):
            # torch's own INT_MIN // -1 is undefined and kills the process.
            keep &= ~((x == np.iinfo(dtype).min) & (y == numpy_dtype(dtype).type(-1)))
        x, y = x[keep], y[keep]
    x, y = converted(library, x, y)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expressions = accepted(BINARY, library, x=x, y=y)
    run(tmp_path, library, "x, y", expressions, (x, y), 0, pipeline)


def products_and_sums(x, y, z):
    return x * y + z, x * y - z, z - x * y, (x * y) + (y * z), x * 2.5 + z, (x + y) / z - x


@pytest.mark.parametrize(
    ("dtype", "size", "pipeline"), in_turn(["float16", "bfloat16", "float32", "float64"], [64, 77], PIPELINES)
)
def test_fused_arithmetic_is_bit_equal(dtype, size, pipeline):
    """Each operation rounds by itself, as in the libraries: nothing is contracted into a fused multiply-add."""
    torch.manual_seed(0)
    x, y, z = (torch.randn(size).to(getattr(torch, dtype)) for _ in range(3))
    found = mt.jit(products_and_sums, pipeline=pipeline)(x, y, z)
    for f, w in zip(found, products_and_sums(x, y, z), strict=True):
        assert torch.equal(f, w)


ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.5, -2.5, -4.0, 1e-45, -1e-45]


def signs_in_torch(x, y):
    f = torch.nn.functional
    bounded = torch.clamp(x, 0, 1), torch.clamp(x, min=0), torch.clamp(x, max=0.0), x.clamp_min(-0.0)
    rests = x[:6] % 2, x[:6] % -2, torch.remainder(x[:10], 1)
    return *bounded, *rests, torch.relu(x), f.relu6(x), f.selu(x), f.celu(x), f.leaky_relu(x), torch.logaddexp(x, y)


def signs_in_numpy(x, y):
    return np.clip(x, 0, 1), np.clip(x, -1, 0.0), x % 2, np.nextafter(x, y), np.nextafter(x, -0.0), np.fmod(x, 2), -x


def _check_signs(results, expected):
    for result, right in zip(results, expected, strict=True):
        result, right = np.asarray(result), np.asarray(right)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(right))
        known = ~np.isnan(right)
        np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(right[known]))
        np.testing.assert_array_equal(result == 0, right == 0)


@pytest.mark.parametrize("pipeline", [*PIPELINES, "interpreter"])
def test_signs_of_zeros_and_nan_are_the_librarys(pipeline):
    x, y = np.tile(np.float32(ODD), len(ODD)), np.repeat(np.float32(ODD), len(ODD))
    with np.errstate(all="ignore"):
        _check_signs(mt.jit(signs_in_numpy, pipeline=pipeline)(x, y), signs_in_numpy(x, y))
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    _check_signs(mt.jit(signs_in_torch, pipeline=pipeline)(x, y), signs_in_torch(x, y))


def test_signs_of_zeros_and_nan_in_torch_programs():
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return signs_in_torch(x, y)

    x, y = torch.tensor(ODD).repeat(len(ODD)), torch.tensor(ODD).repeat_interleave(len(ODD))
    _check_signs(mt.from_torch(Module(), (x, y)).compile(pipeline="mlir")(x, y), signs_in_torch(x, y))
