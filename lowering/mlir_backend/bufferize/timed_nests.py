"""Time each loop nest of a bufferized function by itself: its code reads the clock before and after each.

What a nest reads, writes and computes is counted in the same walk. A nest is what the function's own block holds: a
structured operation, a loop or a copy.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlirtri.dialect.bindings.locations import name_of, span_of, spans_in
from mlirtri.dialect.bindings.mlir import all_operations_in, ir, linalg, public_functions
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir.readable_names import name_of_structured
from mlirtri.lowering.mlir.reading import integer_constant

LOOPS = ("scf.for", "scf.parallel", "scf.forall", "scf.while", "affine.for", "affine.parallel")
COPIES = ("memref.copy", "bufferization.materialize_in_destination")
_NO_NEST = ("linalg.yield", "linalg.index")
ARITHMETIC = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maximumf", "arith.minimumf",
    "arith.maxnumf", "arith.minnumf", "arith.cmpf", "arith.negf",
)  # fmt: skip
"""What counts as one operation on elements; functions such as `exp` count none, as in TVM's estimate."""
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


@dataclass(frozen=True)
class Nest:
    """One loop nest and what a call of it costs; None where sizes are known at run time only."""

    name: str
    place: tuple[str, int] | None
    """File and line of the first operation in it that has them."""
    bytes: int | None
    flops: int | None


@dataclass
class TimedNests:
    """The lowering that inserts clocks, and what they showed in the last call."""

    nests: list[Nest] = field(default_factory=list)
    _times: Any = None

    def insert(self, module: ir.Module, context: CompileContext) -> ir.Module:
        """Insert clocks around each nest of the public functions, in place."""
        operations = [operation for function in public_functions(module) for operation in nests_of(function)]
        self.nests = [_nest(operation) for operation in operations]
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
        """Return how long each nest took in the last call."""
        times = list(self._times)
        pairs = [times[start : start + 4] for start in range(0, len(times), 4)]
        return [(after - before) + (after_ns - before_ns) * 1e-9 for before, before_ns, after, after_ns in pairs]


def _read_clock(operation: ir.Operation, function: int, memory: int, is_after: bool) -> None:
    """Insert a call of the C library's clock, which stores the time at that address, beside an operation."""
    text = _MARK.format(clock=time.CLOCK_MONOTONIC, function=function, memory=memory)
    module = ir.Module.parse(text)  # kept alive while its operations are moved
    block = module.body.operations[0].regions[0].blocks[0]
    steps = [step.operation for step in block.operations][:-1]
    for step in steps if not is_after else reversed(steps):
        step.move_after(operation) if is_after else step.move_before(operation)


def nests_of(function: ir.OpView) -> list[ir.Operation]:
    """Return the nests of a function, in order."""
    operations = [operation.operation for block in function.regions[0].blocks for operation in block.operations]
    return [nest for nest in operations if nest.name in (*LOOPS, *COPIES) or _is_structured(nest)]


def _is_structured(operation: ir.Operation) -> bool:
    return operation.name.startswith("linalg.") and operation.name not in _NO_NEST


def count(functions: Sequence[ir.OpView]) -> tuple[int, int | None]:
    """Return the number of nests of bufferized functions but fills, and the bytes that they read and write."""
    nests = [nest for function in functions for nest in nests_of(function) if nest.name != "linalg.fill"]
    sizes = [_bytes(nest) for nest in nests]
    return len(nests), None if None in sizes else sum(size or 0 for size in sizes)


def _nest(operation: ir.Operation) -> Nest:
    named = [name_of(operation.location), *(name_of(inner.location) for inner in all_operations_in(operation))]
    kind = name_of_structured(operation) if _is_structured(operation) else operation.name.rpartition(".")[2]
    label = next((name for name in named if name), None)
    spans = [span for inner in (operation, *all_operations_in(operation)) for span in spans_in(inner)]
    span = span_of(operation.location) or next(iter(spans), None)
    place = (span.file, span.line) if span else None
    return Nest(f"{kind} {label}" if label else kind, place, _bytes(operation), _flops(operation, 1))


def _bytes(operation: ir.Operation) -> int | None:
    """Return the bytes of every array from outside that the nest names, once each."""
    inside = {result for inner in all_operations_in(operation) for result in inner.results}
    outside: list[ir.Value] = []
    for inner in all_operations_in(operation):
        for value in inner.operands:
            if isinstance(value.type, ir.MemRefType) and value not in inside and value not in outside:
                outside.append(value)
    sizes = [_size(value.type) for value in outside]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _size(kind: ir.MemRefType) -> int | None:
    if not kind.has_static_shape:
        return None
    width = getattr(kind.element_type, "width", 64)
    return prod(kind.shape) * max(1, width // 8)


def _flops(operation: ir.Operation, times: int | None) -> int | None:
    """Return the operations on floating-point elements of all iterations; None where an extent is not constant."""
    if operation.name in ARITHMETIC:
        return times
    inner = _iterations(operation)
    if not any(_arithmetic_in(operation)):
        return 0
    if inner is None or times is None:
        return None
    total = 0
    for region in operation.regions:
        for block in region.blocks:
            for step in block.operations:
                part = _flops(step.operation, times * inner)
                if part is None:
                    return None
                total += part
    return total


def _arithmetic_in(operation: ir.Operation) -> Iterator[bool]:
    return (inner.name in ARITHMETIC for inner in all_operations_in(operation))


def _iterations(operation: ir.Operation) -> int | None:
    if operation.name.startswith("linalg."):
        return _domain(operation)
    if operation.name == "scf.for":
        bounds = [integer_constant(value) for value in list(operation.operands)[:3]]
        if None in bounds:
            return None
        lower, upper, step = (bound or 0 for bound in bounds)
        return max(0, -(-(upper - lower) // step)) if step else None
    return None if operation.name in LOOPS else 1


def _domain(operation: ir.Operation) -> int | None:
    """Return the iterations of a structured operation, by the shapes that its indexing maps read."""
    maps = linalg.get_indexing_maps(operation)
    if maps is None:
        return None
    extents: dict[int, int] = {}
    rank = 0
    for value, attribute in zip(operation.operands, maps, strict=False):
        mapping = ir.AffineMapAttr(attribute).value if isinstance(attribute, ir.Attribute) else attribute
        rank = mapping.n_dims
        if not isinstance(value.type, ir.ShapedType | ir.MemRefType) or not value.type.has_static_shape:
            continue
        for size, expression in zip(value.type.shape, mapping.results, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                extents[expression.position] = size
    return prod(extents.values()) if len(extents) == rank else None
