"""The rows of the benchmark: what is run, on what, how much work it is, and the goal.

A row's function is torch's; peers that say it in other words are in `peers`. Goals are times of the best peer divided
by ours, or seconds. Work is floating-point operations, or bytes that have to be moved at least.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import kernels

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
OURS = "mlirtri"
PEERS = ("torch", "compile", "numpy")
"""Eager torch, ``torch.compile`` and NumPy. Besides, by name: ``numba``, and ``tvm``, TVM without schedules."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    group: str
    name: str
    function: Callable[..., Any]
    make: Callable[[], tuple[Any, ...]]
    """The arguments; the same for all candidates."""
    work: float = 0.0
    limit: str = "multiply-add"
    """What bounds it: ``multiply-add``, ``copy``, ``read`` or ``triad``; `work` is counted accordingly."""
    goal: float | None = 1.0
    """The best peer's time divided by ours, at least."""
    goal_of_limit: float | None = None
    goal_seconds: float | None = None
    numpy: Callable[..., Any] | None = None
    peers: tuple[str, ...] = ("torch", "numpy")
    also: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """Other words for the same, by the label of the peer."""
    through: str = "jit"
    """How ours is called: ``jit`` compiled before, ``program`` imported from torch, ``out`` with memory for the result,
    ``call`` through the decorator, ``updates`` a NumPy function that writes its arguments; ``compile`` times the
    compilation, of a function or of a module that `function` makes, ``process`` all from the interpreter's start."""
    is_quick: bool = False

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


class _Function(torch.nn.Module):
    """A function as torch's exporter takes it."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
        return self.function(*arguments)


def as_module(function: Callable[..., Any]) -> torch.nn.Module:
    return _Function(function)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def _tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: tuple(randn(*shape, dtype=dtype) for shape in shapes)


MATMUL = {"goal_of_limit": 0.9, "numpy": np.matmul}


def _products() -> list[Row]:
    """Matrix products, m by k times k by n."""
    rows = [
        Row("matmul", f"fp32 {n}³", kernels.product, _tensors((n, n), (n, n)), 2.0 * n**3, is_quick=n == 512, **MATMUL)
        for n in (128, 256, 512, 1024, 2048)
    ]
    rows += [
        Row("matmul", "16 of fp32 256³", kernels.product, _tensors((16, 256, 256), (16, 256, 256)), 32.0 * 256**3,
            peers=("torch", "compile", "numpy"), **MATMUL),
        Row("matmul", "bias, relu 512x768x3072", kernels.linear_relu, _tensors((512, 768), (3072, 768), (3072,)),
            2.0 * 512 * 768 * 3072, goal_of_limit=0.9, peers=PEERS, is_quick=True,
            numpy=lambda x, weight, bias: np.maximum(x @ weight.T + bias, 0)),
        Row("matmul", "bias, gelu 512x768x3072", kernels.linear_gelu, _tensors((512, 768), (3072, 768), (3072,)),
            2.0 * 512 * 768 * 3072, goal_of_limit=0.9, peers=("torch", "compile")),
    ]  # fmt: skip
    return [*rows, *_odd_products()]


def _odd_products() -> list[Row]:
    def odd(name: str, m: int, n: int, k: int, dtype: torch.dtype = torch.float32, **options: Any) -> Row:
        make = options.pop("make", None) or _tensors((m, k), (k, n), dtype=dtype)
        function = options.pop("function", kernels.product)
        return Row("odd matmul", name, function, make, 2.0 * m * n * k, goal=0.95, **options)

    def integers() -> tuple[torch.Tensor, ...]:
        return tuple(torch.randint(-128, 128, (512, 512), dtype=torch.int8) for _ in range(2))

    numpy = {"numpy": np.matmul}
    return [
        odd("fp32 1000³", 1000, 1000, 1000, is_quick=True, **numpy),
        odd("fp32 37x511x129", 37, 511, 129, **numpy),
        odd("fp32 4096x4096x64", 4096, 4096, 64, **numpy),
        odd("fp32 512x512x777", 512, 512, 777, **numpy),
        odd("fp32 8x4096x4096", 8, 4096, 4096, **numpy),
        odd("fp32 512³ a @ b.T", 512, 512, 512, function=kernels.product_by_transposed, numpy=lambda a, b: a @ b.T),
        odd("fp32 512³ a.T @ b", 512, 512, 512, function=kernels.product_of_transposed, numpy=lambda a, b: a.T @ b),
        odd("fp64 512³", 512, 512, 512, torch.float64, **numpy),
        odd("bf16 512³", 512, 512, 512, torch.bfloat16, peers=("torch",)),
        odd("bf16 1024³", 1024, 1024, 1024, torch.bfloat16, peers=("torch",), is_quick=True),
        odd("fp16 512³", 512, 512, 512, torch.float16, peers=("torch",)),
        odd("int8 to int32 512³", 512, 512, 512, function=kernels.product_in_int32, make=integers, peers=("torch",),
            also={"torch": torch._int_mm}),
    ]  # fmt: skip


def _matrix_vector() -> list[Row]:
    return [
        Row("gemv", "4096x4096 @ 4096", kernels.product, _tensors((4096, 4096), (4096,)), 4.0 * 4096**2, "read",
            numpy=np.matmul, is_quick=True),
        Row("gemv", "4096 @ 4096x4096", kernels.product, _tensors((1, 4096), (4096, 4096)), 4.0 * 4096**2, "read",
            numpy=np.matmul),
        Row("gemv", "512x512 @ 512", kernels.product, _tensors((512, 512), (512,)), 4.0 * 512**2, "read",
            numpy=np.matmul),
        Row("gemv", "32 of 128 @ 128x1024", kernels.product, _tensors((32, 1, 128), (32, 128, 1024)),
            4.0 * 32 * 128 * 1024, "read", numpy=np.matmul),
    ]  # fmt: skip


def _elements() -> list[Row]:
    def chain(name: str, function: Callable, operands: int, length: int, **options: Any) -> Row:
        limit = {1: "copy", 2: "triad", 3: "triad"}[operands]
        work = 4.0 * (operands + 1) * length
        make = _tensors(*[(length,)] * operands)
        return Row("elements", name, function, make, work, limit, goal=1.1, peers=("torch", "compile"), **options)

    large, cached = 1 << 24, 1 << 16
    return [
        chain("gelu(a b + c) 16M", kernels.gelu_of_sum, 3, large),
        chain("gelu(a b + c) 64K", kernels.gelu_of_sum, 3, cached, is_quick=True),
        chain("a sigmoid(a) b 16M", kernels.swish_gate, 2, large),
        chain("a sigmoid(a) b 64K", kernels.swish_gate, 2, cached),
        chain("tanh(a + b) 4M", kernels.tanh_of_sum, 2, 1 << 22),
        chain("tanh(a + b) 64K", kernels.tanh_of_sum, 2, cached),
        chain("exp(-a²/2) 4M", kernels.bell, 1, 1 << 22),
        chain("exp(-a²/2) 64K", kernels.bell, 1, cached),
        chain("a + b 16M", kernels.add, 2, large),
    ]


def _row_chains() -> list[Row]:
    kinds = {
        "softmax": (kernels.softmax, lambda n: [], 2, "copy"),
        "layer norm": (kernels.layer_norm, lambda n: [(n,), (n,)], 2, "copy"),
        "rms norm": (kernels.rms_norm, lambda n: [(n,)], 2, "copy"),
        "log-sum-exp": (kernels.log_sum_exp, lambda n: [], 1, "read"),
    }
    return [
        Row("row chains", f"{name} {m}x{n}", function, _tensors((m, n), *extra(n)), 4.0 * passes * m * n, limit,
            goal=goal, peers=("torch", "compile"), is_quick=m == 128 and name != "rms norm")
        for name, (function, extra, passes, limit) in kinds.items()
        for m, n, goal in ((4096, 4096, 1.1), (128, 4096, 1.4))
    ]  # fmt: skip


def _reductions() -> list[Row]:
    kinds = {
        "row sums": (kernels.row_sums, lambda a: a.sum(1)),
        "column sums": (kernels.column_sums, lambda a: a.sum(0)),
        "sum": (kernels.total, lambda a: a.sum()),
        "row maxima": (kernels.row_maxima, lambda a: a.max(1)),
        "row argmax": (kernels.row_arguments, lambda a: a.argmax(1)),
    }
    rows = [
        Row("reductions", f"{name} {n}²", function, _tensors((n, n)), 4.0 * n * n, "read", peers=PEERS, numpy=numpy,
            is_quick=n == 512 and name in ("column sums", "row argmax"))
        for name, (function, numpy) in kinds.items()
        for n in (4096, 512)
    ]  # fmt: skip
    cumsum = Row("reductions", "cumsum 4096²", kernels.running_sums, _tensors((4096, 4096)), 8.0 * 4096**2, "copy",
                 peers=PEERS, numpy=lambda a: a.cumsum(1))  # fmt: skip
    return [*rows, cumsum]


def _layouts() -> list[Row]:
    def moved(name: str, function: Callable, make: Callable, elements: int, numpy: Callable, **options: Any) -> Row:
        return Row("layout", name, function, make, 8.0 * elements, "copy", peers=PEERS, numpy=numpy, **options)

    n = 4096
    border = ((0, 0), (0, 0), (1, 1), (1, 1))

    def looked_up() -> tuple[torch.Tensor, ...]:
        return randn(30000, 768), torch.randint(0, 30000, (n,), generator=torch.Generator().manual_seed(0))

    return [
        moved("transpose 4096²", kernels.transpose, _tensors((n, n)), n * n, lambda a: np.ascontiguousarray(a.T)),
        moved("transpose 512²", kernels.transpose, _tensors((512, 512)), 512**2,
              lambda a: np.ascontiguousarray(a.T), is_quick=True),
        moved("NCHW to NHWC 8x64x112²", kernels.channels_last, _tensors((8, 64, 112, 112)), 8 * 64 * 112**2,
              lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1))),
        moved("concat 2x 4096x2048", kernels.concatenate, _tensors((n, 2048), (n, 2048)), n * n,
              lambda a, b: np.concatenate((a, b), 1)),
        moved("pad 64x64x56²", kernels.pad, _tensors((64, 64, 56, 56)), 64 * 64 * 56**2, lambda a: np.pad(a, border)),
        moved("gather 4096 of 768", kernels.gather_rows, looked_up, n * 768, lambda table, rows: table[rows],
              is_quick=True),
    ]  # fmt: skip


def _convolutions() -> list[Row]:
    def row(name: str, function: Callable, x: tuple, weight: tuple, pixels: int, goal: float = 0.95, **options) -> Row:
        """`pixels` is how many there are in the result, of one channel."""
        work = 2.0 * pixels * prod(weight)
        return Row("convolution", name, function, _tensors(x, weight), work, goal=goal, peers=("torch", "compile"),
                   through="program", **options)  # fmt: skip

    def pool(name: str, function: Callable, factor: float) -> Row:
        work = 4.0 * 64 * 112**2 * (1 + factor)
        return Row("convolution", name, function, _tensors((1, 64, 112, 112)), work, "copy", goal=1.5,
                   peers=("torch", "compile"), through="program")  # fmt: skip

    return [
        row("3x3 64 56²", kernels.convolution, (1, 64, 56, 56), (64, 64, 3, 3), 56**2, is_quick=True),
        row("1x1 256 to 64 56²", kernels.convolution_1x1, (1, 256, 56, 56), (64, 256, 1, 1), 56**2),
        row("3x3 by 2 128 56²", kernels.convolution_by_two, (1, 128, 56, 56), (128, 128, 3, 3), 28**2),
        row("7x7 3 to 64 224²", kernels.convolution_by_two, (1, 3, 224, 224), (64, 3, 7, 7), 110**2),
        row("3x3 in 32 groups 128 56²", kernels.convolution_in_groups, (1, 128, 56, 56), (128, 4, 3, 3), 56**2),
        row("3x3 NHWC 64 56²", kernels.convolution_channels_last, (1, 56, 56, 64), (64, 64, 3, 3), 56**2),
        row("3x3 by channel 128 56²", kernels.convolution_by_channel, (1, 128, 56, 56), (128, 1, 3, 3), 56**2, 1.5,
            is_quick=True),
        pool("max pool 3x3 by 2 64 112²", kernels.max_pool, 0.25),
        pool("average pool 2x2 64 112²", kernels.average_pool, 0.25),
    ]  # fmt: skip


def _attention() -> list[Row]:
    heads = _tensors(*[(1, 8, 1024, 64)] * 3)
    flops = 4.0 * 8 * 1024 * 1024 * 64
    options: dict[str, Any] = {"goal": 1.5, "peers": ("torch", "compile")}

    def with_mask() -> tuple[torch.Tensor, ...]:
        return (*heads(), torch.rand((1024, 1024), generator=torch.Generator().manual_seed(0)) < 0.9)

    return [
        Row("attention", "8x1024x64", kernels.attention, heads, flops, is_quick=True, **options),
        Row("attention", "8x1024x64 causal", kernels.causal_attention, heads, flops / 2, **options),
        Row("attention", "8x1024x64 masked", kernels.masked_attention, with_mask, flops, **options),
    ]


def _loops() -> list[Row]:
    """Kernels of the suite, which write their arguments."""
    from numpy_kernels import KERNELS

    names = ("jacobi_2d", "heat_3d", "fdtd_2d", "horizontal_diffusion", "floyd_warshall", "nbody_pairs", "go_fast")
    return [
        Row("loops", name, KERNELS[name].function, lambda case=KERNELS[name]: case.arguments("L", case.dtypes[0]),
            goal=2.0, limit="", peers=("numba", "numpy"), numpy=KERNELS[name].function, through="updates",
            is_quick=name == "jacobi_2d")
        for name in names
    ]  # fmt: skip


def _calls() -> list[Row]:
    eight = _tensors((8,), (8,))
    quick: dict[str, Any] = {"limit": "", "is_quick": True, "peers": ("torch",)}

    sums = {"torch": operator.add}
    result = torch.empty(8)
    written = {"torch": lambda a, b: torch.add(a, b, out=result)}
    return [
        Row("call", "8 floats, out=", kernels.add, eight, goal=None, goal_seconds=1e-6, through="out", also=written,
            **quick),
        Row("call", "8 floats", kernels.add, eight, goal=1 / 1.5, also=sums, **quick),
        Row("call", "8 floats, @jit", kernels.add, eight, goal=None, goal_seconds=4e-6, through="call", also=sums,
            **quick),
    ]  # fmt: skip


def _compilations() -> list[Row]:
    """In a process that has imported everything, but the last."""
    options: dict[str, Any] = {"goal": None, "peers": ("compile",), "through": "compile"}
    one: dict[str, Any] = {**options, "goal_seconds": 0.3}
    return [
        Row("compile", "gelu(a b + c) 64K", kernels.gelu_of_sum, _tensors(*[(1 << 16,)] * 3), is_quick=True, **one),
        Row("compile", "softmax 128x4096", kernels.softmax, _tensors((128, 4096)), **one),
        Row("compile", "bias, relu 512x768x3072", kernels.linear_relu, _tensors((512, 768), (3072, 768), (3072,)),
            **one),
        Row("compile", "attention 8x1024x64", kernels.attention, _tensors(*[(1, 8, 1024, 64)] * 3), **one),
        Row("compile", "ResNet-18", _resnet, _tensors((1, 3, 224, 224)), goal_seconds=15.0, **options),
        Row("compile", "gelu, in a new process", kernels.gelu_of_sum, _tensors(*[(1 << 16,)] * 3),
            **{**options, "through": "process"}),
    ]  # fmt: skip


def _resnet() -> torch.nn.Module:
    from models.resnet import ResNet18
    from models.weights import randomise

    module = ResNet18(64).eval()
    randomise(module)
    return module


ROWS: list[Row] = [
    *_products(), *_matrix_vector(), *_elements(), *_row_chains(), *_reductions(), *_layouts(), *_convolutions(),
    *_attention(), *_loops(), *_calls(), *_compilations(),
]  # fmt: skip
