"""Run a kernel that MLIR compiled, on torch tensors and without copying them.

`launch` stores the data pointers in a frame of its thread and makes one foreign call, which releases the GIL. Knows no
shapes: they are compiled in or passed on, the caller checks. Raises `KernelMemoryError` where the code got no memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mlirtri.errors import CodegenError, KernelMemoryError
from mlirtri.lowering.core.stage import Tensors
from mlirtri.lowering.runtime.launches import ARGUMENT, RESULT, Launch, Launches, Operand

_Packed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True)
class Convention:
    """How a compiled function is called: bare pointers, the inputs first, then the outputs that are no updated input.

    After the pointers come the sizes that are known at run time only, and after them the strides.
    """

    symbol: str
    arguments: int
    """Pointers and sizes."""
    updates: tuple[int, ...] = ()
    """Positions of outputs that have no pointer: their memory is that of an input."""
    sizes: tuple[tuple[int, int], ...] = ()
    """Each the number of a pointer and an axis of what it points to."""
    strides: tuple[tuple[int, int], ...] = ()
    """The same of strides, in elements."""
    gives_status: bool = False
    """Whether it returns 1 where it got no memory, else 0."""
    has_threads: bool = False
    """Whether it starts threads of an OpenMP runtime with LLVM's interface."""


class Loaded(Protocol):
    """Machine code in memory: MLIR's execution engine, or a shared library."""

    def raw_lookup(self, symbol: str, /) -> int | None:
        """Return the address of the function that takes a table of addresses of the arguments, the result last."""
        ...


class MlirExecutable:
    """A compiled function over bare pointers, as its `Convention` says."""

    updates_in_place = True

    def __init__(self, code: Loaded, convention: Convention, kernels: int | None, bytes_moved: int | None):
        self.kernels = 1 if kernels is None else kernels
        self.bytes = bytes_moved
        self.code = code
        self.convention = convention
        self._arguments = convention.arguments
        self._gives_status = convention.gives_status
        self._updates = frozenset(convention.updates)
        self._sizes, self._strides = convention.sizes, convention.strides
        self._frames = threading.local()
        address = code.raw_lookup(convention.symbol)
        if not address:
            raise CodegenError(f"the compiled code has no function {convention.symbol!r}")
        self._function = _Packed(address)

    def launch(self, inputs: Tensors, outputs: Tensors) -> None:
        """Run on torch tensors of the compiled shapes, strides and dtypes; writes every output in full."""
        try:
            pointers, table = self._frames.frame
        except AttributeError:
            pointers, table = self._frames.frame = self._new_frame()
        position = 0
        for tensor in inputs:
            pointers[position] = tensor.data_ptr()
            position += 1
        for tensor in self._with_memory(outputs) if self._updates else outputs:
            pointers[position] = tensor.data_ptr()
            position += 1
        if self._sizes or self._strides:
            tensors = [*inputs, *self._with_memory(outputs)]
            numbers = [tensors[buffer].shape[axis] for buffer, axis in self._sizes]
            numbers += [tensors[buffer].stride(axis) for buffer, axis in self._strides]
            for number in numbers:
                pointers[position] = number
                position += 1
        self._function(table)
        if self._gives_status and pointers[self._arguments]:
            raise KernelMemoryError("no memory for a temporary of the kernel")

    def launches(self, inputs: int, outputs: int) -> Launches:
        """Return what a call does, for calls that are written as Python."""
        operands = [
            *(Operand(ARGUMENT, number) for number in range(inputs)),
            *(Operand(RESULT, number) for number in range(outputs) if number not in self._updates),
        ]
        step = Launch(self._function, tuple(operands), self._sizes, self._strides)
        return Launches(
            (step,), {}, {}, lambda tensor: tensor, checks=False, takes_pointers=True, gives_status=self._gives_status
        )

    def _with_memory(self, outputs: Sequence[Any]) -> list[Any]:
        return [tensor for position, tensor in enumerate(outputs) if position not in self._updates]

    def _new_frame(self) -> tuple[Any, Any]:
        """Return a frame in the engine's calling convention: a table of argument addresses, the result last."""
        slots = self._arguments + self._gives_status
        pointers = (ctypes.c_void_p * slots)()
        start, step = ctypes.addressof(pointers), ctypes.sizeof(ctypes.c_void_p)
        table = (ctypes.c_void_p * slots)(*(start + step * slot for slot in range(slots)))
        return pointers, table
