"""Calls of NumPy's functions of whole arrays that kernels may hold; shared by the tests of spellings and of calls."""

from __future__ import annotations

import numpy as np
from spelling_calls import B, C, Case, M, N, P, S, V, X, Y, Z, random

SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 4.0])
SPECIALS = (SPECIAL[:, None], SPECIAL[None, :])
FUNCTIONS = [
    *(Case(f"numpy.{op}", *SPECIALS) for op in ("hypot", "copysign", "fmod", "logaddexp", "logaddexp2", "fmin")),
    *(Case(f"numpy.{op}", *SPECIALS) for op in ("fmax", "isclose", "heaviside", "allclose", "array_equal")),
    *(Case(f"numpy.{op}", SPECIAL) for op in ("signbit", "nan_to_num", "isposinf", "isneginf", "cbrt", "sinc")),
    *(Case(f"numpy.{op}", x) for op in ("reciprocal", "positive", "deg2rad", "degrees", "modf") for x in (Y, N)),
    Case("numpy.modf", SPECIAL), *(Case("numpy.power", SPECIAL.astype(t), 0.5) for t in ("f2", "f4", "f8", "c16")),
    Case("numpy.power", *SPECIALS), Case("numpy.power", P, 0.5),
    *(Case(f"numpy.{op}", N, P) for op in ("hypot", "copysign", "fmod", "logaddexp", "fmin", "fmax", "isclose")),
    Case("numpy.hypot", np.float64([1e300, 1e-300]), 1e300), Case("numpy.hypot", X * 1e30, Y * 1e30),
    Case("numpy.hypot", 3, 4.0), Case("numpy.copysign", X, -1), Case("numpy.logaddexp", X, 1),
    Case("numpy.reciprocal", M), Case("numpy.reciprocal", P.astype(np.uint8)), Case("numpy.reciprocal", N * 0),
    Case("numpy.reciprocal", N, dtype=np.float64), Case("numpy.heaviside", N, 0.5), Case("numpy.heaviside", 2, 1),
    Case("numpy.nan_to_num", SPECIAL.astype(np.float32), nan=2.0, posinf=7), Case("numpy.nan_to_num", N),
    Case("numpy.isclose", X, X * 1.001, rtol=1e-2), Case("numpy.isclose", SPECIAL, SPECIAL, equal_nan=True),
    Case("numpy.isclose", 1.0, 1.0), Case("numpy.allclose", X, X), Case("numpy.allclose", X, Y, 1, 3.0),
    Case("numpy.array_equal", X, X), Case("numpy.array_equal", X, V), Case("numpy.array_equal", SPECIAL, SPECIAL, True),
]  # fmt: skip
SHAPES = [
    Case("numpy.roll", X, 1), Case("numpy.roll", B, -2, 0), Case("numpy.roll", B, (1, 2), (0, 2)),
    Case("numpy.roll", B, 5, axis=(0, 1)), Case("numpy.roll", X, 3, 1), Case("numpy.repeat", X, 2),
    Case("numpy.repeat", X, 2, 1), Case("numpy.repeat", X, [1, 0, 3], axis=1), Case("numpy.repeat", 3, 4),
    Case("numpy.tile", X, 2), Case("numpy.tile", X, (2, 1, 3)), Case("numpy.tile", V, (2, 2)), Case("numpy.tile", Z, 3),
    Case("numpy.delete", X, 1), Case("numpy.delete", X, [0, -1], axis=1), Case("numpy.delete", B, slice(0, 3, 2), 0),
    Case("numpy.append", X, V), Case("numpy.append", X, Y, 0), Case("numpy.append", N, 2.5), Case("numpy.pad", X, 1),
    Case("numpy.pad", X, (1, 2)), Case("numpy.pad", X, ((0, 1), (2, 0)), constant_values=3),
    Case("numpy.pad", N, 1, constant_values=((1, 2), (3, 4))), Case("numpy.pad", N, 2, "edge"),
    *(Case("numpy.pad", B, ((5, 2), (0, 1), (3, 4)), mode) for mode in ("edge", "reflect", "symmetric", "wrap")),
    Case("numpy.pad", X, 1, constant_values=Z), Case("numpy.pad", M, 1), Case("numpy.atleast_1d", Z),
    Case("numpy.atleast_1d", 2), Case("numpy.atleast_2d", V, X), *(Case("numpy.atleast_3d", x) for x in (Z, V, X, B)),
    Case("numpy.dstack", (X, Y)), Case("numpy.dstack", (V, V)), Case("numpy.column_stack", (X[:, 0], Y)),
    Case("numpy.hsplit", X, 3), Case("numpy.hsplit", V, [1]), Case("numpy.vsplit", X, 2), Case("numpy.dsplit", B, 3),
    Case("numpy.broadcast_arrays", X, V, 1), Case("numpy.broadcast_shapes", (2, 1), (3,)),
    *(Case("numpy.rollaxis", B, *at) for at in ((2,), (0, 3), (1, 0), (0, 1), (-1, 1))),
    *(Case("numpy.rot90", B, k) for k in (0, 1, 2, 3, -1)), Case("numpy.rot90", B, 1, (1, 2)),
    Case("numpy.select", [X > 0.5, X > 0.3], [Y, 2 * Y]), Case("numpy.select", [M], [N], 7),
]  # fmt: skip
MAKING = [
    Case("numpy.linspace", 0, 1), Case("numpy.linspace", 2.0, 3.0, 5, endpoint=False), Case("numpy.linspace", 1, 2, 1),
    Case("numpy.linspace", 0, 1, 0), Case("numpy.linspace", 0, 1, 7, retstep=True), Case("numpy.linspace", V, 2, 4),
    Case("numpy.linspace", 0, 10, 4, dtype=int), Case("numpy.linspace", V, X, 4, axis=-1),
    Case("numpy.linspace", Z, 5, 3),
    Case("numpy.linspace", 0, 1, 5, dtype=np.float32), Case("numpy.logspace", 0, 3, 4),
    Case("numpy.logspace", 0, 4, 5, base=2),
    Case("numpy.logspace", 0, 2, 3, dtype=np.int32), Case("numpy.geomspace", 1, 1000, 4),
    Case("numpy.geomspace", -1, -8, 4),
    Case("numpy.meshgrid", V, X[:, 0]), Case("numpy.meshgrid", V, X[:, 0], N[0], indexing="ij"),
    Case("numpy.meshgrid", V),
    Case("numpy.meshgrid", V, V, sparse=True), Case("numpy.indices", (2, 3)),
    Case("numpy.indices", (2, 3), sparse=True),
    Case("numpy.indices", (4,), dtype=np.float32), Case("numpy.mgrid.__getitem__", (slice(0, 3), slice(1, 7, 2))),
    Case("numpy.mgrid.__getitem__", slice(4)), Case("numpy.mgrid.__getitem__", (slice(0, 1, 0.25), slice(2))),
    Case("numpy.ogrid.__getitem__", (slice(0, 3), slice(1, 3))),
    Case("numpy.mgrid.__getitem__", (slice(0, 1, 5j), slice(2))),
    *(Case("numpy.r_.__getitem__", key) for key in ((V, 2.5, V), (slice(1, 4), N[0], 7), slice(0, 1, 5j), (1, 2, 3))),
    *(Case("numpy.r_.__getitem__", key) for key in ((N[0].astype(np.int8), 1), (X, Y), (V[:1], [1, 2]), (Z, 1))),
    *(Case("numpy.c_.__getitem__", key) for key in ((V, V), (X[:, 0], X), (slice(1, 4), slice(2, 5)))),
    Case("numpy.tri", 3), Case("numpy.tri", 3, 4, 1, dtype=int), Case("numpy.diag", V), Case("numpy.diag", V, 1),
    Case("numpy.diag", N[1], -2), *(Case("numpy.diag", X, k) for k in (-3, -1, 0, 1, 2)), Case("numpy.diagflat", X),
    *(Case("numpy.diagonal", B, k, 0, 2) for k in (-2, 0, 1)), Case("numpy.diagonal", B, axis1=2, axis2=1),
    Case("numpy.trace", X), Case("numpy.trace", N, 1), Case("numpy.trace", B, 0, 1, 2),
    Case("numpy.trace", N, dtype=np.float32),
    Case("numpy.vander", V), Case("numpy.vander", N[0], 2), Case("numpy.vander", V, 4, increasing=True),
    Case("numpy.array", [[1, 2], [3, 4]]), Case("numpy.array", [1, 2.5]), Case("numpy.array", (True, False)),
    Case("numpy.array", [1, 2], dtype=np.float32), Case("numpy.array", []), Case("numpy.array", [[], []]),
    Case("numpy.array", [V, X[0]]), Case("numpy.array", [Z, 2.0, 1]), Case("numpy.array", 3, ndmin=2),
    Case("numpy.array", X, np.float64), Case("numpy.asarray", [[1.5], [2.0]]), Case("numpy.ascontiguousarray", X),
    Case("numpy.array", [0.0, -0.0]), Case("numpy.array", [3, 3, 3]), Case("numpy.array", [2**63], dtype=np.uint64),
]  # fmt: skip
D = random.uniform(-2, 2, 40)
TIES = random.integers(-5, 5, (4, 17)).astype(np.int32)
HOLES = np.where(random.uniform(0, 1, (4, 17)) < 0.2, np.nan, random.uniform(-2, 2, (4, 17)))
HOLES[1] = np.nan
GRID = np.array([-1.5, -0.5, 0.0, 0.0, 1.0, 1.75])
LOOPING = [
    *(Case(f"numpy.{op}", x) for op in ("cumsum", "cumprod") for x in (X, N, M, V, Z)),
    *(Case(f"numpy.{op}", B, axis) for op in ("cumsum", "cumprod") for axis in (0, 1, 2, -1)),
    Case("numpy.cumsum", N, 1, dtype=np.int8), Case("numpy.cumsum", N, dtype=np.float32), Case("numpy.cumsum", D),
    Case("numpy.cumulative_sum", V), Case("numpy.cumulative_prod", X, axis=1), Case("numpy.nancumsum", HOLES, 1),
    Case("numpy.nancumprod", HOLES), Case("numpy.cumsum", np.array([-0.0, -0.0])),
    *(Case("numpy.sort", x) for x in (D, TIES, HOLES, M, B, V, np.ones(1))),
    *(Case("numpy.sort", B, a) for a in (0, 1, None)),
    *(Case("numpy.argsort", x, kind="stable") for x in (D, TIES, HOLES, M, V)),
    Case("numpy.argsort", TIES, 0, "stable"),
    Case("numpy.sort", D.astype(np.float16)), Case("numpy.sort", TIES.astype(np.uint8)), Case("numpy.argsort", D),
    Case("numpy.bincount", P.ravel(), minlength=7), Case("numpy.bincount", P.ravel(), X.ravel(), 5),
    Case("numpy.histogram", D), Case("numpy.histogram", D, 7, (-1, 1)), Case("numpy.histogram", D, GRID),
    Case("numpy.histogram", D.astype(np.float32), 5), Case("numpy.histogram", N, 7),
    Case("numpy.histogram", D, [-1, 0, 2]),
    Case("numpy.histogram", D, 5, weights=D), Case("numpy.histogram", D, 5, density=True),
    Case("numpy.histogram", np.ones(3)),
    Case("numpy.histogram", D, GRID, weights=np.arange(40)), Case("numpy.median", D), Case("numpy.median", HOLES, 1),
    Case("numpy.median", B, (0, 2)), Case("numpy.median", TIES, 0, keepdims=True), Case("numpy.percentile", D, 30),
    Case("numpy.percentile", X, [0, 25, 99.5, 100], axis=1), Case("numpy.quantile", B, 0.9, keepdims=True),
]  # fmt: skip
SEQUENCES = [
    *(Case("numpy.searchsorted", GRID, x, side) for x in (D, 0.0, 1, HOLES, TIES) for side in ("left", "right")),
    Case("numpy.searchsorted", np.sort(TIES[0]), D), Case("numpy.searchsorted", np.array([1.0, np.nan]), HOLES),
    Case("numpy.digitize", D, GRID), Case("numpy.digitize", X, GRID.astype(np.float32), right=True),
    Case("numpy.interp", D, GRID + np.arange(6), D[:6]), Case("numpy.interp", 0.25, V * 0 + [0, 1, 2], V),
    Case("numpy.interp", D, V[:1], V[:1]),
    Case("numpy.interp", X, np.array([0.2, 0.5]), np.array([1, 2]), left=-1, right=7.5),
    Case("numpy.diff", D), Case("numpy.diff", B, 2, 1), Case("numpy.diff", M), Case("numpy.diff", N, 0),
    Case("numpy.diff", N, axis=0),
    Case("numpy.diff", X, prepend=0, append=Y), Case("numpy.histogram_bin_edges", D, 4), Case("numpy.ptp", B, 1),
    Case("numpy.ptp", N),
    Case("numpy.count_nonzero", N % 2), Case("numpy.count_nonzero", M, 1),
    Case("numpy.count_nonzero", X > 0.5, axis=0, keepdims=True),
    *(Case(f"numpy.nan{op}", x) for op in ("sum", "prod", "max", "min", "mean", "var", "std") for x in (HOLES, N)),
    *(Case(f"numpy.nan{op}", HOLES, 1) for op in ("sum", "max", "min", "mean", "var", "std")),
    Case("numpy.nanstd", X, ddof=1),
    *(Case(f"numpy.nan{op}", HOLES[[0, 2]], 1) for op in ("argmax", "argmin")), Case("numpy.nanvar", HOLES, 0, ddof=3),
    Case("numpy.average", X), Case("numpy.average", N, 1), Case("numpy.average", X, weights=Y),
    Case("numpy.average", N, 1, weights=P),
    Case("numpy.average", B, 2, weights=V), Case("numpy.average", X, 0, returned=True),
    Case("numpy.average", X, weights=Y, returned=True),
    Case("numpy.cov", TIES), Case("numpy.cov", TIES[0], TIES[1]),
    Case("numpy.cov", D), Case("numpy.cov", TIES, rowvar=False, bias=True), Case("numpy.cov", X, ddof=0),
    Case("numpy.cov", X, dtype=np.float32),
    Case("numpy.corrcoef", TIES), Case("numpy.corrcoef", D, D**2), Case("numpy.corrcoef", D),
    Case("numpy.gradient", D), Case("numpy.gradient", X), Case("numpy.gradient", B, 0.5, axis=0),
    Case("numpy.gradient", B, 2, 3.0, axis=(0, 2)),
    Case("numpy.gradient", D, 2.0, edge_order=2), Case("numpy.gradient", N, axis=1), Case("numpy.trapezoid", D),
    Case("numpy.trapezoid", X, dx=0.5, axis=0),
    Case("numpy.trapezoid", X, V), Case("numpy.trapezoid", N, X), Case("numpy.trapezoid", N),
]  # fmt: skip
WIDE = random.uniform(-1, 1, (2, 3, 4))
TALL = random.uniform(-1, 1, (4, 3))
PRODUCTS = [
    *(
        Case("numpy.einsum", *call)
        for call in (
            ("ij,jk", X, C[0]), ("ij,jk->ki", X, C[0]), ("bij,bjk->bik", B, C), ("ij->", X), ("ij->j", X),
            ("ii", WIDE[:2, :2, 0]),
            ("ii->i", N[:, :2]), ("ij,ij->", X, Y), ("i,j->ij", X[:, 0], V), ("i,i", V, V), ("...ij,...jk", B, C),
            ("ji", X),
            ("ijk,kj->i", WIDE, TALL), ("ijk,kl,jm->ilm", WIDE, TALL, Y.T), ("i...->...", B), ("ij,j", N, P[0]),
            ("a,ab,bc,c->", X[:, 0], X, C[0], V[:2]),
            ("ij , jk -> ik", N, X.T), ("ijj->i", B[:, :2, :2]), ("ab,b", S[:, :, 0], np.ones(3)),
            ("ij,ij->ij", M, M), ("ij,jk", M, M.T),
            ("b...,b...->...", B, B), ("ij->ij", X),
        )
    ),
    Case("numpy.einsum", "ij,jk", X, C[0], optimize=True), Case("numpy.einsum", "ij->", X, dtype=np.float64),
    Case("numpy.tensordot", WIDE, TALL, ([2, 1], [0, 1])), Case("numpy.tensordot", X, C[0], 1),
    Case("numpy.tensordot", V, V, 0),
    Case("numpy.tensordot", B, B, 3), Case("numpy.tensordot", WIDE, TALL, (1, 1)),
    Case("numpy.tensordot", N, P, (0, 0)),
    Case("numpy.inner", B, X), Case("numpy.inner", V, B), Case("numpy.inner", V, V), Case("numpy.inner", X, 2),
    Case("numpy.inner", M, M),
    Case("numpy.kron", X, C[0]), Case("numpy.kron", V, X), Case("numpy.kron", N, 2), Case("numpy.kron", B, X),
    Case("numpy.cross", B, V),
    Case("numpy.cross", N, P), Case("numpy.cross", TALL, TALL[::-1], axis=1), Case("numpy.cross", C, C, 1, 1, 0),
    Case("numpy.vecdot", B, X),
    Case("numpy.vecdot", V, V), *(Case("numpy.convolve", D, V, *mode) for mode in ((), ("same",), ("valid",))),
    Case("numpy.convolve", V, D, "same"),
    *(Case("numpy.correlate", D, x, mode) for x in (D[:4], D[:5]) for mode in ("full", "same", "valid")),
    Case("numpy.correlate", V, D, "full"),
    Case("numpy.convolve", N[0], P[1]), Case("numpy.convolve", V, 2), Case("numpy.convolve", M[0], M[1]),
    *(Case("numpy.linalg.norm", x) for x in (X, V, N, B, D)),
    *(Case("numpy.linalg.norm", V, o) for o in (np.inf, -np.inf, 0, 1, 2, 3, 0.5)),
    *(Case("numpy.linalg.norm", X, o) for o in ("fro", np.inf, -np.inf, 1, -1)),
    Case("numpy.linalg.norm", B, axis=0), Case("numpy.linalg.norm", B, 1, (0, 2)),
    Case("numpy.linalg.norm", B, None, (1, 2), True),
    Case("numpy.linalg.norm", B, np.inf, axis=-1, keepdims=True), Case("numpy.linalg.norm", B, 1, (2, 0), True),
    Case("numpy.linalg.matrix_power", WIDE[:, :2, :2], 5), Case("numpy.linalg.matrix_power", X[:, :2], 0),
    Case("numpy.linalg.multi_dot", [X, C[0], X, V]),
]  # fmt: skip
CHOSEN = [
    *(Case(f"numpy.{op}", x, where=M) for op in ("sum", "prod", "any", "all", "mean") for x in (X, N)),
    *(Case(f"numpy.{op}", X, 0, initial=5, where=M) for op in ("max", "min")), Case("numpy.sum", N, initial=3),
    Case("numpy.max", N, initial=7), Case("numpy.sum", X, 1, where=M, keepdims=True),
    Case("numpy.prod", X, 0, initial=2), Case("numpy.mean", X, 1, where=M[:, :1]), Case("numpy.sum", X, where=True),
]  # fmt: skip
UFUNCS = [
    *(Case(f"numpy.{op}.outer", X, V) for op in ("add", "subtract", "multiply", "power", "less", "hypot")),
    *(Case(f"numpy.{op}.outer", N, P[0]) for op in ("bitwise_and", "floor_divide", "remainder", "equal")),
    Case("numpy.arctan2.outer", V, X),
    Case("numpy.add.outer", V, 2), Case("numpy.add.outer", N, X, dtype=np.float64),
    *(Case(f"numpy.{op}.reduce", X) for op in ("add", "multiply", "maximum", "minimum")),
    Case("numpy.add.reduce", N, None), Case("numpy.add.reduce", B, (0, 2), keepdims=True),
    Case("numpy.logical_and.reduce", M), Case("numpy.logical_or.reduce", N, 1),
    Case("numpy.add.reduce", N, 1, np.float32),
]  # fmt: skip
ACCUMULATED = [Case(f"numpy.{op}.accumulate", x, 1) for op in ("add", "multiply", "maximum", "minimum") for x in (X, N)]
LOOPING += [*ACCUMULATED, Case("numpy.add.accumulate", V)]
AT = np.array([[2, 0], [-1, 1]])
POSITIONS = [
    *(Case("numpy.take", B, AT, axis) for axis in (None, 0, 2, -1)), Case("numpy.take", V, 1),
    Case("numpy.take", X, [1, 0, 1], 0),
    Case("numpy.take", V, AT * 5, mode="clip"), Case("numpy.take", V, AT * 5, mode="wrap"),
    Case("ndarray.take", X, AT[0], 1),
    *(Case("numpy.take_along_axis", B, np.argsort(B, axis), axis) for axis in (0, 1, 2)),
    Case("numpy.take_along_axis", X, AT[:1] * 0, 1),
    Case("numpy.take_along_axis", X, np.argsort(X, None), None), Case("numpy.tril_indices", 3),
    Case("numpy.triu_indices", 3, 1, 4),
    Case("numpy.diag_indices", 3),
    *(Case(f"numpy.{name}", 9) for name in ("hanning", "hamming", "blackman", "bartlett")),
    Case("numpy.unravel_index", N % 6, (2, 3)), Case("numpy.ravel_multi_index", (AT % 2, AT % 3), (2, 3)),
    Case("numpy.isin", N, [5, 9]),
    Case("numpy.isin", N, P, invert=True), Case("numpy.polyval", [1, 2.5, -3], X), Case("numpy.polyval", V, D),
    Case("numpy.polyval", V, N),
    Case("numpy.ediff1d", X), Case("numpy.issubdtype", np.float32, np.floating),
    Case("numpy.issubdtype", np.int8, np.float32),
    Case("ndarray.trace", X), Case("ndarray.diagonal", B, 0, 1, 2), Case("ndarray.repeat", X, 2, 0),
    Case("ndarray.searchsorted", GRID, D),
    Case("ndarray.nbytes", X), Case("ndarray.view", X), Case("ndarray.argmax", X, 0), Case("numpy.isscalar", 2),
]  # fmt: skip
LOOPING += [Case("ndarray.cumsum", X, 1), Case("ndarray.cumprod", N), Case("ndarray.argsort", V)]
STRAIGHT = FUNCTIONS + SHAPES + MAKING + SEQUENCES + PRODUCTS + UFUNCS + POSITIONS + CHOSEN
"""Calls that make no loops: twenty of them may be one straight-line kernel."""
ARRAYS = STRAIGHT + LOOPING
