"""Tile kernels beside the same whole-array kernels: ``python -m benchmarks.tiles [--threads 1] [--clock cpu]``.

Both are compiled by one pipeline and run in turn, round by round; times are the least of each. A ratio of 0.8 says that
the tile kernel takes 1 / 0.8 of the time of the whole-array one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 12


@dataclass(frozen=True)
class Case:
    """A tile kernel with block sizes, and the whole-array kernel that computes the same."""

    name: str
    tile: Callable[..., Any]
    whole: Callable[..., Any]
    arguments: tuple[Any, ...]
    """What both read; the tile kernel writes one more."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pipeline", default="linalg")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for one thread on a busy machine"
    )
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    os.environ["MLIRTRI_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    clock = time.thread_time if options.clock == "cpu" else time.perf_counter
    print(f"{options.threads} thread(s), {options.pipeline}, {options.clock} time")
    print(f"{'':34}{'whole':>10}{'tiles':>10}  ratio")
    for case in cases(options.pipeline):
        if options.filter in case.name:
            whole, tile = seconds(case, clock)
            print(f"{case.name:34}{whole * 1e3:8.2f}ms{tile * 1e3:8.2f}ms  {whole / tile:.2f}", flush=True)


def seconds(case: Case, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the least time of the whole-array kernel and of the tile kernel; raises where they differ."""
    import torch

    expected = case.whole(*case.arguments)
    out = torch.zeros_like(expected)
    case.tile(*case.arguments, out)
    torch.testing.assert_close(out, expected, rtol=2e-3, atol=2e-3)
    calls, least = (lambda: case.whole(*case.arguments), lambda: case.tile(*case.arguments, out)), [1e9, 1e9]
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            start = clock()
            call()
            least[number] = min(least[number], clock() - start)
    return least[0], least[1]


def cases(pipeline: str) -> Iterator[Case]:
    """Yield the cases, each with kernels of its own."""
    import torch
    from tiles import flash_attention, gemm, layer_norm, softmax

    import mlirtri as mt

    def jit(function: Callable[..., Any]) -> Any:
        return mt.jit(function, pipeline=pipeline)

    def tiled(function: Callable[..., Any], **constants: Any) -> Callable[..., Any]:
        kernel = jit(function)
        return lambda *arguments: kernel(*arguments, **constants)

    torch.manual_seed(0)
    for size, blocks in ((1024, (64, 64, 64)), (1024, (128, 128, 32)), (1000, (128, 128, 32))):
        a, b = torch.randn(size, size), torch.randn(size, size)
        named = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
        name = f"gemm {size} in {'x'.join(map(str, blocks))}"
        yield Case(name, tiled(gemm.gemm, **named), jit(lambda a, b: a @ b), (a, b))
    q, k, v = (torch.randn(1, 4, 512, 64) for _ in range(3))
    attention = jit(lambda q, k, v: mt.scaled_dot_product_attention(q, k, v, is_causal=True))
    yield Case("causal attention 4x512x64", tiled(flash_attention.flash_attention), attention, (q, k, v))
    x, weight, bias = torch.randn(2048, 1024), torch.rand(1024), torch.randn(1024)
    yield Case("softmax 2048x1024", tiled(softmax.softmax), jit(lambda x: mt.softmax(x, -1)), (x,))
    norm = jit(lambda x, weight, bias: torch.nn.functional.layer_norm(x, (1024,), weight, bias))
    yield Case("layer norm 2048x1024", tiled(layer_norm.layer_norm), norm, (x, weight, bias))


if __name__ == "__main__":
    main()
