"""More distributions of `numpy.random.Generator` in the kernel language, which draw NumPy's numbers.

Python never runs them. Numbers are NumPy's up to the rounding of ``log``, ``exp`` and ``pow``. Methods: gamma numbers
by G. Marsaglia and W. Tsang (A simple method for generating gamma variables, 2000) and, below 1, by J. Ahrens and
U. Dieter (1974); Poisson numbers from 10 on by transformed rejection (W. Hörmann, PTRS, 1993).
"""

from __future__ import annotations

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.frontend.library_functions.random_generator import require_value
from mlirtri.lowering.frontend.library_functions.random_numbers import (
    exponential_number,
    filled,
    normal_number,
    positive_unit,
    random,
    require_positive,
    standard_exponential,
    unit,
)


def one_number(*parameters):
    for parameter in parameters:
        if np.ndim(parameter) != 0:
            refuse("its parameters are numbers, not arrays")


# --- continuous ------------------------------------------------------------------------------------------------------


def gamma_number(shape):
    """Return how to draw from the gamma distribution of scale 1."""

    def draw(high, low, up, down):
        x = 0.0
        if shape == 1.0:
            x, high, low = exponential_number(high, low, up, down)
        elif shape > 1.0:
            x, high, low = gamma_above_one(shape, high, low, up, down)
        elif shape > 0.0:
            x, high, low = gamma_below_one(shape, high, low, up, down)
        return x, high, low

    return draw


def gamma_above_one(shape, high, low, up, down):
    b = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9 * b)
    x = 0.0
    is_drawn = False
    while not is_drawn:
        number, high, low = normal_number(high, low, up, down)
        v = 1.0 + c * number
        while v <= 0.0:
            number, high, low = normal_number(high, low, up, down)
            v = 1.0 + c * number
        v = v * v * v
        share, high, low = unit(high, low, up, down)
        x = b * v
        is_near = share < 1.0 - 0.0331 * (number * number) * (number * number)
        is_drawn = is_near or np.log(share) < 0.5 * number * number + b * (1.0 - v + np.log(v))
    return x, high, low


def gamma_below_one(shape, high, low, up, down):
    x = 0.0
    is_drawn = False
    while not is_drawn:
        share, high, low = unit(high, low, up, down)
        v, high, low = exponential_number(high, low, up, down)
        if share <= 1.0 - shape:
            x = np.float_power(share, 1.0 / shape)
            is_drawn = x <= v
        else:
            y = -np.log((1 - share) / shape)
            x = np.float_power(1.0 - shape + shape * y, 1.0 / shape)
            is_drawn = x <= v + y
    return x, high, low


def standard_gamma(self, shape, size=None, dtype=np.float64):
    if dtype != np.float64:
        refuse("its dtype is float64: cast the result with astype")
    one_number(shape)
    require_positive(shape, "shape < 0")
    return filled(self, size, gamma_number(shape))


def gamma(self, shape, scale=1.0, size=None):
    one_number(scale)
    require_positive(scale, "scale < 0")
    return scale * standard_gamma(self, shape, size)


def chisquare(self, df, size=None):
    one_number(df)
    require_value(df > 0, "df <= 0")
    return 2.0 * standard_gamma(self, df / 2.0, size)


def laplace(self, loc=0.0, scale=1.0, size=None):
    def number(share):
        is_upper = share >= 0.5
        size = scale * np.log(np.where(is_upper, 2.0 - share - share, share + share))
        return np.where(is_upper, loc - size, loc + size)

    return _of_uniform(self, loc, scale, size, number)


def gumbel(self, loc=0.0, scale=1.0, size=None):
    return _of_uniform(self, loc, scale, size, lambda share: loc - scale * np.log(-np.log(1.0 - share)))


def logistic(self, loc=0.0, scale=1.0, size=None):
    return _of_uniform(self, loc, scale, size, lambda share: loc + scale * np.log(share / (1.0 - share)))


def _of_uniform(self, loc, scale, size, number):
    """Draw the numbers that `number` gives for uniform ones above 0."""
    one_number(loc, scale)
    require_positive(scale, "scale < 0")

    def draw(high, low, up, down):
        share, high, low = positive_unit(high, low, up, down)
        return number(share), high, low

    return filled(self, size, draw)


def rayleigh(self, scale=1.0, size=None):
    one_number(scale)
    require_positive(scale, "scale < 0")
    return scale * np.sqrt(2.0 * standard_exponential(self, size))


def weibull(self, a, size=None):
    one_number(a)
    require_positive(a, "a < 0")
    return np.where(a == 0, 0.0, np.float_power(standard_exponential(self, size), 1.0 / a))[()]


def pareto(self, a, size=None):
    one_number(a)
    require_value(a > 0, "a <= 0")
    return np.expm1(standard_exponential(self, size) / a)


def power(self, a, size=None):
    one_number(a)
    require_value(a > 0, "a <= 0")
    return np.float_power(-np.expm1(-standard_exponential(self, size)), 1.0 / a)


def triangular(self, left, mode, right, size=None):
    one_number(left, mode, right)
    require_value(left <= mode, "left > mode")
    require_value(mode <= right, "mode > right")
    require_value(left != right, "left == right")
    base = right - left
    share = random(self, size)
    low = left + np.sqrt(share * ((mode - left) * base))
    high = right - np.sqrt((1.0 - share) * ((right - mode) * base))
    return np.where(share <= (mode - left) / base, low, high)[()]


# --- discrete --------------------------------------------------------------------------------------------------------


def log_gamma(x):
    """Return the logarithm of the gamma function by Stirling's series, for integers from 1 on, as NumPy."""
    count = 7 - x if x < 7 else 0
    moved = x + count + 0.0
    square = (1.0 / moved) * (1.0 / moved)
    series = -1.39243221690590
    for coefficient in (
        1.796443723688307e-01, -2.955065359477124e-02, 6.410256410256410e-03, -1.917526917526918e-03,
        8.417508417508418e-04, -5.952380952380952e-04, 7.936507936507937e-04, -2.777777777777778e-03,
        8.333333333333333e-02,
    ):  # fmt: skip
        series = series * square + coefficient
    result = series / moved + 0.5 * 1.8378770664093453 + (moved - 0.5) * np.log(moved) - moved
    for _ in range(count):
        result -= np.log(moved - 1.0)
        moved -= 1.0
    return np.where((x == 1) | (x == 2), 0.0, result)


def _poisson_by_products(mean, high, low, up, down):
    least = np.exp(-mean)
    count = 0
    product, high, low = unit(high, low, up, down)
    while product > least:
        count += 1
        share, high, low = unit(high, low, up, down)
        product *= share
    return count, high, low


def _poisson_by_rejection(mean, high, low, up, down):
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    limit = 0.9277 - 3.6224 / (b - 2)
    count = 0
    is_drawn = False
    while not is_drawn:
        u, high, low = unit(high, low, up, down)
        v, high, low = unit(high, low, up, down)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        count = int(np.floor((2 * a / us + b) * u + mean + 0.43))
        if us >= 0.07 and v <= limit:
            is_drawn = True
        elif count >= 0 and not (us < 0.013 and v > us):
            left = np.log(v) + np.log(inverse) - np.log(a / (us * us) + b)
            is_drawn = left <= -mean + count * np.log(mean) - log_gamma(count + 1)
    return count, high, low


def poisson_number(mean):
    """Return how to draw from the Poisson distribution."""

    def draw(high, low, up, down):
        count = 0
        if mean >= 10:
            count, high, low = _poisson_by_rejection(mean, high, low, up, down)
        elif mean != 0:
            count, high, low = _poisson_by_products(mean, high, low, up, down)
        return count, high, low

    return draw


def poisson(self, lam=1.0, size=None):
    one_number(lam)
    require_value(lam >= 0, "lam < 0 or lam is NaN")
    require_value(lam <= 9.2e18, "lam value too large")
    return filled(self, size, poisson_number(lam), np.int64)


def geometric(self, p, size=None):
    one_number(p)
    require_value(p > 0 and p <= 1, "p <= 0, p > 1 or p contains NaNs")

    def draw(high, low, up, down):
        count = 1
        if p >= 0.333333333333333333333333:
            share, high, low = unit(high, low, up, down)
            product = p * 1.0
            total = product
            while share > total:
                product *= 1.0 - p
                total += product
                count += 1
        else:
            number, high, low = exponential_number(high, low, up, down)
            count = int(np.ceil(-number / np.log1p(-p)))
        return count, high, low

    return filled(self, size, draw, np.int64)


def binomial(self, n, p, size=None):
    one_number(n, p)
    require_value(n >= 0, "n < 0")
    require_value(p >= 0 and p <= 1, "p < 0, p > 1 or p is NaN")
    share_of_success = np.where(p <= 0.5, p, 1.0 - p)
    require_value(
        n * share_of_success <= 30, "n * min(p, 1 - p) is at most 30 in kernels: draw outside, pass the numbers"
    )

    def draw(high, low, up, down):
        count = 0
        if n * share_of_success > 0:
            rest = 1.0 - share_of_success
            none = np.exp(n * np.log1p(-share_of_success))
            mean = n * share_of_success
            bound = int(np.minimum(n, mean + 10.0 * np.sqrt(mean * rest + 1)))
            probability = none
            share, high, low = unit(high, low, up, down)
            while share > probability:
                count += 1
                if count > bound:
                    count = 0
                    probability = none
                    share, high, low = unit(high, low, up, down)
                else:
                    share -= probability
                    probability = ((n - count + 1) * share_of_success * probability) / (count * rest)
        return (count if p <= 0.5 else n - count), high, low

    return filled(self, size, draw, np.int64)


_METHODS = (
    standard_gamma, gamma, chisquare, laplace, gumbel, logistic, rayleigh, weibull, pareto, power, triangular, poisson,
    geometric, binomial,
)  # fmt: skip
METHODS = {function.__name__: function for function in _METHODS}
"""The methods of a generator by name; each takes the generator first."""
