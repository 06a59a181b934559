"""The translation of one function from loops form to TIR, and its table of statement rules.

A rule is a function ``(translation, operation)`` registered for an operation's name; other operations are
scalar ones of `SCALAR_RULES`. Here are the rules of memory and of complex numbers; `control` has those of scf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.locations import errors_at, name_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge.loops import memory as loop_memory
from mlirtri.lowering.bridge.loops.addresses import LARGEST_COUNT, bounds_of, decided, is_plain, plain_arithmetic
from mlirtri.lowering.bridge.loops.memory import Memory, static_or_dynamic
from mlirtri.lowering.bridge.loops.values import LoopValues, Scalar, part_dtypes, scalar_of
from mlirtri.lowering.bridge.scalar.body import repetitions
from mlirtri.lowering.bridge.scalar.integers import integer_power
from mlirtri.lowering.bridge.scalar.scalar_rules import SCALAR_RULES, literal
from mlirtri.lowering.mlir_common.attributes import JOINED
from mlirtri.lowering.mlir_common.reading import kept_axes, reassociation_of
from mlirtri.lowering.tir.bfloat16_storage import bits_dtype
from mlirtri.lowering.tir.primfunc import Names
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.toolchain.tvm_names import Extent, tirx

StatementRule = Callable[["LoopTranslation", ir.Operation], None]
STATEMENT_RULES: Registry[str, StatementRule] = Registry("TIR statement rule")
rule = STATEMENT_RULES.register


class LoopTranslation:
    """The state of one translation: values, memrefs and written buffers."""

    def __init__(self) -> None:
        self.values = LoopValues(Names())
        self.memories: dict[ir.Value, Memory] = {}
        self.written: set[str] = set()
        """Names of the buffers that are stored to."""
        self.constants: list[tuple[Any, str]] = []
        """Buffers of constant arrays, with the symbols of their ``memref.global``."""

    def translate(self, block: ir.Block) -> ir.Operation:
        """Translate the statements of a block, and return its terminator."""
        *operations, terminator = [view.operation for view in block.operations]
        for operation in operations:
            with errors_at(operation):
                STATEMENT_RULES.get(operation.name, _scalar)(self, operation)
        return terminator

    def memory(
        self,
        value: ir.Value,
        sizes: Sequence[Extent],
        name_hint: str,
        dtype: str | None = None,
        strides: Sequence[int | None] | None = None,
    ) -> Memory:
        """Create a buffer for a memref; the caller decides where it is allocated."""
        memory = loop_memory.memory(self.values.names.unique(name_hint), value.type, sizes, dtype, strides)
        self.memories[value] = memory
        return memory

    def scalars(self, indices: Sequence[ir.Value]) -> list[Scalar]:
        return [self.values.get(index_value) for index_value in indices]


def name_hint_of(operation: ir.Operation) -> str:
    """Return a name for the result of an operation: the user's name for it, or the operation's."""
    return name_of(operation.location) or operation.name.split(".")[-1]


def _scalar(translation: LoopTranslation, operation: ir.Operation) -> None:
    values, scalar_rule = translation.values, SCALAR_RULES[operation.name]
    operands = [values.get(operand) for operand in operation.operands]
    if (answer := decided(operation, operands)) is not None:
        values.set(operation.results[0], Scalar(literal(answer, "bool")))
        return
    bounds = bounds_of(operation, operands)
    if is_plain(operation, bounds):
        scalar = plain_arithmetic(operation, operands, bounds)
    else:
        scalar = scalar_of(scalar_rule.build(operation, [operand.expression for operand in operands]), operands, bounds)
    values.define(operation.results[0], scalar, name_hint_of(operation))


@rule("arith.constant")
def _constant(translation, operation):
    [result] = operation.results
    number = SCALAR_RULES["arith.constant"].build(operation, [])
    bounds = (number.value, number.value) if isinstance(number, tirx.IntImm) else None
    translation.values.set(result, Scalar(number, bounds=bounds))


@rule("math.ipowi")
def _integer_power(translation, operation):
    values = translation.values
    base, exponent = (values.get(operand) for operand in operation.operands)

    def name(expression, name_hint):
        return values.name(scalar_of(expression, [base, exponent]), name_hint).expression

    base, exponent = values.name(base, "base"), values.name(exponent, "exponent")
    power = integer_power(base.expression, exponent.expression, name)
    values.define(
        operation.results[0], values.name(scalar_of(power, [base, exponent]), name_hint_of(operation)), "power"
    )


@rule("arith.select")
def _select(translation, operation):
    values, [result] = translation.values, operation.results
    if not isinstance(result.type, ir.ComplexType):
        _scalar(translation, operation)
        return
    condition, *arms = operation.operands
    chosen = values.get(condition)
    chosen = chosen if chosen.is_free else values.name(chosen, "condition")
    parts = zip(*(values.parts(arm) for arm in arms), strict=True)
    values.define_complex(
        result,
        *(scalar_of(tirx.Select(chosen.expression, x.expression, y.expression), [chosen, x, y]) for x, y in parts),
        name_hint_of(operation),
    )


@rule("complex.create")
def _create(translation, operation):
    real, imaginary = (translation.values.get(operand) for operand in operation.operands)
    translation.values.define_complex(operation.results[0], real, imaginary, name_hint_of(operation))


@rule("complex.re", "complex.im")
def _part(translation, operation):
    part = translation.values.parts(operation.operands[0])[operation.name == "complex.im"]
    translation.values.set(operation.results[0], part)


@rule("complex.constant")
def _complex_constant(translation, operation):
    [result] = operation.results
    numbers = zip(operation.attributes["value"], part_dtypes(result.type), strict=True)
    translation.values.set(result, tuple(Scalar(literal(number.value, dtype)) for number, dtype in numbers))


@rule("memref.load")
def _load(translation, operation):
    source, *indices = operation.operands
    [result] = operation.results
    memory, scalars = translation.memories[source], translation.scalars(indices)
    name = memory.buffer.name
    reads = scalar_of(None, scalars).reads | {name}
    loads = [Scalar(part, reads) for part in memory.load([scalar.expression for scalar in scalars])]
    name_hint = name_of(operation.location) or name
    if len(loads) == 2:
        translation.values.define_complex(result, *loads, name_hint)
    else:
        translation.values.define(result, loads[0], name_hint)


@rule("memref.store")
def _store(translation, operation):
    value, target, *indices = operation.operands
    values, memory = translation.values, translation.memories[target]
    parts, scalars = values.parts(value), translation.scalars(indices)
    values.name_all(memory.buffer.name)
    values.statements += memory.store([part.expression for part in parts], [scalar.expression for scalar in scalars])
    translation.written.add(memory.buffer.name)


@rule("memref.alloc", "memref.alloca")
def _allocate(translation, operation):
    [result] = operation.results
    sizes = static_or_dynamic(
        result.type.shape, [translation.values.pinned(operand, "size").expression for operand in operation.operands]
    )
    if any(loop_memory.is_number(size, 0) for size in sizes):
        # TVM cannot allocate an empty buffer.
        sizes = [index(1)] * len(sizes)
    dtype = bits_dtype(part_dtypes(result.type)[0])
    memory = translation.memory(result, sizes, name_of(operation.location) or "temporary", dtype)
    translation.values.statements.append(tirx.AllocBuffer(memory.buffer))


@rule("memref.dealloc")
def _free(_translation, _operation):
    """Emit nothing: TVM frees a buffer at the end of the statements that it is allocated in."""


@rule("memref.get_global")
def _global(translation, operation):
    [result] = operation.results
    memory = translation.memory(result, [index(size) for size in result.type.shape], "constant")
    translation.constants.append((memory.buffer, operation.attributes["name"].value))


@rule("memref.dim")
def _dim(translation, operation):
    source, axis = operation.operands
    number, sizes = translation.values.pinned(axis, "axis"), translation.memories[source].sizes
    if isinstance(number.expression, tirx.IntImm):
        size = Scalar(sizes[int(number.expression.value)], bounds=(0, LARGEST_COUNT))
        translation.values.set(operation.results[0], size)
        return
    chosen = index(0)
    for position, size in enumerate(sizes):
        chosen = tirx.Select(tirx.EQ(number.expression, index(position)), size, chosen)
    translation.values.define(
        operation.results[0], Scalar(chosen, number.reads, bounds=(0, LARGEST_COUNT)), name_hint_of(operation)
    )


@rule("memref.extract_strided_metadata")
def _metadata(translation, operation):
    """Define the base buffer and the sizes.

    Only those may have uses: `expand-strided-metadata` leaves them for reshapes and deallocations.
    """
    memory = translation.memories[operation.operands[0]]
    base, offset, *numbers = operation.results
    sizes, strides = numbers[: len(memory.sizes)], numbers[len(memory.sizes) :]
    if any(repetitions(value) for value in (offset, *strides)):
        raise UnsupportedOperationError("a view of memory whose strides are known at run time only")
    translation.memories[base] = memory
    for value, size in zip(sizes, memory.sizes, strict=True):
        translation.values.set(value, Scalar(size, bounds=(0, LARGEST_COUNT)))


@rule("memref.cast")
def _cast(translation, operation):
    translation.memories[operation.results[0]] = translation.memories[operation.operands[0]]


@rule("memref.subview")
def _subview(translation, operation):
    source, *dynamic = operation.operands
    [result] = operation.results
    counts = list(operation.attributes["operandSegmentSizes"])[1:]
    operands = iter([translation.values.pinned(operand, "offset").expression for operand in dynamic])
    offsets, sizes, strides = (
        static_or_dynamic(list(operation.attributes[f"static_{name}"]), [next(operands) for _ in range(count)])
        for name, count in zip(("offsets", "sizes", "strides"), counts, strict=True)
    )
    kept = kept_axes(list(operation.attributes["static_sizes"]), result.type.rank)
    translation.memories[result] = loop_memory.subview(translation.memories[source], offsets, sizes, strides, kept)


@rule("memref.collapse_shape")
def _collapse(translation, operation):
    source = translation.memories[operation.operands[0]]
    translation.memories[operation.results[0]] = loop_memory.collapsed(source, reassociation_of(operation))


@rule("memref.reinterpret_cast")
def _joined(translation, operation):
    """Define a view that has the last axes of a row-major array as one, which is all that lowering to loops makes."""
    if JOINED not in operation.attributes:
        raise UnsupportedOperationError("a view of memory with sizes and strides of its own")
    source, [result] = translation.memories[operation.operands[0]], operation.results
    count = len(source.sizes) - result.type.rank + 1
    translation.memories[result] = loop_memory.joined(source, count)


@rule("memref.expand_shape")
def _expand(translation, operation):
    source, *dynamic = operation.operands
    sizes = static_or_dynamic(
        list(operation.attributes["static_output_shape"]),
        [translation.values.pinned(operand, "size").expression for operand in dynamic],
    )
    memory = translation.memories[source]
    translation.memories[operation.results[0]] = loop_memory.expanded(memory, reassociation_of(operation), sizes)
