"""Calls of NumPy and torch that kernels may hold; shared by the tests of spellings and of compiled calls."""

from __future__ import annotations

import numpy as np
import torch

random = np.random.default_rng(0)
X = random.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
Y = random.uniform(-2, 2, (2, 3)).astype(np.float32)
V = random.uniform(-2, 2, 3).astype(np.float32)
B = random.uniform(-2, 2, (4, 2, 3)).astype(np.float32)
C = random.uniform(-2, 2, (4, 3, 2)).astype(np.float32)
N = np.array([[3, -7, 5], [-2, 9, 1]], np.int32)
P = np.array([[1, 2, 3], [4, 2, 1]], np.int32)
M = np.array([[True, False, True], [False, True, True]])
S = np.ones((1, 3, 1), np.float32)
Z = np.array(2.0, np.float32)


class Case:
    """A call: ``case("numpy.sum", X, axis=1)``."""

    def __init__(self, name: str, *arguments, **keywords):
        self.name, self.arguments, self.keywords = name, arguments, keywords

    def __str__(self) -> str:
        shown = [f"{v.dtype}{v.shape}" if isinstance(v, np.ndarray) else str(v)[:30] for v in self.arguments]
        return f"{self.name}({', '.join([*shown, *(f'{key}={value}' for key, value in self.keywords.items())])})"


NUMPY = [
    *(Case(f"numpy.{op}", x) for op in ("sum", "prod", "max", "amin", "mean", "var", "std") for x in (X, N)),
    *(Case(f"numpy.{op}", x, 1) for op in ("any", "all", "argmax", "argmin", "min") for x in (X, N, M)),
    Case("numpy.sum", X, (0, 1), keepdims=True), Case("numpy.sum", N, dtype=np.int8), Case("numpy.sum", X, -1, "f8"),
    Case("numpy.mean", N, 0, np.float32), Case("numpy.std", X, 0, ddof=1), Case("numpy.std", X, correction=1),
    Case("numpy.var", X, axis=1, keepdims=True), Case("numpy.var", X, dtype=np.float64),
    Case("numpy.max", X, out=None), Case("numpy.argmax", X, keepdims=True), Case("numpy.sum", X, axis=()),
    Case("numpy.round", Y * 10), Case("numpy.round", Y, 2), Case("numpy.round", N * 7, -1), Case("numpy.round", N, 2),
    Case("numpy.around", Y, decimals=1), Case("numpy.rint", N), Case("numpy.rint", Y), Case("numpy.fabs", N),
    Case("numpy.fix", Y * 3), Case("numpy.float_power", N, P), Case("numpy.divmod", N, P), Case("numpy.divmod", Y, 2),
    Case("numpy.where", M, X, Y), Case("numpy.where", N, 1, 2.5), Case("numpy.clip", Y, -1, 1),
    Case("numpy.clip", Y, None, 0.5), Case("numpy.clip", Y, min=0.0), Case("numpy.clip", P.astype(np.uint8), -1, 300),
    Case("numpy.clip", P.astype(np.uint8), 2, 300), Case("numpy.clip", N, a_min=0, a_max=2.5),
    Case("numpy.clip", Y, X, 1), Case("numpy.exp", N, dtype=np.float32), Case("numpy.add", N, N, dtype=np.float64),
    Case("numpy.add", X, 1), Case("numpy.exp", 2), Case("numpy.add", 1, 2.5), Case("numpy.less", 1, 2),
    Case("numpy.sum", 3), Case("numpy.matmul", X, C[0]), Case("numpy.matmul", B, C), Case("numpy.matmul", V, C),
    Case("numpy.matmul", X, V), Case("numpy.dot", X, 2), Case("numpy.dot", X, C[0]), Case("numpy.dot", V, V),
    Case("numpy.inner", X, Y), Case("numpy.inner", X, V), Case("numpy.vdot", X, Y), Case("numpy.outer", X, V),
    Case("numpy.dot", a=V, b=V), Case("numpy.reshape", X, (3, 2)), Case("numpy.reshape", X, -1),
    Case("numpy.ravel", X), Case("numpy.reshape", X, shape=6), Case("numpy.transpose", B),
    Case("numpy.transpose", B, (1, 2, 0)), Case("numpy.permute_dims", B, [0, 2, 1]),
    Case("numpy.matrix_transpose", B), Case("numpy.swapaxes", B, 0, -1), Case("numpy.moveaxis", B, 0, -1),
    Case("numpy.moveaxis", B, (0, 1), (2, 0)), Case("numpy.broadcast_to", V, (2, 3)), Case("numpy.squeeze", S),
    Case("numpy.squeeze", S, 0), Case("numpy.squeeze", S, (0, 2)), Case("numpy.expand_dims", X, 1),
    Case("numpy.expand_dims", X, (0, -1)), Case("numpy.flip", X), Case("numpy.flip", X, 1), Case("numpy.flipud", X),
    Case("numpy.fliplr", X), Case("numpy.concatenate", (X, N)), Case("numpy.concatenate", [X, Y], 1),
    Case("numpy.concatenate", (X, V), axis=None), Case("numpy.concat", (N, N), dtype=np.float32),
    Case("numpy.stack", (X, Y)), Case("numpy.stack", (X, Y), axis=-1), Case("numpy.vstack", (V, X)),
    Case("numpy.hstack", (V, V)), Case("numpy.hstack", (X, Y)), Case("numpy.split", X, 3, 1),
    Case("numpy.split", X, [1, 2], axis=1), Case("numpy.array_split", V, 2), Case("numpy.array_split", X, (1,), 1),
    Case("numpy.unstack", X), Case("numpy.unstack", X, axis=1), Case("numpy.tril", B), Case("numpy.triu", X, 1),
    Case("numpy.full", (2, 3), 7), Case("numpy.full", 3, 2.5, np.int32), Case("numpy.full", (2, 3), V),
    Case("numpy.zeros", (2, 3)), Case("numpy.ones", 3, dtype="i8"), Case("numpy.empty", (2, 2), np.float32),
    Case("numpy.zeros_like", N), Case("numpy.ones_like", N, np.float32), Case("numpy.full_like", N, 2.5),
    Case("numpy.empty_like", X), Case("numpy.zeros_like", X, shape=(4,)), Case("numpy.arange", 5),
    Case("numpy.arange", 5.0), Case("numpy.arange", 1, 7, 2), Case("numpy.arange", 1, 2, 0.25),
    Case("numpy.arange", 3, dtype=np.float32), Case("numpy.eye", 3), Case("numpy.eye", 2, 4, 1, np.int32),
    Case("numpy.identity", 2), Case("numpy.astype", X, np.int32), Case("numpy.asarray", X, np.float64),
    Case("numpy.asarray", 2), Case("numpy.copy", X), Case("numpy.shape", X), Case("numpy.ndim", X),
    Case("numpy.size", X), Case("numpy.size", X, 1), Case("ndarray.sum", X, 1), Case("ndarray.std", X, ddof=1),
    Case("ndarray.max", N), Case("ndarray.round", Y, 1), Case("ndarray.reshape", X, 3, 2),
    Case("ndarray.reshape", X, (3, -1)), Case("ndarray.flatten", X), Case("ndarray.transpose", B),
    Case("ndarray.transpose", B, 2, 0, 1), Case("ndarray.transpose", B, (0, 2, 1)),
    Case("ndarray.transpose", B, None), Case("ndarray.astype", X, "i4"), Case("ndarray.T", B), Case("ndarray.mT", B),
    Case("ndarray.clip", Y, -1, 1), Case("ndarray.clip", Y, max=0), Case("ndarray.dot", X, C[0]),
    Case("ndarray.ravel", X), Case("ndarray.swapaxes", X, 0, 1), Case("ndarray.squeeze", S), Case("ndarray.mean", N),
    Case("ndarray.all", M, 0),
]  # fmt: skip

SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 4.0])
SPECIALS = (SPECIAL[:, None], SPECIAL[None, :])
NUMPY_FUNCTIONS = [
    *(Case(f"numpy.{op}", *SPECIALS) for op in ("hypot", "copysign", "fmod", "logaddexp", "logaddexp2", "fmin")),
    *(Case(f"numpy.{op}", *SPECIALS) for op in ("fmax", "isclose", "heaviside", "allclose", "array_equal")),
    *(Case(f"numpy.{op}", SPECIAL) for op in ("signbit", "nan_to_num", "isposinf", "isneginf", "cbrt", "sinc")),
    *(Case(f"numpy.{op}", x) for op in ("reciprocal", "positive", "deg2rad", "degrees", "modf") for x in (Y, N)),
    Case("numpy.modf", SPECIAL),
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
NUMPY_SHAPES = [
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
NUMPY_MAKING = [
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
    Case("numpy.histogram", D.astype(np.float32), 5), Case("numpy.histogram", N),
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
NUMPY += NUMPY_FUNCTIONS + NUMPY_SHAPES + NUMPY_MAKING + LOOPING + SEQUENCES

TORCH = [
    *(Case(f"torch.{op}", x) for op in ("sum", "prod", "max", "amin") for x in (X, N)),
    *(Case(f"torch.{op}", X) for op in ("mean", "var", "std", "var_mean", "std_mean", "argmax")),
    *(Case(f"torch.{op}", x, 1) for op in ("max", "min", "any", "all", "sum", "amax") for x in (X, N, M)),
    Case("torch.prod", X, 1), Case("torch.prod", N, 1),
    Case("torch.max", X, 0, True), Case("torch.max", X, dim=-1, keepdim=True), Case("torch.max", X, Y),
    Case("torch.min", X, other=Y), Case("torch.sum", X, (0, 1)), Case("torch.sum", X, ()),
    Case("torch.sum", X, axis=0), Case("torch.sum", X, 0, keepdims=True), Case("torch.sum", N, dtype=torch.int8),
    Case("torch.mean", N, dtype=torch.float64), Case("torch.mean", X, [0, 1]), Case("torch.std", X, 0),
    Case("torch.std", X, correction=0), Case("torch.std", X, 0, False), Case("torch.std", X, False),
    Case("torch.var", X, 1, keepdim=True, correction=0), Case("torch.var", X, 0, unbiased=False),
    Case("torch.argmin", X, 1, True), Case("torch.any", P.astype(np.uint8)), Case("torch.any", M, (0, 1)),
    Case("torch.logsumexp", X, 0), Case("torch.logsumexp", X, (0, 1), True),
    Case("torch.logsumexp", np.array([-np.inf, -np.inf], np.float32), 0), Case("torch.add", X, Y, alpha=2),
    Case("torch.add", 1, X), Case("torch.sub", N, 1, alpha=3), Case("torch.mul", 2.0, X), Case("torch.div", N, P),
    Case("torch.div", N, P, rounding_mode="trunc"), Case("torch.div", N, P, rounding_mode="floor"),
    Case("torch.div", N, -2, rounding_mode="trunc"), Case("torch.div", Y, X, rounding_mode="trunc"),
    Case("torch.true_divide", N, 2), Case("torch.pow", 2, X), Case("torch.pow", X, 2),
    Case("torch.float_power", N, 2), Case("torch.eq", input=X, other=1), Case("torch.round", Y * 3),
    Case("torch.round", Y, decimals=1), Case("torch.where", M, X, Y), Case("torch.where", M, 1, 0.5),
    Case("torch.where", M, N, 0.5), Case("torch.clamp", Y, -1, 1), Case("torch.clamp", Y, min=0),
    Case("torch.clip", N, max=2.5), Case("torch.clamp", Y, X), Case("torch.clamp_min", Y, 0),
    Case("torch.clamp_max", N, 2), Case("torch.masked_fill", X, M, -1), Case("torch.masked_fill", N, M, 2.5),
    Case("torch.absolute", input=Y), Case("torch.exp", x=Y), Case("torch.matmul", B, C), Case("torch.mm", X, C[0]),
    Case("torch.bmm", B, C), Case("torch.mv", X, V), Case("torch.dot", V, V), Case("torch.inner", X, Y),
    Case("torch.inner", X, Z), Case("torch.outer", V, V), Case("torch.addmm", X[:, :2], X, C[0], beta=0.5, alpha=2),
    Case("torch.baddbmm", B[:, :, :2], B, C), Case("torch.reshape", X, (3, 2)), Case("torch.flatten", B),
    Case("torch.flatten", B, 1), Case("torch.flatten", Z), Case("torch.ravel", X),
    Case("torch.unflatten", B, 0, (2, -1)), Case("torch.transpose", B, 0, 2), Case("torch.swapaxes", B, 0, 1),
    Case("torch.permute", B, (2, 0, 1)), Case("torch.movedim", B, 0, -1), Case("torch.movedim", B, (0, 1), (1, 2)),
    Case("torch.t", X), Case("torch.t", V), Case("torch.adjoint", B), Case("torch.broadcast_to", V, (2, 3)),
    Case("torch.squeeze", S), Case("torch.squeeze", S, 1), Case("torch.squeeze", S, (0, 1)),
    Case("torch.squeeze", Z, 0), Case("torch.unsqueeze", X, -1), Case("torch.flip", X, (0, 1)),
    Case("torch.flip", X, [1]), Case("torch.flip", X, ()), Case("torch.flipud", X), Case("torch.fliplr", X),
    Case("torch.tril", X), Case("torch.triu", B, 1), Case("torch.tril", N, diagonal=-1), Case("torch.cat", (X, N)),
    Case("torch.cat", [X, Y], 1), Case("torch.cat", (X, Y), axis=1), Case("torch.concatenate", (X, Y), axis=1),
    Case("torch.stack", (X, Y), -1), Case("torch.stack", [Z, Z]), Case("torch.vstack", (V, X)),
    Case("torch.hstack", (V, V)), Case("torch.split", B, 3), Case("torch.split", X, [1, 2], dim=1),
    Case("torch.chunk", B, 3), Case("torch.chunk", V, 2), Case("torch.tensor_split", V, 2),
    Case("torch.tensor_split", B, (1, 3)), Case("torch.unbind", X), Case("torch.unbind", X, 1),
    Case("torch.narrow", B, 0, 1, 2), Case("torch.narrow", B, 0, -2, 1), Case("torch.full", (2, 3), 7),
    Case("torch.full", (2,), 2.5), Case("torch.full", (2,), True), Case("torch.full", (2,), 3, dtype=torch.float16),
    Case("torch.zeros", 2, 3), Case("torch.zeros", (2, 3)), Case("torch.ones", 3, dtype=torch.int64),
    Case("torch.empty", 2), Case("torch.zeros_like", N), Case("torch.ones_like", N, dtype=torch.float32),
    Case("torch.empty_like", X), Case("torch.full_like", N, 2.5), Case("torch.arange", 5),
    Case("torch.arange", 1, 2.5, 0.5), Case("torch.arange", end=4), Case("torch.arange", 1, 3, dtype=torch.float64),
    Case("torch.eye", 3), Case("torch.eye", 2, 3), Case("torch.clone", X), Case("torch.numel", X),
    Case("torch.softmax", X, 1), Case("torch.softmax", X, -1, torch.float64), Case("torch.log_softmax", X, dim=0),
    Case("torch.special.softmax", X, 0), Case("torch.layer_norm", X, (3,)), Case("torch.rms_norm", X, (3,), V),
    Case("Tensor.sum", X, 1, True), Case("Tensor.max", X), Case("Tensor.max", X, 1),
    Case("Tensor.round", Y, decimals=1), Case("Tensor.where", X, M, Y), Case("Tensor.where", X, M, 0.0),
    Case("Tensor.reshape", X, 3, 2), Case("Tensor.view", X, (-1,)), Case("Tensor.view_as", X, X),
    Case("Tensor.permute", B, 2, 0, 1), Case("Tensor.permute", B, (2, 0, 1)), Case("Tensor.expand", S, 4, 3, -1),
    Case("Tensor.expand", V, (2, -1)), Case("Tensor.expand_as", V, X), Case("Tensor.broadcast_to", V, (2, 3)),
    Case("Tensor.flip", X, 0), Case("Tensor.flip", X, (0, 1)), Case("Tensor.to", X, torch.float64),
    Case("Tensor.to", X, dtype=torch.int32), Case("Tensor.to", X, N), Case("Tensor.type", X, torch.float64),
    Case("Tensor.type_as", X, N),
    *(Case(f"Tensor.{word}", Y) for word in ("float", "half", "double", "int", "long", "short")),
    *(Case(f"Tensor.{word}", Y) for word in ("char", "bool", "contiguous", "detach")),
    Case("Tensor.byte", P), Case("Tensor.size", X), Case("Tensor.size", X, 1), Case("Tensor.dim", X),
    Case("Tensor.numel", X), Case("Tensor.new_zeros", N, 2, 3), Case("Tensor.new_ones", N, (2,)),
    Case("Tensor.new_full", N, (2,), 3), Case("Tensor.new_empty", N, (2,)), Case("Tensor.T", X), Case("Tensor.mT", B),
    Case("Tensor.H", X), Case("Tensor.mH", B), Case("Tensor.t", X), Case("Tensor.transpose", B, 0, 1),
    Case("Tensor.add", X, Y, alpha=2), Case("Tensor.clamp", Y, 0), Case("Tensor.softmax", X, 1),
    Case("Tensor.std", X, 0), Case("Tensor.masked_fill", X, M, 0.0), Case("Tensor.split", B, 3),
    Case("Tensor.matmul", X, V), Case("Tensor.unflatten", B, 0, (2, 2)), Case("Tensor.argmax", X, 1),
    Case("Tensor.mul", X, 2),
]  # fmt: skip

F = "torch.nn.functional"
MASK = np.array([[True, False, True], [False, False, False], [True, True, True]])
Q, K, W = (random.uniform(-2, 2, (2, 3, 5)).astype(np.float32) for _ in range(3))
NETWORKS = [
    *(Case(f"{F}.{op}", 3 * Y) for op in ( "relu", "silu", "sigmoid", "tanh", "gelu")),
    *(Case(f"{F}.{op}", 3 * Y) for op in ("softplus", "leaky_relu", "relu6", "elu", "logsigmoid")),
    Case(f"{F}.gelu", Y, approximate="tanh"), Case(f"{F}.softplus", Y, 2, 3), Case(f"{F}.softplus", Y, beta=0.5),
    Case(f"{F}.leaky_relu", Y, 0.2), Case(f"{F}.elu", Y, alpha=0.5), Case(f"{F}.softmax", Y, 1),
    Case(f"{F}.softmax", Y, dim=0, dtype=torch.float64), Case(f"{F}.log_softmax", Y, -1), Case(f"{F}.softmin", Y, 1),
    Case(f"{F}.layer_norm", X, (3,)), Case(f"{F}.layer_norm", X, (3,), V, V, 1e-3),
    Case(f"{F}.layer_norm", B, (2, 3)), Case(f"{F}.rms_norm", X * 1e-3, (3,)),
    Case(f"{F}.rms_norm", X, [3], V, eps=1e-3), Case(f"{F}.linear", X, Y), Case(f"{F}.linear", X, Y, X[:, 0]),
    Case(f"{F}.linear", B, V), Case(f"{F}.scaled_dot_product_attention", Q, K, W),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, is_causal=True),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, scale=0.3),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, MASK),
    Case(f"{F}.scaled_dot_product_attention", Q, K, W, np.where(MASK, 0, -np.inf).astype(np.float32)),
]  # fmt: skip
