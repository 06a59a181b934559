"""Decompose orthogonal polynomials of a tensor of degrees into three-term recurrences, one loop for all elements.

Recurrences and values at the ends of the interval: Abramowitz and Stegun, chapter 22. Each step is computed in the
result's dtype, as eager does, so that overflows and roundings are eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operand, decomposes, while_loop

aten = torch.ops.aten
Tensor = torch.Tensor
LARGEST_HERMITE_DEGREE = {torch.float32: 128, torch.float64: 512}
"""Above it eager's Hermite polynomials are NaN."""


def _next_chebyshev(x: Tensor, k: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return (x + x) * last - before


def _next_laguerre(x: Tensor, k: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return (((k + k) + (1 - x)) * last - k * before) / (k + 1)


def _next_legendre(x: Tensor, k: Tensor, before: Tensor, last: Tensor) -> Tensor:
    return ((k + k + 1) * x * last - k * before) / (k + 1)


def _one(n: Tensor) -> Tensor:
    return torch.ones_like(n)


def _alternating(n: Tensor) -> Tensor:
    return 1 - 2 * torch.remainder(n, 2)


@dataclass(frozen=True)
class Polynomial:
    """A family of polynomials: the one of degree 0 is 1."""

    first: Callable[[Tensor], Tensor]
    """The polynomial of degree 1."""
    step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = _next_chebyshev
    """The polynomial of degree k + 1, given x, k, and those of degrees k - 1 and k."""
    at_one: Callable[[Tensor], Tensor] | None = None
    """The value at 1, by degree, where eager has a formula for it."""
    at_minus_one: Callable[[Tensor], Tensor] | None = None
    is_shifted: bool = False
    """Whether the interval is from 0 to 1."""
    is_hermite: bool = False


def _chebyshev(is_shifted: bool) -> dict[str, Polynomial]:
    """Return the four kinds; the shifted ones are those of ``2 * x - 1``."""
    prefix = "shifted_" if is_shifted else ""
    kinds = {
        "t": (lambda x: x, _one, _alternating),
        "u": (lambda x: x + x, lambda n: n + 1, lambda n: (n + 1) * _alternating(n)),
        "v": (lambda x: x + x - 1, _one, lambda n: (n + n + 1) * _alternating(n)),
        "w": (lambda x: x + x + 1, lambda n: n + n + 1, _alternating),
    }
    return {
        f"{prefix}chebyshev_polynomial_{kind}": Polynomial(
            first, at_one=right, at_minus_one=left, is_shifted=is_shifted
        )
        for kind, (first, right, left) in kinds.items()
    }


POLYNOMIALS = {
    **_chebyshev(False),
    **_chebyshev(True),
    "hermite_polynomial_h": Polynomial(
        lambda x: x + x, lambda x, k, before, last: (x + x) * last - (k + k) * before, is_hermite=True
    ),
    "hermite_polynomial_he": Polynomial(
        lambda x: x, lambda x, k, before, last: x * last - k * before, is_hermite=True
    ),
    "laguerre_polynomial_l": Polynomial(lambda x: 1 - x, _next_laguerre),
    "legendre_polynomial_p": Polynomial(lambda x: x, _next_legendre, _one, _alternating),
}  # fmt: skip


def evaluate(polynomial: Polynomial) -> Callable[[Operand, Operand], Tensor]:
    """Return the rule of `polynomial` of x and its degree, of which one may be a Python number."""

    def apply(x: Operand, n: Any) -> Tensor:
        kind = torch.result_type(x, n)
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        x, n = (_as_tensor(operand, kind) for operand in (x, n))
        x, n = torch.broadcast_tensors(x, torch.trunc(n))
        x = x + x - 1 if polynomial.is_shifted else x
        result = _by_recurrence(polynomial, x, n)
        for end, value in ((1.0, polynomial.at_one), (-1.0, polynomial.at_minus_one)):
            result = result if value is None else torch.where(x == end, value(n), result)
        if polynomial.is_hermite:
            result = torch.where(n > LARGEST_HERMITE_DEGREE.get(kind, 128), torch.nan, result)
        return torch.where(n < 0, 0.0, result).to(kind)

    return apply


def _as_tensor(operand: Any, kind: torch.dtype) -> Tensor:
    return operand.to(kind) if isinstance(operand, Tensor) else torch.full((), operand, dtype=kind)


def _by_recurrence(polynomial: Polynomial, x: Tensor, n: Tensor) -> Tensor:
    def condition(k: Tensor, before: Tensor, last: Tensor, x: Tensor, n: Tensor) -> Tensor:
        return (n > k).any()

    def body(k: Tensor, before: Tensor, last: Tensor, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        is_open = (n > k) & torch.logical_not(torch.isnan(last))
        following = polynomial.step(x, k, before, last)
        return k + 1, torch.where(is_open, last, before), torch.where(is_open, following, last)

    start = (torch.ones((), dtype=x.dtype, device=x.device), torch.ones_like(x), polynomial.first(x))
    _, _, result = while_loop(condition, body, start, (x.contiguous(), n.contiguous()))
    return torch.where(n == 0, 1.0, result).to(x.dtype)


for _name, _polynomial in POLYNOMIALS.items():
    _packet = getattr(aten, f"special_{_name}")
    decomposes(_packet.default, _packet.x_scalar, _packet.n_scalar)(evaluate(_polynomial))
