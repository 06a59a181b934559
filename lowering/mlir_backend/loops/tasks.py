"""The tasks of an imperative function: each outermost loop whose iterations may run in parallel, and what is between.

Takes a module in loops form, before it is cut into chunks. The iterations of a `range_for` task are independent
or only share reductions; everything else is `serial`. Tasks inside of a serial loop are listed below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.locations import name_of, span_of
from mlirtri.dialect.bindings.mlir import all_operations_in, ir, public_functions
from mlirtri.errors import Span
from mlirtri.lowering.mlir_backend.loops.carried_reductions import reduction_of
from mlirtri.lowering.mlir_backend.loops.loop_memory import combined_buffers
from mlirtri.lowering.mlir_backend.loops.reduction_chunks import CHUNKS, chunks_of
from mlirtri.lowering.mlir_common.aliasing import is_inside
from mlirtri.lowering.mlir_common.attributes import DECLARED_PARALLEL
from mlirtri.lowering.mlir_common.reading import integer_constant, is_block_argument, trip_count

_LOOPS = ("scf.for", "scf.while", "scf.parallel")


@dataclass(frozen=True)
class Task:
    """One task of a kernel."""

    kind: str
    """``"range_for"`` for a loop on threads, ``"serial"`` for anything on one."""
    line: Span | None
    bounds: tuple[str, ...]
    """The values of each index, such as ``0..n``; none for straight-line code and `while` loops."""
    block: str
    """The iterations that one thread takes at once; empty for serial tasks."""
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    reduces: tuple[str, ...]
    """The values that iterations combine: names of loop-carried values and arrays."""
    depth: int = 0
    """The number of serial loops around it."""


def tasks_of(module: ir.Module, threads: int, on_device: bool = False) -> tuple[Task, ...]:
    """Return the tasks of the module's public functions, in order; a device updates shared elements atomically."""
    blocks = [block for function in public_functions(module) for block in function.regions[0].blocks]
    return tuple(task for block in blocks for task in _Tasks(threads, on_device).of_block(block, 0))


@dataclass(frozen=True)
class _Tasks:
    """Lists the tasks of blocks."""

    threads: int
    on_device: bool

    def of_block(self, block: ir.Block, depth: int) -> Iterator[Task]:
        straight: list[ir.Operation] = []
        for operation in (view.operation for view in block.operations):
            if operation.name not in _LOOPS:
                straight.append(operation)
                continue
            yield from _straight(straight, depth)
            straight = []
            yield from self._loop(operation, depth)
        yield from _straight(straight, depth)

    def _loop(self, loop: ir.Operation, depth: int) -> Iterator[Task]:
        is_candidate = depth == 0 or DECLARED_PARALLEL in loop.attributes
        if loop.name == "scf.parallel":
            count = len(loop.regions[0].blocks[0].arguments)
            bounds = [list(loop.operands)[axis : 3 * count : count] for axis in range(count)]
            yield _task("range_for", [loop], depth, _bounds(bounds), _even_block(bounds[0], self.threads))
            return
        if loop.name == "scf.while":
            yield _task("serial", [loop], depth)
        else:
            bounds = _bounds([list(loop.operands)[:3]])
            block = self._block_of(loop) if is_candidate else None
            yield _task(
                "range_for" if block else "serial", [loop], depth, bounds, block or "", _reduced(loop) if block else ()
            )
            if block:
                return
        for region in loop.regions:
            for inner in region.blocks:
                yield from (task for task in self.of_block(inner, depth + 1) if task.kind == "range_for")

    def _block_of(self, loop: ir.Operation) -> str | None:
        """Return the iterations of one block of a loop whose iterations may run in parallel; None for other loops."""
        reductions = [reduction_of(loop, slot) for slot in range(len(loop.results))]
        combined, bounds = combined_buffers(loop), list(loop.operands)[:3]
        if self.on_device and not reductions and DECLARED_PARALLEL in loop.attributes and _has_atomics(loop):
            return _even_block(bounds, self.threads)
        if None in reductions or combined is None:
            return None
        if not reductions and not combined:
            return _even_block(bounds, self.threads)
        chunks = chunks_of(loop, 1)
        if chunks is None:
            return None
        if (count := trip_count(bounds)) is None:
            return f"n/{CHUNKS}, at least {chunks.smallest}"
        return str(max(-(-count // CHUNKS), chunks.smallest))


def _has_atomics(loop: ir.Operation) -> bool:
    """Return whether a device has atomic functions for all elements that a loop stores outside of it: not of bytes."""
    stores = [each for each in all_operations_in(loop) if each.name == "memref.store"]
    kinds = [store.operands[0].type for store in stores if not is_inside(store.operands[1], loop)]
    return all(isinstance(kind, ir.FloatType) or getattr(kind, "width", 0) >= 16 for kind in kinds)


def _even_block(bounds: Sequence[ir.Value], threads: int) -> str:
    count, parts = trip_count(bounds), 16 * threads
    return f"n/{parts}" if count is None else str(max(1, -(-count // parts)))


def _reduced(loop: ir.Operation) -> tuple[str, ...]:
    """Return the names of what the iterations combine, arrays last; checks of indices have no name."""
    names = [name_of(result.location) for result in loop.regions[0].blocks[0].arguments][1:]
    declared = loop.attributes[DECLARED_PARALLEL] if DECLARED_PARALLEL in loop.attributes else None
    if declared is not None:
        known = [ir.StringAttr(name).value for name in ir.ArrayAttr(declared)]
        names = [name for name in known if name.isidentifier()]
    arrays = [_name(buffer) for buffer in combined_buffers(loop) or ()]
    written = set(_accessed([loop], "memref.store", 1))
    scalars = [name for name in names if name and name not in written]
    return tuple(dict.fromkeys([*scalars, *arrays]))


def _straight(operations: list[ir.Operation], depth: int) -> Iterator[Task]:
    inner = [operation for start in operations for operation in all_operations_in(start)]
    stores = [operation for operation in inner if operation.name in ("memref.store", "memref.copy")]
    if any(not _is_result(operation) for operation in stores):
        yield _task("serial", [operation for operation in inner if operation.name.startswith("memref.")], depth)


def _is_result(store: ir.Operation) -> bool:
    """Return whether a store only passes on a result: into memory without a name."""
    target = store.operands[1]
    return not is_block_argument(target) or name_of(target.location) is None


def _task(
    kind: str,
    operations: list[ir.Operation],
    depth: int,
    bounds: tuple[str, ...] = (),
    block: str = "",
    reduces: tuple[str, ...] = (),
) -> Task:
    span = next((span for operation in operations if (span := span_of(operation.location)) is not None), None)
    reads, writes = _accessed(operations, "memref.load", 0), _accessed(operations, "memref.store", 1)
    return Task(kind, span, bounds, block, reads, writes, reduces, depth)


def _accessed(operations: list[ir.Operation], name: str, position: int) -> tuple[str, ...]:
    """Return the names of the buffers that are allocated outside and that these operations load or store."""
    names: dict[str, None] = {}
    for operation in operations:
        for access in all_operations_in(operation):
            if access.name == name and not is_inside(buffer := access.operands[position], operation):
                names[_name(buffer)] = None
    return tuple(names)


def _name(buffer: ir.Value) -> str:
    location = buffer.location if is_block_argument(buffer) else buffer.owner.location
    return name_of(location) or ("result" if is_block_argument(buffer) else "temporary")


def _bounds(bounds: Sequence[Sequence[ir.Value]]) -> tuple[str, ...]:
    texts = []
    for lower, upper, step in bounds:
        suffix = "" if integer_constant(step) == 1 else f" step {_text(step)}"
        texts.append(f"{_text(lower)}..{_text(upper)}{suffix}")
    return tuple(texts)


def _text(value: ir.Value) -> str:
    """Return a bound as text: a constant, the name of a variable, or `?`."""
    number = integer_constant(value)
    if number is not None:
        return str(number)
    if is_block_argument(value):
        return name_of(value.location) or "?"
    operation = value.owner.operation
    if name := name_of(operation.location):
        return name
    if operation.name in ("arith.index_cast", "arith.extsi", "memref.load", "arith.select") and len(operation.operands):
        return _text(operation.operands[-1])
    if operation.name == "memref.dim":
        return f"{_name(operation.operands[0])}.shape[{_text(operation.operands[1])}]"
    return "?"
