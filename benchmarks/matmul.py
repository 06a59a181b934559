"""How fast a compiled matrix product is beside NumPy's and torch's, on as many threads as asked.

    python benchmarks/matmul.py --threads 1 --size 512 --size 1000

Prints the median over interleaved rounds, in GFLOP/s, and the ratios. Sets the libraries' thread counts itself and
drops OPENBLAS_CORETYPE, which can hold NumPy to half its speed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--size", type=int, action="append", help="square size; may be given several times")
    options = parser.parse_args()
    os.environ.pop("OPENBLAS_CORETYPE", None)
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MLIRTRI_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    print(f"{'size':>6} {'mlirtri':>9} {'numpy':>9} {'torch':>9}   GFLOP/s   /numpy  /torch")
    for size in options.size or [128, 256, 512, 1000, 1024]:
        ours, numpy, torch = (2 * size**3 / seconds / 1e9 for seconds in measure(size, options.rounds))
        print(
            f"{size:>6} {ours:>9.0f} {numpy:>9.0f} {torch:>9.0f}             {ours / numpy:>6.2f}  {ours / torch:>6.2f}"
        )


def measure(size: int, rounds: int) -> list[float]:
    """Median seconds of our kernel, NumPy and torch, run in turn."""
    import numpy as np
    import torch

    launch = compiled(size)
    left, right = torch.randn(size, size), torch.randn(size, size)
    made, expected = torch.empty(size, size), np.empty((size, size), np.float32)
    candidates = (
        lambda: launch((left, right), (made,)),
        lambda: np.matmul(left.numpy(), right.numpy(), out=expected),
        lambda: torch.mm(left, right, out=made),
    )
    seconds: list[list[float]] = [[] for _ in candidates]
    for _ in range(rounds):
        for candidate, times in zip(candidates, seconds, strict=True):
            start = time.perf_counter()
            candidate()
            times.append(time.perf_counter() - start)
    candidates[0]()
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-3, atol=1e-3)
    return [statistics.median(times) for times in seconds]


def compiled(size: int):
    """The launch function of a product of two square matrices, made by the rooms right of `relax`."""
    from mlirtri.lowering import relax_to_tir, scheduled_to_llvm, tir_to_scheduled
    from mlirtri.lowering.stage import CompileContext
    from mlirtri.lowering.target import as_target
    from mlirtri.lowering.tvm_names import BlockBuilder, TensorType, relax

    builder = BlockBuilder()
    parameters = [relax.Var(name, TensorType((size, size), "float32")) for name in ("a", "b")]
    with builder.function("product", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(relax.op.matmul(*parameters)))
        builder.emit_func_output(result)
    mod, context = builder.get(), CompileContext("product", as_target("cpu"))
    for room in (relax_to_tir, tir_to_scheduled, scheduled_to_llvm):
        mod = room.lower(mod, context)
    return mod.executable.launch


if __name__ == "__main__":
    main()
