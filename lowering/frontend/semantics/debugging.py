"""`device_print` and `breakpoint` in kernels.

`device_print` writes run-time values to a log, which is printed after the call. The log is ordinary memory, so loops
and branches carry it and targets need no support for it. Each print is one row: the number of the statement and the
values as float64 (integers beyond 2**53 lose digits). `breakpoint()` is a call at which the interpreter starts the
debugger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, UnsupportedSyntaxError
from mlirtri.lowering.core.interface import PrintLog, PrintSite
from mlirtri.lowering.frontend.semantics.storage import Storage, View, ViewStep

ROWS, WIDTH = 1000, 33
"""Prints kept per call, and the statement number and values per print."""
FLOAT64, INT64 = DTYPES["float64"], DTYPES["int64"]


@dataclass
class DevicePrints:
    """The log of one kernel, created by the first `device_print`."""

    log: Storage | None = None
    count: Storage | None = None
    sites: list[PrintSite] = field(default_factory=list)

    def add(self, b: Any, arguments: Sequence[KernelValue]) -> None:
        """Emit one print statement; raises `KernelTypeError` for values that do not fit into a row."""
        if self.log is None:
            with ir.InsertionPoint.at_block_begin(b.entry):
                self.log = Storage(b.tri.constant(0.0, FLOAT64, (ROWS, WIDTH)), serial=0)
                self.count = Storage(b.tri.constant(0, INT64), serial=0)
        parts: list[Any] = []
        values = [b.tri.constant(float(len(self.sites)), FLOAT64)]
        for argument in arguments:
            if not isinstance(argument, TriValue):
                parts.append(str(argument))
                continue
            size = argument.type.size
            if argument.type.dtype.is_complex or size is None:
                raise KernelTypeError(f"device_print does not print {argument.type}")
            parts.append(argument.type)
            number = b.tri.cast(argument, FLOAT64)
            flat = b.reshape(number, (-1,)) if argument.type.rank else number
            values += [b.element(flat, position) for position in range(size)] if argument.type.rank else [flat]
        if len(values) > WIDTH:
            raise KernelTypeError(f"device_print prints up to {WIDTH - 1} numbers", help="print a part of the array")
        self.sites.append(PrintSite(span_of(b.tri.location), tuple(parts)))
        self._write(b, values)

    def _write(self, b: Any, values: list[TriValue]) -> None:
        """Write a row; rows beyond the last one are counted and dropped."""
        tri = b.tri
        assert self.log is not None
        assert self.count is not None
        row = tri.minimum(self.count.value, tri.constant(ROWS - 1, INT64))
        for column, value in enumerate(values):
            attributes = {"offsets": (b.unknown, column), "sizes": (1, 1), "strides": (1, 1), "drop": (0, 1)}
            step = ViewStep("extract_slice", attributes, (row,))
            b.memory.write(tri, View(self.log, (step,)), TriValue(value.value, value.type))
        b.memory.put(self.count, tri.add(self.count.value, tri.constant(1, INT64)))

    def results(self, results: list[TriValue]) -> PrintLog | None:
        """Return the description for the runtime, and append the log to the function's results."""
        if self.log is None or self.count is None:
            return None
        results += [self.log.value, self.count.value]
        return PrintLog(len(results) - 2, len(results) - 1, tuple(self.sites))


CHECK = "mlirtri.failure"
"""Attribute of an operation of an interpreted kernel that tells whether a check fails: the message of the check."""


def mark_check(condition: ir.Value, message: str) -> None:
    """Let the interpreter raise where it computes that a check fails."""
    owner = condition.owner
    if not isinstance(owner, ir.Block):
        owner.operation.attributes[CHECK] = ir.StringAttr.get(message)


BREAKPOINT = "mlirtri.breakpoint"


def _emit_breakpoint(location: ir.Location | None) -> None:
    """Emit the call that stops in the debugger where the interpreter runs it, and declare its function."""
    block = ir.InsertionPoint.current.block
    module = block.owner
    while module.name != "builtin.module":
        module = module.operation.parent
    _declare(module.operation.regions[0].blocks[0])
    callee = {"callee": ir.FlatSymbolRefAttr.get(BREAKPOINT)}
    ir.Operation.create("func.call", attributes=callee, loc=location)


def _declare(body: ir.Block) -> None:
    if any("sym_name" in op.attributes and op.attributes["sym_name"].value == BREAKPOINT for op in body.operations):
        return
    with ir.InsertionPoint.at_block_begin(body):
        func.FuncOp(BREAKPOINT, ([], []), visibility="private")


def is_breakpoint(operation: ir.Operation) -> bool:
    return operation.name == "func.call" and operation.attributes["callee"].value == BREAKPOINT


def stop_in_debugger(b: Any, arguments: list[KernelValue], keywords: dict[str, KernelValue]) -> None:
    """Emit a call that starts the debugger; raises `UnsupportedSyntaxError` in kernels that are not interpreted."""
    if arguments or keywords:
        raise KernelTypeError("breakpoint() takes no arguments in a kernel")
    if not b.stops:
        raise UnsupportedSyntaxError(
            "breakpoint() stops kernels that are interpreted, and this one is compiled",
            help="set MLIRTRI_INTERPRET=1 while debugging",
        )
    _emit_breakpoint(b.tri.location)
