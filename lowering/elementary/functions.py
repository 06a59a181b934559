"""Elementary functions as arithmetic on vectors, within 2 units in the last place, for every float.

They are written in the operations of one IR (`tir_lanes.Lanes`; `mlir_backend.llvm.elementary.Scalars`). Infinities,
NaN, denormals and the two zeros give the results of C's functions. Operands that need another range reduction (sines of
more than 2**26, powers of negative numbers) call the C library, for the vectors that contain one.

Polynomials are minimax ones of our own, made by Remez' exchange (E. Remez, 1934) in 50 digits and rounded. The
reductions are those of W. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlirtri.dialect.base.registry import Registry

Expr = Any
Lanes = Any
"""The operations that expressions are built from: one element type, one IR."""
Function = Callable[..., Expr]
MANTISSA, BIAS = {"float32": 23, "float64": 52}, {"float32": 127, "float64": 1023}
"""By dtype: the explicit bits of a mantissa, and what is added to an exponent."""
INFINITY_BITS = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}


def horner(c: Lanes, x: Expr, coefficients: Sequence[float]) -> Expr:
    """Return the sum of ``coefficients[k] * x**k``, by Horner's rule."""
    result = c.number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = c.fma(result, x, c.number(coefficient))
    return result


@dataclass(frozen=True)
class Elementary:
    """An elementary function: the builders of its expression."""

    makers: Registry[str, Function]
    """Builders by element type."""
    asks_library: bool
    """Whether some operands are passed to the C library (`where_all`)."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(self.makers)

    def make(self, c: Lanes, *operands: Expr) -> Expr:
        return self.makers[c.dtype](c, *operands)


FUNCTIONS: Registry[str, Elementary] = Registry("elementary function")

LOG2E, LN2, LOG10_2 = 1.442695040888963407359925, 0.6931471805599453094172321, 0.3010299956639811952137389
LOG10E, TWO_OVER_PI = 0.4342944819032518276511289, 0.6366197723675813430755351
LN2_REST, LOG2E_REST = 2.319046813846299558e-17, 2.035527374093103311e-17
LOG10E_REST, LOG10_2_REST = 1.098319650216765e-17, -2.8037281277851703e-18
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
"""pi / 2 as a sum of three doubles."""


def function(name: str, *dtypes: str, asks_library: bool = False) -> Callable[[Function], Function]:
    """Register a builder of the expression of a function."""

    def register(make: Function) -> Function:
        if name not in FUNCTIONS:
            FUNCTIONS.add(name, Elementary(Registry(f"expression of {name}"), asks_library))
        return FUNCTIONS[name].makers.register(*dtypes)(make)

    return register


def _split(c: Lanes, value: float, low_digits: float) -> tuple[Expr, Expr]:
    """Return a constant with more digits than a double as a sum of two numbers of the dtype."""
    if c.dtype == "float64":
        return c.number(value), c.number(low_digits)
    high = float(np.float32(value))
    return c.number(high), c.number(float(np.float32(value - high)))


@dataclass(frozen=True)
class _Exponential:
    """Constants of a dtype: q in e**r = 1 + r + r**2 q(r), for e**r - 1 likewise, p in 2**r = 1 + r p(r); ranges."""

    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    exp2: tuple[float, ...]
    low: float
    high: float
    bits: int


_EXPONENTIAL = {
    "float32": _Exponential(
        (0.5, 0.1666666567325592, 0.041666317731142044, 0.00833350419998169, 0.0013943249359726906,
         0.0001978441432584077),
        (0.5, 0.1666654348373413, 0.04166628420352936, 0.008366625756025314, 0.0013946440303698182),
        (0.6931471824645996, 0.24022647738456726, 0.055503349751234055, 0.009618440642952919, 0.001339815789833665,
         0.00015351596812251955),
        -104.0, 89.0, 24,
    ),
    "float64": _Exponential(
        (0.5, 0.1666666666666668, 0.04166666666666621, 0.008333333333319023, 0.001388888888908539,
         0.00019841269892204412, 2.4801586957859773e-05, 2.7557238507128947e-06, 2.7557568953818606e-07,
         2.5110905358460193e-08, 2.0827922002669555e-09),
        (0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333322125, 0.001388888888886783,
         0.00019841269884982114, 2.4801587358912408e-05, 2.7557245280551865e-06, 2.755724398415388e-07,
         2.5108685364297167e-08, 2.0924105800083482e-09),
        (0.6931471805599453, 0.24022650695910072, 0.05550410866482168, 0.009618129107628336, 0.0013333558146394712,
         0.000154035303936347, 1.5252733852609647e-05, 1.321548659661353e-06, 1.0178052587935815e-07,
         7.054974664196895e-09, 4.456480471200587e-10, 2.562435408762065e-11),
        -746.0, 710.0, 53,
    ),
}  # fmt: skip


@function("nearbyint", "float32", "float64")
def _nearbyint(c: Lanes, x: Expr) -> Expr:
    """Return the nearest integer, ties to even; TVM does not vectorise `nearbyint`."""
    return c.nearest(x)


def _reduced(c: Lanes, x: Expr) -> tuple[Expr, Expr]:
    """Return n and r with x = n ln 2 + r and |r| <= ln 2 / 2."""
    high, low = _split(c, LN2, LN2_REST)
    n = c.named(c.floor(c.fma(x, c.number(LOG2E), c.number(0.5))))
    minus = c.named(c.product(n, c.number(-1.0)))
    return n, c.named(c.fma(minus, low, c.fma(minus, high, x)))


def _scaled(c: Lanes, value: Expr, n: Expr) -> Expr:
    """Return value * 2**n in two steps, so that neither factor overflows, and a denormal is rounded once."""
    if c.scales:
        return c.scaled(value, n)
    k = c.named(c.integer_of(n))
    half = c.named(c.shifted_right(k, 1))
    return c.product(c.product(value, c.power_of_two(half)), c.power_of_two(c.minus(k, half)))


def exponential(c: Lanes, x: Expr, less: int = 0) -> Expr:
    """Return e**x / 2**less for x in the range of finite results; x is not NaN."""
    n, r = _reduced(c, x)
    more = c.fma(c.polynomial(r, _EXPONENTIAL[c.dtype].exp), c.product(r, r), r)
    n = c.named(c.difference(n, c.number(less))) if less else n
    return _scaled(c, c.sum(more, c.number(1.0)), n)


@function("exp", "float32", "float64")
def _exp(c: Lanes, x: Expr) -> Expr:
    facts = _EXPONENTIAL[c.dtype]
    if c.scales:
        # Not converted to an integer, so that NaN propagates.
        return exponential(c, c.named(c.within(x, facts.low, facts.high)))
    return c.select(c.is_nan(x), x, exponential(c, c.named(c.between(x, facts.low, facts.high))))


@function("exp2", "float32", "float64")
def _exp2(c: Lanes, x: Expr) -> Expr:
    facts = _EXPONENTIAL[c.dtype]
    y = c.named(c.between(x, facts.low * LOG2E, facts.high * LOG2E))
    n = c.named(c.floor(c.sum(y, c.number(0.5))))
    r = c.named(c.difference(y, n))
    return c.select(c.is_nan(x), x, _scaled(c, c.fma(c.polynomial(r, facts.exp2), r, c.number(1.0)), n))


def _exponential_less_one(c: Lanes, x: Expr) -> Expr:
    """Return e**x - 1 as 2 (2**(n-1) (e**r - 1) + 2**(n-1) - 1/2), which overflows only where the result does."""
    n, r = _reduced(c, x)
    curved = c.product(c.polynomial_by_pairs(r, _EXPONENTIAL[c.dtype].expm1), c.product(r, r))
    scale = c.named(c.power_of_two(c.minus(c.integer_of(n), c.integral(1))))
    straight = c.fma(r, scale, c.difference(scale, c.number(0.5)))
    return c.product(c.fma(curved, scale, straight), c.number(2.0))


@function("expm1", "float32", "float64")
def _expm1(c: Lanes, x: Expr) -> Expr:
    facts = _EXPONENTIAL[c.dtype]
    result = c.named(_exponential_less_one(c, c.named(c.between(x, -facts.bits * LN2 - 1, facts.high))))
    # Zeros keep their sign; so do numbers that equal their result.
    is_tiny = c.less(c.magnitude(x), c.number(2.0**-facts.bits))
    return c.select(c.either(c.is_nan(x), is_tiny), x, result)


@function("tanh", "float32", "float64")
def _tanh(c: Lanes, x: Expr) -> Expr:
    """Return t = E / (E + 2) with E = e**2|x| - 1, with the rounding error corrected: 1 / (E + 2) = (1 - t) / 2."""
    most = 10.0 if c.dtype == "float32" else 20.0
    double = c.named(c.between(c.product(c.magnitude(x), c.number(2.0)), 0.0, 2 * most))
    more = c.named(_exponential_less_one(c, double))
    divisor = c.named(c.sum(more, c.number(2.0)))
    ratio = c.named(c.quotient(more, divisor))
    minus = c.named(c.product(ratio, c.number(-1.0)))
    lost = c.difference(more, c.difference(divisor, c.number(2.0)))
    missing = c.fma(minus, lost, c.fma(minus, divisor, more))
    exact = c.fma(missing, c.fma(minus, c.number(0.5), c.number(0.5)), ratio)
    # Where E is large 1 - t has few digits, and the errors of E and E + 2 hardly affect t.
    result = c.select(c.less(more, c.number(4.0)), exact, ratio)
    is_tiny = c.less(c.magnitude(x), c.number(2.0**-30))
    return c.select(c.either(c.is_nan(x), is_tiny), x, c.with_sign(result, x))


_LOG32 = (
    0.33333322405815125, -0.24999986588954926, 0.20001554489135742, -0.1666894108057022, 0.14230431616306305,
    -0.12394952028989792, 0.11803591996431351, -0.11708871275186539, 0.06967546790838242,
)  # fmt: skip
"""log(1 + f) = f - f**2 / 2 + f**3 P(f)."""
_LOG64 = (
    0.6666666666666666, 0.40000000000002794, 0.28571428570023594, 0.22222222523986213, 0.1818178437225435,
    0.15386748568091588, 0.1325713320204671, 0.13192792059713954,
)  # fmt: skip
"""log(1 + f) = 2 s + s**3 R(s**2) with s = f / (2 + f)."""
_ROOT_HALF_BITS = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}
_SMALLEST = {"float32": (2.0**-126, 23), "float64": (2.0**-1022, 52)}


def _logarithm(c: Lanes, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return k, f and t with log x = k ln 2 + (f + t) for x > 0: f is exact, near 0 for x near 1, and t is small."""
    smallest, shift = _SMALLEST[c.dtype]
    is_denormal = c.less(x, c.number(smallest))
    normal = c.buffered(c.select(is_denormal, c.product(x, c.number(2.0**shift)), x))
    bits = c.named(c.bits(normal))
    exponent = c.named(c.exponent_of(c.minus(bits, c.integral(_ROOT_HALF_BITS[c.dtype]))))
    f = c.buffered(c.difference(c.from_bits(c.minus(bits, c.to_exponent(exponent))), c.number(1.0)))
    k = c.named(c.difference(c.float_of(exponent), c.select(is_denormal, c.number(shift), c.number(0.0))))
    square = c.named(c.product(f, f))
    if c.dtype == "float32":
        cubic = c.product(c.product(f, square), c.polynomial(f, _LOG32))
        return k, f, c.named(c.fma(square, c.number(-0.5), cubic))
    s = c.named(c.quotient(f, c.sum(f, c.number(2.0))))
    z = c.named(c.product(s, s))
    half = c.named(c.product(square, c.number(0.5)))
    # 2 s = f - s f, and s f = s (f**2 / 2) + f**2 / 2, which keeps the digits of f.
    tail = c.fma(c.fma(c.polynomial(z, _LOG64), z, c.number(0.0)), s, c.product(s, half))
    return k, f, c.named(c.difference(tail, half))


def _with_ends(c: Lanes, x: Expr, finite: Expr) -> Expr:
    """Return a logarithm of x, which is `finite` for positive numbers."""
    infinity, nan = c.number(float("inf")), c.number(float("nan"))
    at_zero = c.select(c.equal(x, c.number(0.0)), c.number(float("-inf")), nan)
    above = c.select(c.greater(x, c.number(0.0)), infinity, at_zero)
    return c.select(c.both(c.greater(x, c.number(0.0)), c.less(x, infinity)), finite, above)


def natural_logarithm(c: Lanes, x: Expr) -> Expr:
    k, f, t = _logarithm(c, x)
    high, low = _split(c, LN2, LN2_REST)
    return c.fma(k, high, c.sum(f, c.fma(k, low, t)))


@function("log", "float32", "float64")
def _log(c: Lanes, x: Expr) -> Expr:
    return _with_ends(c, x, natural_logarithm(c, x))


@function("log2", "float32", "float64")
def _log2(c: Lanes, x: Expr) -> Expr:
    k, f, t = _logarithm(c, x)
    high, low = _split(c, LOG2E, LOG2E_REST)
    return _with_ends(c, x, c.sum(c.fma(f, high, c.fma(f, low, c.product(t, high))), k))


@function("log10", "float32", "float64")
def _log10(c: Lanes, x: Expr) -> Expr:
    k, f, t = _logarithm(c, x)
    high, low = _split(c, LOG10E, LOG10E_REST)
    k_high, k_low = _split(c, LOG10_2, LOG10_2_REST)
    return _with_ends(c, x, c.fma(k, k_high, c.fma(f, high, c.fma(k, k_low, c.fma(f, low, c.product(t, high))))))


@function("log1p", "float32", "float64")
def _log1p(c: Lanes, x: Expr) -> Expr:
    """Return log u + (rounding error of u = 1 + x) / u."""
    one = c.number(1.0)
    u = c.named(c.sum(x, one))
    lost = c.select(c.greater(x, one), c.difference(one, c.difference(u, x)), c.difference(x, c.difference(u, one)))
    plain = c.named(natural_logarithm(c, u))
    is_tiny = c.less(c.magnitude(x), c.number(2.0 ** -_EXPONENTIAL[c.dtype].bits))
    return c.select(is_tiny, x, _with_ends(c, u, c.sum(c.quotient(lost, u), plain)))


_ERF = {
    "float32": (
        0.12837916612625122, -0.6366193890571594, 0.10277783125638962, 0.019153056666254997, -0.0001604087301529944,
        -0.001667038188315928, -0.0006328409072011709, -0.0001176416699308902, -9.256205885321833e-06,
    ),
    "float64": (
        0.1283791670955126, -0.6366197723675816, 0.10277260330192356, 0.019128447008672216, -0.00020919464425672734,
        -0.0016962059533355309, -0.0005901230956025198, -2.5868762846306347e-05, 6.452079888229228e-05,
        2.9788405462537582e-05, 3.517949329974192e-06, -2.6854932511102965e-06, -1.580525417543616e-06,
        -1.9725652387925857e-07, 2.3423082875445342e-07, 1.9660605393256463e-07, 9.084869422140156e-08,
        3.0259440217045715e-08, 7.763472430766553e-09, 1.5630232837811015e-09, 2.4633208848472555e-10,
        2.986696707658719e-11, 2.6934621224778235e-12, 1.7021640870689603e-13, 6.72544786294853e-15,
        1.24971210425227e-16,
    ),
}  # fmt: skip
"""erfc x = e**(-x - x P(-x)) for x from 0 to where erfc x is less than half an ulp of 1."""
_ERF_ENDS = {"float32": 4.0, "float64": 6.0}


@function("erf", "float32", "float64")
def _erf(c: Lanes, x: Expr) -> Expr:
    """Return 1 - e**y, with y = n ln 2 + r and 2**n exact."""
    most = _ERF_ENDS[c.dtype]
    minus, least = c.product(c.magnitude(x), c.number(-1.0)), c.number(-most)
    # Not converted to an integer, so that NaN propagates.
    is_inside = c.less(minus, least) if c.scales else c.greater(minus, least)
    minus = c.named(c.select(is_inside, least, minus) if c.scales else c.select(is_inside, minus, least))
    y = c.named(c.fma(minus, c.polynomial_by_pairs(minus, _ERF[c.dtype]), minus))
    n = c.named(c.nearest(c.product(y, c.number(LOG2E))))
    # The rounding error of ln 2 is negligible for n != 0, because 2**n is small.
    r = c.named(c.fma(n, c.number(-LN2), y))
    more = c.fma(c.polynomial_by_pairs(r, _EXPONENTIAL[c.dtype].expm1), c.product(r, r), r)
    power = c.named(c.scaled(c.number(1.0), n) if c.scales else c.power_of_two(c.integer_of(n)))
    result = c.with_sign(c.fma(power, more, c.difference(power, c.number(1.0))), x)
    return result if c.scales else c.select(c.is_nan(x), x, result)


@function("pow", "float32", asks_library=True)
def _pow(c: Lanes, x: Expr, y: Expr) -> Expr:
    """Return 2**(y log2 x) in doubles, for positive x."""
    wide = c.of_width("float64")
    # In a buffer, since substituting the large expression costs half a second of compilation.
    k, f, t = _logarithm(wide, wide.buffered(wide.converted(x)))
    t = wide.buffered(t)
    log2 = wide.sum(wide.product(wide.sum(f, t), wide.number(LOG2E)), k)
    product = wide.buffered(wide.between(wide.product(log2, wide.converted(y)), -300.0, 300.0))
    n = wide.buffered(wide.floor(wide.sum(product, wide.number(0.5))))
    r = wide.buffered(wide.difference(product, n))
    power = wide.fma(wide.polynomial(r, _EXPONENTIAL["float64"].exp2), r, wide.number(1.0))
    near = c.named(c.converted(wide.product(power, wide.power_of_two(wide.integer_of(n)))))
    infinity = c.number(float("inf"))
    is_positive = c.both(c.greater(x, c.number(0.0)), c.less(x, infinity))
    is_plain = c.both(is_positive, c.less(c.magnitude(y), infinity))
    return c.where_all(is_plain, near, "pow", x, y)


_LARGEST_QUOTIENT = {"float32": 2.0**22, "float64": 2.0**51}
"""Quotients up to here are integers that the dtype represents exactly."""


@function("fmod", "float32", "float64", asks_library=True)
def _fmod(c: Lanes, x: Expr, y: Expr) -> Expr:
    """Return |x| - n |y|, which is exact for n the rounded quotient, and for n - 1."""
    size, other = c.named(c.magnitude(x)), c.named(c.magnitude(y))
    quotient = c.named(c.quotient(size, other))
    remainder = c.buffered(c.fma(c.product(c.floor(quotient), c.number(-1.0)), other, size))
    remainder = c.select(c.less(remainder, c.number(0.0)), c.sum(remainder, other), remainder)
    near = c.buffered(c.with_sign(c.select(c.less(size, other), size, remainder), x))
    return c.where_all(c.less(quotient, c.number(_LARGEST_QUOTIENT[c.dtype])), near, "fmod", x, y)
