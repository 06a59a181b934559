"""CUDA kernels beside torch's (cuBLAS, cuDNN) on the device at hand: ``python -m benchmarks.gpu``; needs a GPU.

Prints for each row the time, torch's, the ratio and what is reached of its goal: the ratio to torch for products, the
share of copy bandwidth, measured in the same run, for kernels that are bound by memory. Data is larger than the second
cache. Where there is no device it says so, compiles each row for sm_80 to a cubin where nvcc is on PATH,
names the rules that scheduled it, and exits with status 2.
"""

from __future__ import annotations

import re
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import mlirtri as mt
from mlirtri.lowering.codegen.cuda_to_ptx import run_nvcc

COPY_GOAL, PRODUCT_GOAL = 0.9, 0.7
ROUNDS, SECONDS = 20, 0.02


@dataclass(frozen=True)
class Row:
    """One kernel on one set of shapes; `bytes` are those that it has to move, None for products."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype
    bytes: int | None
    peer: Callable[..., Any] | None = None
    """torch's function, where it is another one."""
    constants: Mapping[str, int] = field(default_factory=dict)
    """Block sizes of a tile kernel, whose last argument is the result."""


def chain(a, b):
    return torch.tanh(a + b) * a


def softmax(a):
    return torch.softmax(a, -1)


def layer_norm(a):
    centered = a - a.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)


def total(a):
    return torch.sum(a)


def columns(a):
    return torch.sum(a, 0)


def positions(a):
    return torch.argmax(a, -1)


def running(a):
    return torch.cumsum(a, -1)


def channels_last(a):
    return a.permute(0, 2, 3, 1).contiguous()


def transposed(a):
    return a.T.contiguous()


def product(a, b):
    return a @ b


def product_of_bytes(a, b):
    return a.int() @ b.int().T


def int_mm(a, b):
    return torch._int_mm(a, b.T)


def sdpa(q, k, v, out):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def rows() -> list[Row]:
    """The table, with sizes that no second cache holds."""
    big, size = (8192, 8192), 8192 * 8192 * 4
    table = [
        Row("elementwise", chain, (big, big), torch.float32, 3 * size),
        Row("softmax", softmax, (big,), torch.float32, 2 * size),
        Row("layer norm", layer_norm, (big,), torch.float32, 2 * size),
        Row("sum", total, (big,), torch.float32, size),
        Row("sum of columns", columns, (big,), torch.float32, size),
        Row("argmax", positions, (big,), torch.float32, size),
        Row("cumsum", running, (big,), torch.float32, 2 * size),
        Row("transpose", transposed, (big,), torch.float32, 2 * size),
        Row("NCHW to NHWC", channels_last, ((64, 64, 128, 128),), torch.float32, 2 * size),
        Row("gemv fp16", product, (big, (8192,)), torch.float16, size // 2),
    ]
    for dtype, name in ((torch.float32, "fp32"), (torch.float16, "fp16"), (torch.bfloat16, "bf16")):
        sizes = (2048, 4096, 8192) if dtype == torch.float16 else (4096,)
        table += [Row(f"matmul {name} {n}", product, ((n, n), (n, n)), dtype, None) for n in sizes]
    table.append(Row("batched matmul fp16 64", product, ((512, 64, 64), (512, 64, 64)), torch.float16, None))
    table += [
        Row(f"matmul int8 {n}", product_of_bytes, ((n, n), (n, n)), torch.int8, None, int_mm) for n in (4096, 8192)
    ]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from tiles.flash_attention import flash_attention

    for dim, width in ((64, 128), (128, 64)):
        shapes = ((4, 16, 4096, dim),) * 4
        blocks = {"BM": 64, "BN": width}
        table.append(Row(f"causal attention {dim}", flash_attention, shapes, torch.float16, None, sdpa, blocks))
    return table


def seconds_of(call: Callable[[], Any]) -> float:
    """The median of a call's time on the device."""
    call()
    samples = []
    for _ in range(ROUNDS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        count = 1 if not samples else max(1, int(SECONDS / ROUNDS / samples[-1]))
        start.record()
        for _ in range(count):
            call()
        stop.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(stop) / 1e3 / count)
    return statistics.median(samples)


def copy_bandwidth() -> float:
    """Bytes per second, read and written, of a copy from device memory to device memory."""
    source = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / seconds_of(lambda: target.copy_(source))


def main() -> int:
    """Print the table; 2 without a device."""
    if not torch.cuda.is_available():
        print("torch finds no CUDA device, and this benchmark measures nothing else; it would run:", file=sys.stderr)
        for row in rows():
            print(dry_line_of(row), flush=True)
        return 2
    major, minor = torch.cuda.get_device_capability()
    bandwidth = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, copies at {bandwidth / 1e9:.0f} GB/s")
    print(f"{'':26}{'µs':>10}{'torch µs':>10}{'ratio':>8}{'goal':>30}")
    for row in rows():
        print(line_of(row, f"cuda:sm_{major}{minor}{'a' * ((major, minor) == (9, 0))}", bandwidth), flush=True)
    return 0


def dry_line_of(row: Row, target: str = "cuda:sm_80") -> str:
    """One line without a device: shapes, the goal, the rules that schedule the kernel, and whether nvcc takes it."""
    goal = f"{COPY_GOAL} of copies" if row.bytes else f"{PRODUCT_GOAL} of torch"
    tensors = [mt.Tensor(shape, getattr(mt, str(row.dtype).removeprefix("torch."))) for shape in row.shapes]
    kernel = mt.jit(row.function).compile(*tensors, **row.constants, target=target)
    fired = ", ".join(re.findall(r'"mlirtri.schedule": "(\w+)"', kernel.ir["scheduled"]))
    outcome = "source only, no nvcc"
    if shutil.which("nvcc"):
        outcome = f"cubin of {len(run_nvcc(kernel.ir['cuda'], target.split(':')[1], '-cubin'))} bytes"
    return f"{row.name:26}{row.dtype!s:16}{' by '.join(map(str, row.shapes)):36}{goal:17}{fired}: {outcome}"


def line_of(row: Row, target: str, bandwidth: float) -> str:
    """One line of the table; the reason where the kernel does not run."""
    scale = 1 if row.dtype.is_floating_point else 40
    values = [(torch.randn(shape, device="cuda") * scale).to(row.dtype) for shape in row.shapes]
    kernel = mt.jit(row.function, target=target)
    try:
        ours = seconds_of(lambda: kernel(*values, **row.constants))
    except mt.KernelError as error:
        return f"{row.name:26}{str(error).splitlines()[0]}"
    theirs = seconds_of(lambda: (row.peer or row.function)(*values))
    share = f"{row.bytes / ours / bandwidth:.2f} of copies ({COPY_GOAL})" if row.bytes else ""
    goal = share or f"{theirs / ours:.2f} of torch ({PRODUCT_GOAL})"
    return f"{row.name:26}{ours * 1e6:10.1f}{theirs * 1e6:10.1f}{theirs / ours:8.2f}{goal:>30}"


if __name__ == "__main__":
    sys.exit(main())
