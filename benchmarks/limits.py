"""What this machine can do: rounds of fused multiply-adds, and bytes copied, read and combined per second.

Loops of vectors in MLIR, compiled for this CPU by upstream's passes alone, so that nothing of ours is measured. Each
thread works on arrays of its own. A limit is the best of some rounds. Bandwidth counts the bytes that the loop names,
and no lines that a store reads first; of large arrays the limit is that of the better stores, plain or past the caches.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np

BYTES = {"copy": 2, "read": 1, "triad": 3}
"""Arrays that a loop goes over; `triad` is two read and one written."""
CHAINS = 12
"""Independent sums: enough for two units of four cycles each, and as few as 16 registers hold."""
PAST = "_past"
"""Behind the name of a loop whose stores go past the caches."""
LARGE = 1 << 24
"""Bytes from which on that may be faster."""
SAMPLE = 0.02
"""Seconds of one round."""
ROUNDS = 7

_PASSES = (
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,expand-strided-metadata,lower-affine,convert-arith-to-llvm,"
    "convert-index-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
    "convert-cf-to-llvm,reconcile-unrealized-casts)"
)


def multiply_adds(threads: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Floating-point operations per second in fp32, two per fused multiply-add, with operands in registers."""
    launch, lanes = _function("fma"), _lanes()
    per_iteration = 2.0 * CHAINS * lanes
    arrays = [np.zeros((3, lanes), np.float32) for _ in range(threads)]
    return per_iteration * _best(
        lambda thread, iterations: launch(*[arrays[thread].ctypes.data] * 3, 1, iterations), 10_000, threads, clock
    )


def bandwidth(kind: str, footprint: int, threads: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Bytes per second over arrays of `footprint` bytes in all: where they fit in a cache, that cache's."""
    if kind + PAST in _BODIES and footprint >= LARGE:
        return max(_bandwidth(loop, kind, footprint, threads, clock) for loop in (kind, kind + PAST))
    return _bandwidth(kind, kind, footprint, threads, clock)


def _bandwidth(loop: str, kind: str, footprint: int, threads: int, clock: Callable[[], float]) -> float:
    launch, arrays = _function(loop), BYTES[kind]
    block = 4 * _lanes()
    length = max(block, footprint // (4 * arrays * threads) // block * block)
    buffers = [[_aligned(length) for _ in range(3)] for _ in range(threads)]

    def run(thread: int, iterations: int) -> None:
        launch(*(array.ctypes.data for array in buffers[thread]), length, iterations)

    return 4.0 * arrays * length * _best(run, 1, threads, clock)


def _aligned(length: int) -> np.ndarray:
    """An array of ones that begins with a cache line."""
    memory = np.ones(length + 16, np.float32)
    return memory[-memory.ctypes.data // 4 % 16 :][:length]


def _best(run: Callable[[int, int], None], iterations: int, threads: int, clock: Callable[[], float]) -> float:
    """Iterations per second of all threads together, in the best of some rounds."""
    while _seconds(run, iterations, threads, clock) < SAMPLE:
        iterations *= 2
    return max(iterations * threads / _seconds(run, iterations, threads, clock) for _ in range(ROUNDS))


def _seconds(run: Callable[[int, int], None], iterations: int, threads: int, clock: Callable[[], float]) -> float:
    """From when all threads begin until the last has ended."""
    barrier, times = threading.Barrier(threads), [(0.0, 0.0)] * threads

    def work(number: int) -> None:
        run(number, 1)
        barrier.wait()
        start = clock()
        run(number, iterations)
        times[number] = start, clock()

    others = [threading.Thread(target=work, args=(number,)) for number in range(1, threads)]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()
    if threads > 1 and clock is not time.perf_counter:
        # Clocks of threads have no common beginning.
        return max(end - start for start, end in times)
    return max(end for _, end in times) - min(start for start, _ in times)


@cache
def _lanes() -> int:
    from mlirtri.lowering.codegen.targets import vector_bits

    return vector_bits() // 32


@cache
def _function(name: str) -> Callable[..., None]:
    """The compiled loop: three addresses, a number of elements, and how often it goes over them."""
    from mlirtri.dialect.bindings.mlir import execution_engine, ir, passmanager

    with ir.Context():
        module = ir.Module.parse(_text(name))
        passmanager.PassManager.parse(_PASSES).run(module.operation)
        engine = execution_engine.ExecutionEngine(module, opt_level=3)
    packed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup(f"{name}_loop"))

    def function(*arguments: int) -> None:
        """The engine's calling convention: a table of the addresses of the arguments."""
        slots = (ctypes.c_int64 * len(arguments))(*arguments)
        start = ctypes.addressof(slots)
        packed((ctypes.c_void_p * len(slots))(*(start + 8 * position for position in range(len(slots)))))

    # Its code lives as long as the engine does.
    function.engine = engine  # type: ignore[attr-defined]
    return function


def _text(name: str) -> str:
    """MLIR of a loop."""
    body = _BODIES[name](f"vector<{_lanes()}xf32>")
    arrays = "\n".join(
        f"  %{array} = memref.reinterpret_cast %{array}0 to offset: [0], sizes: [%n], strides: [1]"
        " : memref<1xf32> to memref<?xf32>"
        for array in "abc"
    )
    return f"""
func.func @{name}_loop(%a0: memref<1xf32>, %b0: memref<1xf32>, %c0: memref<1xf32>, %n: index, %iterations: index) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %lanes = arith.constant {_lanes()} : index
  %block = arith.constant {4 * _lanes()} : index
  %two_lanes = arith.constant {2 * _lanes()} : index
  %three_lanes = arith.constant {3 * _lanes()} : index
{arrays}
{body}
  return
}}
"""


def _multiply_add_body(vector: str) -> str:
    """`a` holds two operands and, in the end, the sum of all chains."""
    names = [f"%x{number}" for number in range(CHAINS)]
    start = ", ".join(f"{name} = %left" for name in names)
    kinds = ", ".join([vector] * CHAINS)
    chains = "\n".join(
        f"    %y{chain} = vector.fma {name}, %left, %right : {vector}" for chain, name in enumerate(names)
    )
    ends = ", ".join(f"%y{chain}" for chain in range(CHAINS))
    return f"""
  %left = vector.load %a[%zero] : memref<?xf32>, {vector}
  %right = vector.load %a[%lanes] : memref<?xf32>, {vector}
  %all:{CHAINS} = scf.for %iteration = %zero to %iterations step %one iter_args({start}) -> ({kinds}) {{
{chains}
    scf.yield {ends} : {kinds}
  }}
{_sum_up(vector, CHAINS)}
  vector.store %sum{CHAINS - 1}, %a[%two_lanes] : memref<?xf32>, {vector}"""


def _sum_up(vector: str, count: int) -> str:
    """The sum of the values ``%all#0``…, called ``%sum<count - 1>``."""
    lines = [f"  %sum1 = arith.addf %all#0, %all#1 : {vector}"]
    lines += [f"  %sum{number} = arith.addf %sum{number - 1}, %all#{number} : {vector}" for number in range(2, count)]
    return "\n".join(lines)


def _four(line: Callable[[int], str]) -> str:
    """A block of four vectors: the indices, then `line` for each."""
    indices = [f"    %i{number} = arith.addi %i, %{step} : index" for number, step in enumerate(_STEPS)]
    return "\n".join([*indices, *(line(number) for number in range(4))])


def _repeated(loop: str) -> str:
    return f"  scf.for %iteration = %zero to %iterations step %one {{\n{loop}\n  }}"


_STEPS = ("zero", "lanes", "two_lanes", "three_lanes")


def _copy_body(vector: str, store: str = "") -> str:
    lines = _four(
        lambda number: (
            f"    %x{number} = vector.load %a[%i{number}] : memref<?xf32>, {vector}\n"
            f"    vector.store %x{number}, %b[%i{number}] {store} : memref<?xf32>, {vector}"
        )
    )
    return _repeated(f"  scf.for %i = %zero to %n step %block {{\n{lines}\n  }}")


def _triad_body(vector: str, store: str = "") -> str:
    lines = _four(
        lambda number: (
            f"    %x{number} = vector.load %a[%i{number}] : memref<?xf32>, {vector}\n"
            f"    %y{number} = vector.load %b[%i{number}] : memref<?xf32>, {vector}\n"
            f"    %z{number} = arith.addf %x{number}, %y{number} : {vector}\n"
            f"    vector.store %z{number}, %c[%i{number}] {store} : memref<?xf32>, {vector}"
        )
    )
    return _repeated(f"  scf.for %i = %zero to %n step %block {{\n{lines}\n  }}")


def _read_body(vector: str) -> str:
    lines = _four(
        lambda number: (
            f"    %x{number} = vector.load %a[%i{number}] : memref<?xf32>, {vector}\n"
            f"    %y{number} = arith.addf %s{number}, %x{number} : {vector}"
        )
    )
    initial, passed = (
        ", ".join(f"%{name}{number} = %{source}" for number, source in enumerate(values)) for name, values in _CARRIED
    )
    kinds = ", ".join([vector] * 4)
    return f"""
  %first = vector.load %a[%zero] : memref<?xf32>, {vector}
  %all:4 = scf.for %iteration = %zero to %iterations step %one iter_args({initial}) -> ({kinds}) {{
  %inner:4 = scf.for %i = %zero to %n step %block iter_args({passed}) -> ({kinds}) {{
{lines}
    scf.yield %y0, %y1, %y2, %y3 : {kinds}
  }}
  scf.yield %inner#0, %inner#1, %inner#2, %inner#3 : {kinds}
  }}
{_sum_up(vector, 4)}
  vector.store %sum3, %b[%zero] : memref<?xf32>, {vector}"""


_CARRIED = (("t", ["first"] * 4), ("s", ["t0", "t1", "t2", "t3"]))
"""Names of the sums in the outer and in the inner loop, and what they begin as."""
_STREAM = "{nontemporal = true, alignment = 64 : i64}"
_BODIES: dict[str, Callable[[str], str]] = {
    "fma": _multiply_add_body, "copy": _copy_body, "triad": _triad_body, "read": _read_body,
    f"copy{PAST}": lambda vector: _copy_body(vector, _STREAM),
    f"triad{PAST}": lambda vector: _triad_body(vector, _STREAM),
}  # fmt: skip
"""Name of a loop to its MLIR."""
