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
    Case("ndarray.reshape", X, (3, -1)), Case("ndarray.flatten", X), Case("ndarray.flatten", X, "F"),
    Case("ndarray.reshape", B, (-1, 2), order="F"), Case("ndarray.ravel", B, order="F"), Case("ndarray.transpose", B),
    Case("ndarray.transpose", B, 2, 0, 1), Case("ndarray.transpose", B, (0, 2, 1)),
    Case("ndarray.transpose", B, None), Case("ndarray.astype", X, "i4"), Case("ndarray.T", B), Case("ndarray.mT", B),
    Case("ndarray.clip", Y, -1, 1), Case("ndarray.clip", Y, max=0), Case("ndarray.dot", X, C[0]),
    Case("ndarray.ravel", X), Case("ndarray.swapaxes", X, 0, 1), Case("ndarray.squeeze", S), Case("ndarray.mean", N),
    Case("ndarray.all", M, 0),
]  # fmt: skip

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
