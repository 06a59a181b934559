"""Time each kernel of a bufferized function by itself: its code reads the clock before and after each loop nest."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_backend.bufferize.kernels import Nest, described, kernels_of

_MARK = """
func.func @clock() {{
  %clock = llvm.mlir.constant({clock} : i32) : i32
  %function = llvm.mlir.constant({function} : i64) : i64
  %memory = llvm.mlir.constant({memory} : i64) : i64
  %read = llvm.inttoptr %function : i64 to !llvm.ptr
  %into = llvm.inttoptr %memory : i64 to !llvm.ptr
  %done = llvm.call %read(%clock, %into) : !llvm.ptr, (i32, !llvm.ptr) -> i32
  return
}}
"""
"""Stores the time into memory of this process by the C library's `clock_gettime`."""


@dataclass
class TimedNests:
    """The lowering that inserts clocks, and what they showed in the last call."""

    nests: list[Nest] = field(default_factory=list)
    """The kernels, in order."""
    _lengths: list[int] = field(default_factory=list)
    """How many loop nests each kernel has: fills are nests of their own."""
    _times: Any = None

    def insert(self, module: ir.Module, context: CompileContext) -> ir.Module:
        """Insert clocks around each nest of the public functions, in place."""
        kernels = _kernels(module)
        self.nests, self._lengths = [described(kernel) for kernel in kernels], [len(kernel) for kernel in kernels]
        operations = [operation for kernel in kernels for operation in kernel]
        # Two times of two 64-bit integers each: seconds and nanoseconds.
        self._times = (ctypes.c_int64 * (4 * len(operations)))()
        address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        start = ctypes.addressof(self._times)
        with module.context, ir.Location.unknown():
            for number, operation in enumerate(operations):
                memory = start + 32 * number
                _read_clock(operation, address, memory, is_after=False)
                _read_clock(operation, address, memory + 16, is_after=True)
        return module

    def seconds(self) -> list[float]:
        """Return how long each kernel took in the last call."""
        times = list(self._times)
        pairs = [times[start : start + 4] for start in range(0, len(times), 4)]
        took = [(after - before) + (after_ns - before_ns) * 1e-9 for before, before_ns, after, after_ns in pairs]
        borders = accumulate(self._lengths, initial=0)
        return [sum(took[start:end]) for start, end in pairwise(borders)]


def nests_of(module: ir.Module) -> list[Nest]:
    """Return the kernels of the public functions, in order."""
    return [described(kernel) for kernel in _kernels(module)]


def _kernels(module: ir.Module) -> list[list[ir.Operation]]:
    return [kernel for function in public_functions(module) for kernel in kernels_of(function)]


def _read_clock(operation: ir.Operation, function: int, memory: int, is_after: bool) -> None:
    """Insert a call of the C library's clock, which stores the time at that address, beside an operation."""
    text = _MARK.format(clock=time.CLOCK_MONOTONIC, function=function, memory=memory)
    module = ir.Module.parse(text)  # kept alive while its operations are moved
    block = module.body.operations[0].regions[0].blocks[0]
    steps = [step.operation for step in block.operations][:-1]
    for step in steps if not is_after else reversed(steps):
        step.move_after(operation) if is_after else step.move_before(operation)
