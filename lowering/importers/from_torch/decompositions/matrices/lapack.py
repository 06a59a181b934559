"""Compute what routines of LAPACK and BLAS return, by ATen's operators on matrices.

The routines and their arguments are those that JAX calls (`lapack_dgetrf_ffi` and others), without the letter of the
dtype. A status that LAPACK returns as `info` is an int32 per matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from mlirtri.lowering.importers.from_torch.decomposition_rules import Results

Tensor = torch.Tensor
Options = Mapping[str, int]
"""Letters of LAPACK's arguments, as their codes in ASCII."""


def _is(options: Options, name: str, letter: str) -> bool:
    return options.get(name) == ord(letter)


def _no_error(a: Tensor) -> Tensor:
    return torch.zeros(a.shape[:-2], dtype=torch.int32)


def _cholesky(options: Options, a: Tensor) -> tuple[Tensor, ...]:
    upper = _is(options, "uplo", "U")
    # LAPACK leaves the other triangle as it was, and no caller reads it: here it is zero.
    return tuple(torch.linalg.cholesky_ex(a, upper=upper))


def _reflections(_: Options, a: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.geqrf(a))


def _product_of_reflections(_: Options, packed: Tensor, tau: Tensor) -> tuple[Tensor, ...]:
    return (torch.linalg.householder_product(packed, tau),)


def _singular_values(options: Options, a: Tensor) -> tuple[Tensor, ...]:
    if _is(options, "mode", "N"):
        values = torch.linalg.svdvals(a)
        rows, columns = a.shape[-2:]
        u, v = (torch.zeros((*a.shape[:-2], size, size), dtype=a.dtype) for size in (rows, columns))
    else:
        u, values, v = torch.linalg.svd(a, full_matrices=_is(options, "mode", "A"))
    return a.clone(), values, u, v, _no_error(a)


def _eigenvalues_of_symmetric(options: Options, a: Tensor) -> tuple[Tensor, ...]:
    values, vectors = torch.linalg.eigh(a, UPLO="U" if _is(options, "uplo", "U") else "L")
    return vectors, values, _no_error(a)


def _triangular_factors(_: Options, a: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.linalg.lu_factor_ex(a))


def _triangular_solution(options: Options, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    upper, is_right = _is(options, "uplo", "U"), _is(options, "side", "R")
    if not _is(options, "trans_x", "N"):
        a, upper = (a.mH if _is(options, "trans_x", "C") else a.mT), not upper
    unit = _is(options, "diag", "U")
    return (torch.linalg.solve_triangular(a, b, upper=upper, left=not is_right, unitriangular=unit),)


ROUTINES: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "potrf": _cholesky, "geqrf": _reflections, "orgqr": _product_of_reflections, "ungqr": _product_of_reflections,
    "gesdd": _singular_values, "syevd": _eigenvalues_of_symmetric, "heevd": _eigenvalues_of_symmetric,
    "getrf": _triangular_factors, "trsm": _triangular_solution,
}  # fmt: skip


OPTIONS_OF = {
    "potrf": ("uplo",), "gesdd": ("mode",), "syevd": ("uplo",), "heevd": ("uplo",),
    "trsm": ("uplo", "side", "trans_x", "diag"),
}  # fmt: skip
"""The options that each routine needs."""


class Routine(torch.nn.Module):
    """A routine with its options, to be traced."""

    def __init__(self, name: str, options: Options):
        super().__init__()
        self.name, self.options = name, dict(options)

    def forward(self, *matrices: Tensor) -> Results:
        """Return the routine's results for these operands."""
        return ROUTINES[self.name](self.options, *matrices)
