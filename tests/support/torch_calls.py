"""Calls of torch's functions of whole tensors that kernels may hold; shared by the tests of spellings and of calls."""

from __future__ import annotations

import numpy as np
import torch
from numpy_calls import AT, GRID, HOLES, SPECIAL, TALL, TIES, WIDE, D
from spelling_calls import B, C, Case, M, N, P, S, V, X, Y, Z

LOOPING = [
    *(Case(f"torch.{op}", B, dim) for op in ("cumsum", "cumprod") for dim in (0, -1)), Case("torch.cumsum", N, 1),
    Case("torch.cumsum", M, 0, dtype=torch.float32), Case("torch.cumprod", Z, 0), Case("Tensor.cumsum", V, 0),
    *(Case("torch.sort", x, dim=1, descending=down, stable=True) for x in (TIES, HOLES[:1]) for down in (True, False)),
    Case("torch.sort", D), Case("torch.sort", Z), Case("torch.argsort", D, descending=True), Case("Tensor.sort", X, 0),
    Case("torch.argsort", TIES, dim=0, stable=True), Case("torch.topk", D, 5),
    Case("torch.topk", B, 2, 0, largest=False),
    Case("torch.median", D), Case("torch.median", TIES), Case("torch.median", HOLES),
    Case("torch.bincount", P.ravel(), minlength=7), Case("torch.bincount", P.ravel(), X.ravel(), 5),
]  # fmt: skip
STRAIGHT = [
    Case("torch.diff", D), Case("torch.diff", B, 2, 1), Case("torch.diff", X, prepend=Y), Case("torch.diff", M),
    *(Case("torch.searchsorted", GRID, x, right=right) for x in (D, WIDE) for right in (False, True)),
    Case("torch.searchsorted", GRID, D, out_int32=True), Case("torch.bucketize", D, GRID),
    Case("torch.take", B, AT % 9),
    Case("torch.index_select", B, 2, AT[0]), Case("torch.gather", B, 0, np.argsort(B, 0)),
    Case("torch.count_nonzero", N % 2),
    Case("torch.gather", X, 1, AT[:1] % 3), Case("torch.count_nonzero", M, 1),
    Case("torch.einsum", "bij,bjk->bik", B, C),
    Case("torch.einsum", "ij,j", N, P[0]), Case("torch.einsum", "ii->i", X[:, :2]), Case("torch.tensordot", X, C[0], 1),
    Case("torch.tensordot", WIDE, TALL, ([2, 1], [0, 1])), Case("torch.kron", X, C[0]),
    Case("torch.linalg.cross", B, B),
    Case("torch.cross", X, Y, 1), Case("torch.cross", C, C * 2, 1), Case("torch.linalg.vector_norm", X),
    *(Case("torch.linalg.vector_norm", B, o, (0, 2)) for o in (0, 1, 3, np.inf)), Case("torch.norm", X),
    Case("torch.norm", X, 1, 1),
    Case("torch.linalg.norm", B, dim=0), Case("torch.linalg.norm", X, "fro"), Case("torch.deg2rad", X),
    Case("torch.rad2deg", N),
    Case("torch.nan_to_num", SPECIAL), Case("torch.isclose", X, X * 1.001, 1e-2), Case("torch.allclose", X, Y),
    Case("torch.nansum", HOLES, 1),
    Case("torch.isclose", SPECIAL, SPECIAL, equal_nan=True), Case("torch.nanmean", HOLES, 1),
    Case("torch.nansum", N), Case("torch.roll", X, 1),
    Case("torch.roll", B, (1, -2), (0, 2)), Case("torch.tile", X, (2, 1, 2)), Case("torch.repeat_interleave", X, 2),
    Case("torch.repeat_interleave", X, 2, 1), Case("Tensor.repeat", X, 2, 1, 2),
    *(Case("torch.rot90", B, k, (0, 2)) for k in (0, 1, 2, 3)),
    Case("torch.diag", V), Case("torch.diag", X, 1), Case("torch.diagonal", B, 1, 0, 2), Case("torch.trace", N),
    Case("torch.atleast_1d", Z),
    Case("torch.atleast_2d", V), Case("torch.atleast_3d", X), Case("torch.dstack", (X, Y)),
    Case("torch.column_stack", (X[:, 0], Y)),
    Case("torch.linspace", 0, 1, 5), Case("torch.linspace", -1.5, 2, 7, dtype=torch.float64),
    Case("torch.logspace", 0, 2, 3),
    Case("torch.logspace", 0, 4, 5, 2.0), Case("torch.meshgrid", V, X[:, 0], indexing="ij"),
    Case("torch.meshgrid", V, X[:, 0], indexing="xy"),
    Case("Tensor.diagonal", S), Case("Tensor.norm", X),
    *(Case(f"torch.{op}", Y, X) for op in ("hypot", "copysign", "fmod", "logaddexp", "fmin", "fmax")),
    Case("torch.fmod", N, 2),
]  # fmt: skip
TENSORS = STRAIGHT + LOOPING
