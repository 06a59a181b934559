"""Run a kernel that MLIR's execution engine compiled, on torch tensors and without copying them.

`launch` stores the data pointers in a frame of its thread and makes one foreign call, which releases the GIL. Knows no
shapes: they are compiled in or passed on, the caller checks. Raises `KernelMemoryError` where the code got no memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from mlirtri.errors import CodegenError, KernelMemoryError

_Packed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class MlirExecutable:
    """A compiled function over bare pointers: the inputs first, then the outputs that are no updated input.

    `updates` are the positions of the others, which `launch` passes over: their memory is that of an input. Behind the
    pointers come `sizes`, each the number of a pointer and an axis of what it points to.
    """

    updates_in_place = True

    def __init__(
        self,
        engine: Any,
        symbol: str,
        arguments: int,
        kernels: int | None,
        bytes_moved: int | None,
        updates: Sequence[int] = (),
        sizes: Sequence[tuple[int, int]] = (),
        gives_status: bool = False,
    ):
        self.kernels = 1 if kernels is None else kernels
        self.bytes = bytes_moved
        self._engine = engine  # owns the machine code
        self._arguments = arguments
        self._gives_status = gives_status
        self._updates = frozenset(updates)
        self._sizes = tuple(sizes)
        self._frames = threading.local()
        address = engine.raw_lookup(symbol)
        if not address:
            raise CodegenError(f"the compiled code has no function {symbol!r}")
        self._function = _Packed(address)

    def launch(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on contiguous torch tensors of the compiled shapes and dtypes; writes every output in full."""
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
        if self._sizes:
            tensors = [*inputs, *self._with_memory(outputs)]
            for buffer, axis in self._sizes:
                pointers[position] = tensors[buffer].shape[axis]
                position += 1
        self._function(table)
        if self._gives_status and pointers[self._arguments]:
            raise KernelMemoryError("no memory for a temporary of the kernel")

    def _with_memory(self, outputs: Sequence[Any]) -> list[Any]:
        return [tensor for position, tensor in enumerate(outputs) if position not in self._updates]

    def _new_frame(self) -> tuple[Any, Any]:
        """Return a frame in the engine's calling convention: a table of argument addresses, the result last."""
        slots = self._arguments + self._gives_status
        pointers = (ctypes.c_void_p * slots)()
        start, step = ctypes.addressof(pointers), ctypes.sizeof(ctypes.c_void_p)
        table = (ctypes.c_void_p * slots)(*(start + step * slot for slot in range(slots)))
        return pointers, table
