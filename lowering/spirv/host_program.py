"""The host function of kernels for Vulkan as data: launches in order, and the loops, branches and numbers around them.

Takes the function that launches kernels, after `bufferized_to_gpu`. Gives a `Program`, which needs no MLIR to run:
`SpirvExecutable` interprets it. Numbers are named as in MLIR's text; buffers are numbered, the arguments first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlirtri.dialect.bindings.mlir import ir, operations_named, public_functions
from mlirtri.lowering.core.size_program import SizeStep
from mlirtri.lowering.core.untranslatable import bytes_of, refuse
from mlirtri.lowering.mlir_common.reading import defined_by, symbol_name, width_of
from mlirtri.lowering.spirv.bufferized_to_gpu import HELP
from mlirtri.lowering.spirv.flat_buffers import SIZES

Number = int | float | str
"""A constant, or the name of a number that a call computes."""


@dataclass(frozen=True)
class Compute:
    """An operation on numbers."""

    result: str
    step: SizeStep
    """Its name, type and literals; the operands stand here."""
    operands: tuple[Number, ...]
    widths: tuple[int, ...]
    """Bits of each operand."""


@dataclass(frozen=True)
class Load:
    """An element that the host reads, after all launches before it."""

    result: str
    buffer: int
    kind: str
    shape: tuple[int, ...]
    """That of the buffer; its first size may be -1, and is not read."""
    indices: tuple[Number, ...]


@dataclass(frozen=True)
class Allocate:
    """A temporary buffer; the same memory each time that it is allocated with this size."""

    buffer: int
    element: int
    """Bytes of an element."""
    shape: tuple[Number, ...]
    content: bytes | None = None
    """Of an array of constants."""


@dataclass(frozen=True)
class Dispatch:
    """One launch of a kernel."""

    kernel: str
    entry_point: str
    """Its name within the SPIR-V module of the kernel."""
    blocks: tuple[Number, Number, Number]
    """Along x, y and z; a name where the number depends on sizes or elements."""
    buffers: tuple[Number, ...]
    """What bindings 0, 1… have: buffers of the function by number, its arguments and results first, then temporaries.

    A name is a number that the kernel reads from a buffer of one element."""
    kinds: tuple[str, ...] = ()
    """The types of these numbers, in order; empty for each buffer."""


@dataclass(frozen=True)
class For:
    """A loop in order around launches."""

    counter: str
    bounds: tuple[Number, Number, Number]
    """Lower, upper, step."""
    carried: tuple[str, ...]
    initial: tuple[Number, ...]
    body: Block
    results: tuple[str, ...]


@dataclass(frozen=True)
class While:
    """A loop around launches whose condition decides after its first block."""

    carried: tuple[str, ...]
    initial: tuple[Number, ...]
    before: Block
    """Yields the condition, then what the second block takes."""
    passed: tuple[str, ...]
    after: Block
    results: tuple[str, ...]


@dataclass(frozen=True)
class If:
    """A branch around launches."""

    condition: Number
    blocks: tuple[Block, ...]
    results: tuple[str, ...]


Step = Compute | Load | Allocate | Dispatch | For | While | If


@dataclass(frozen=True)
class Block:
    """Steps in order, and what they yield."""

    steps: tuple[Step, ...]
    yields: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Program:
    """What a call does."""

    body: Block
    sizes: tuple[tuple[str, int, int], ...] = ()
    """Sizes among the arguments: name, number of a buffer, axis."""
    dispatches: tuple[Dispatch, ...] = field(default=())
    """All launches, as they stand in the program."""


def read_program(module: ir.Module) -> Program:
    """Return the program of the one host function of `module`; raises `UnsupportedOperationError`."""
    [function] = public_functions(module)
    noted = module.operation.attributes
    sizes = list(noted[SIZES]) if SIZES in noted else []
    reader = _Reader(module)
    names = []
    for argument in function.arguments:
        if isinstance(argument.type, ir.MemRefType):
            reader.buffers[argument] = len(reader.buffers)
        else:
            names.append(reader.name(argument))
    pairs = zip(names, sizes[::2], sizes[1::2], strict=True)
    body = reader.block(function.entry_block)
    return Program(body, tuple(pairs), tuple(reader.dispatches))


class _Reader:
    """Reads operations of the host; knows buffers and numbers by SSA value."""

    def __init__(self, module: ir.Module):
        self.module = module
        self.buffers: dict[ir.Value, int] = {}
        self.names: dict[ir.Value, str] = {}
        self.dispatches: list[Dispatch] = []

    def name(self, value: ir.Value) -> str:
        return self.names.setdefault(value, f"%{len(self.names)}")

    def number(self, value: ir.Value) -> Number:
        """Return a constant, or the name of a number."""
        if (constant := defined_by(value, "arith.constant")) is not None:
            literal = constant.attributes["value"].value
            return int(literal) if isinstance(literal, bool) else literal
        return self.name(value)

    def numbers(self, values: Sequence[ir.Value]) -> tuple[Number, ...]:
        return tuple(map(self.number, values))

    def block(self, block: ir.Block) -> Block:
        operations = [view.operation for view in block.operations]
        steps = [step for operation in operations[:-1] if (step := self.step(operation)) is not None]
        return Block(tuple(steps), self.numbers(list(operations[-1].operands)))

    def step(self, operation: ir.Operation) -> Step | None:
        read = _READERS.get(operation.name)
        if read is not None:
            return read(self, operation)
        if operation.name in ("arith.constant", "memref.dealloc"):
            return None
        predicate = (operation.attributes["predicate"].value,) if "predicate" in operation.attributes else ()
        step = SizeStep(operation.name, str(operation.results[0].type), (), predicate)
        widths = tuple(width_of(operand.type) for operand in operation.operands)
        return Compute(self.name(operation.results[0]), step, self.numbers(list(operation.operands)), widths)

    def load(self, operation: ir.Operation) -> Load:
        buffer, *indices = operation.operands
        shape = tuple(-1 if size < 0 else size for size in buffer.type.shape)
        kind = str(operation.results[0].type)
        return Load(self.name(operation.results[0]), self.buffers[buffer], kind, shape, self.numbers(indices))

    def allocate(self, operation: ir.Operation, content: bytes | None = None) -> Allocate:
        kind, sizes = operation.results[0].type, iter(self.numbers(list(operation.operands)))
        shape = tuple(next(sizes) if size < 0 else size for size in kind.shape)
        number = self.buffers.setdefault(operation.results[0], len(self.buffers))
        return Allocate(number, bytes_of(kind.element_type), shape, content)

    def constants(self, operation: ir.Operation) -> Allocate:
        name = ir.FlatSymbolRefAttr(operation.attributes["name"]).value
        [found] = [
            each
            for each in operations_named(self.module, "memref.global")
            if symbol_name(each) == name and "initial_value" in each.attributes
        ]
        elements = found.attributes["initial_value"]
        if not isinstance(elements, ir.DenseElementsAttr):
            refuse([(operation, "an array of constants of this form")], "SPIR-V", HELP)
        return self.allocate(operation, np.ascontiguousarray(np.array(elements)).tobytes())

    def dispatch(self, operation: ir.Operation) -> Dispatch:
        sizes, operands = list(operation.operands)[:3], list(operation.operands)[_SIZES:]
        kernel, entry_point = re.findall(r"[^@:\"]+", str(operation.attributes["kernel"]))
        x, y, z = self.numbers(sizes)
        bound = tuple(self.buffers[each] if each in self.buffers else self.number(each) for each in operands)
        kinds = tuple("" if each in self.buffers else str(each.type) for each in operands)
        self.dispatches.append(Dispatch(kernel, entry_point, (x, y, z), bound, kinds))
        return self.dispatches[-1]

    def loop(self, operation: ir.Operation) -> For:
        lower, upper, step, *initial = self.numbers(list(operation.operands))
        block = operation.regions[0].blocks[0]
        counter, *carried = [self.name(argument) for argument in block.arguments]
        body = self.block(block)
        return For(counter, (lower, upper, step), tuple(carried), tuple(initial), body, self.results(operation))

    def while_loop(self, operation: ir.Operation) -> While:
        before, after = (region.blocks[0] for region in operation.regions)
        carried, passed = (tuple(map(self.name, block.arguments)) for block in (before, after))
        initial, results = self.numbers(list(operation.operands)), self.results(operation)
        return While(carried, initial, self.block(before), passed, self.block(after), results)

    def branch(self, operation: ir.Operation) -> If:
        blocks = tuple(self.block(block) for region in operation.regions for block in region.blocks)
        return If(self.number(operation.operands[0]), blocks, self.results(operation))

    def results(self, operation: ir.Operation) -> tuple[str, ...]:
        return tuple(map(self.name, operation.results))


_SIZES = 6
"""Operands of a launch before those of its kernel: blocks and threads along x, y and z."""
_READERS: dict[str, Any] = {
    "memref.load": _Reader.load, "memref.alloc": _Reader.allocate, "memref.alloca": _Reader.allocate,
    "memref.get_global": _Reader.constants, "gpu.launch_func": _Reader.dispatch, "scf.for": _Reader.loop,
    "scf.while": _Reader.while_loop, "scf.if": _Reader.branch,
}  # fmt: skip
