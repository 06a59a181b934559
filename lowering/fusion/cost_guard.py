"""Keep upstream's elementwise fusion from moving arithmetic to where it costs more than it saves.

Upstream fuses every producer that has one use. From `guard` to `release`, six kinds of producers have a second use,
which keeps them kernels of their own:

* operands of a contraction: it would recompute them for every row or column, and would no longer be a contraction;
  in imperative functions, where another kernel costs no launch, operands that any consumer reads more than once;
* operands that a loop reads from outside: it would recompute them in every iteration;
* results computed from a tensor that is overwritten before the consumer runs: bufferization would copy that tensor;
* paddings that are then expanded to dynamic sizes: upstream would expand before the sizes are computed;
* where weights are prepared once, small results of weights alone, such as the factors of a batch norm: in the body of
  their consumer they would be computed for every element;
* products with a matrix, perhaps with a bias, whose columns are then split into heads that are only moved: upstream
  would split the columns of the product and of its weight, which then is not packed.

Transposes, broadcasts and widening casts still fuse into contractions and loops: they cost nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt, prod

from mlirtri.dialect.bindings.mlir import all_operations, bufferization, ir, linalg, operations_named
from mlirtri.lowering.fusion.merge_products import fixed_weights
from mlirtri.lowering.mlir_common.aliasing import terminator, viewed
from mlirtri.lowering.mlir_common.imperative import is_imperative, updates_of
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of
from mlirtri.lowering.mlir_common.reading import defined_by, definition, only_user, reassociation_of

KEPT = "mlirtri.kept"
"""The attribute of the second use, a `bufferization.dealloc_tensor` that `release` erases."""
GROUP = "mlirtri.group"
"""The attribute of a second use that is erased before operations are fused for the second time."""
LONG = 256
"""The fewest structured operations of a module that is fused group by group."""
SMALL = 1 << 14
"""The most elements of what is computed from weights for consumers with more elements."""
RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
LOOPS = ("scf.for", "scf.while", "scf.parallel", "scf.forall")
FREE = ("linalg.yield", "arith.extf", "arith.extsi", "arith.extui")


def guard(module: ir.Module, prepares: bool = False) -> None:
    """Give the producers that must stay kernels of their own a second use, so that upstream does not fuse them.

    `prepares` says that what depends on bound tensors alone is computed once.
    """
    unfused: dict[ir.Value, None] = dict.fromkeys(_small_of_weights(module) if prepares else ())
    overwrites, always = Overwrites(module, unfused), is_imperative(module)
    for operation in operations_named(module, "linalg.*"):
        producers = [*_read_often(operation, always), *_read_by_loop(operation), *overwrites.read_too_late(operation)]
        unfused.update(dict.fromkeys(producers))
    unfused.update(dict.fromkeys((*_padded_and_expanded(module), *_products_in_heads(module))))
    for value in unfused:
        with ir.InsertionPoint.after(value.owner), value.owner.location:
            bufferization.DeallocTensorOp(value).attributes[KEPT] = ir.UnitAttr.get()


def guard_groups(module: ir.Module) -> bool:
    """Give a second use to one result in so many, in place; return whether the module is long enough for groups.

    Each fusion copies the body of the producer: a chain of 2000 operations would copy two million. In groups as long as
    there are groups it is a twentieth of that.
    """
    operations = operations_named(module, "linalg.*")
    if len(operations) < LONG or is_imperative(module):
        return False
    for operation in operations[isqrt(len(operations)) :: isqrt(len(operations))]:
        if len(operation.results) == 1 and linalg.get_indexing_maps(operation) is not None:
            with ir.InsertionPoint.after(operation), operation.location:
                bufferization.DeallocTensorOp(operation.results[0]).attributes[GROUP] = ir.UnitAttr.get()
    return True


def release(module: ir.Module, mark: str = KEPT) -> None:
    """Erase the uses that kept values from being fused."""
    for operation in all_operations(module):
        if operation.name == "bufferization.dealloc_tensor" and mark in operation.attributes:
            operation.erase()


def _read_often(operation: ir.Operation, always: bool) -> Iterator[ir.Value]:
    """Yield arithmetic results that `operation` reads more than once per element, `always` or while it reduces."""
    maps = linalg.get_indexing_maps(operation)
    if maps is None:
        return
    maps = [attribute.value for attribute in maps]
    loops, inputs = maps[0].n_dims, len(operation.operands) - len(operation.results)
    if not always and all(_loops_of(mapping) == set(range(loops)) for mapping in maps[inputs:]):
        return
    for value, mapping in zip(list(operation.operands)[:inputs], maps, strict=False):
        if _loops_of(mapping) != set(range(loops)) and (producer := _arithmetic_behind(value)) is not None:
            yield producer


def _loops_of(mapping: ir.AffineMap) -> set[int]:
    """Return the loops that index a tensor; to be conservative, without those of sums (convolutions)."""
    return {result.position for result in mapping.results if isinstance(result, ir.AffineDimExpr)}


def _read_by_loop(operation: ir.Operation) -> Iterator[ir.Value]:
    """Yield arithmetic results from outside that `operation` reads in every iteration of a loop."""
    around = _loops_around(operation)
    if not around:
        return
    for value in operation.operands:
        producer = _arithmetic_behind(value)
        if producer is not None and _loops_around(producer.owner.operation) != around:
            yield producer


def _small_of_weights(module: ir.Module) -> Iterator[ir.Value]:
    """Yield small arithmetic results of bound tensors alone that an operation with more elements reads."""
    fixed: set[ir.Value] = set()
    for function in operations_named(module, "func.func"):
        fixed.update(fixed_weights(function.opview))
    if not fixed:
        return
    for operation in all_operations(module):
        inputs = list(operation.operands)
        if operation.name == "linalg.generic":
            inputs = inputs[: len(inputs) - len(operation.results)]
        if operation.name in ("arith.constant", "tensor.empty") or (
            operation.name in (*RESHAPES, "linalg.generic") and fixed.issuperset(inputs)
        ):
            fixed.update(operation.results)
            continue
        for value in inputs if operation.name == "linalg.generic" else ():
            producer = _arithmetic_behind(value) if value in fixed else None
            if producer is not None and _elements(producer) < min(SMALL, _elements(operation.results[0])):
                yield producer


def _elements(value: ir.Value) -> int:
    return prod(value.type.shape) if value.type.has_static_shape else 0


def _padded_and_expanded(module: ir.Module) -> Iterator[ir.Value]:
    for operation in operations_named(module, "tensor.expand_shape"):
        source = operation.operands[0]
        if len(operation.operands) > 1 and isinstance(source.owner, ir.Operation | ir.OpView):
            if source.owner.operation.name == "tensor.pad":
                yield source


def _products_in_heads(module: ir.Module) -> Iterator[ir.Value]:
    """Yield products, with the biases added to them, of which a reshape splits the columns before they are moved."""
    for reshape in operations_named(module, "tensor.expand_shape"):
        value, product = reshape.operands[0], definition(reshape.operands[0])
        if _is_generic(product) and (found := _product_read_by(product)) is not None:
            product = found
        is_product = product is not None and product.name == "linalg.matmul"
        if is_product and _splits_columns(reshape) and not _is_computed_with(reshape.results[0]):
            yield value
            if product.results[0] != value:
                yield product.results[0]


def _product_read_by(generic: ir.Operation) -> ir.Operation | None:
    """Return the product that is an operand of a generic, as it is or with its rows split into a batch."""
    for operand in generic.operands:
        reshape = defined_by(operand, "tensor.expand_shape")
        if reshape is not None and not _splits_columns(reshape):
            operand = reshape.operands[0]
        if (product := defined_by(operand, "linalg.matmul")) is not None:
            return product
    return None


def _splits_columns(reshape: ir.Operation) -> bool:
    # A reshape of an array of rank 0 has no groups of axes.
    sizes = [reshape.results[0].type.shape[axis] for group in reassociation_of(reshape)[-1:] for axis in group]
    return reshape.results[0].type.has_static_shape and sum(size != 1 for size in sizes) > 1


def _is_computed_with(value: ir.Value) -> bool:
    """Return whether the first that is done with a value, other than to move it, is elementwise arithmetic on it alone.

    Such arithmetic is computed with the product.
    """
    user = only_user(value)
    if user is None:
        return False
    if user.name in RESHAPES or user.name == "linalg.transpose":
        return _is_computed_with(user.results[0])
    return user.name == "linalg.generic" and "reduction" not in iterators_of(user)


def _loops_around(operation: ir.Operation) -> list[ir.Operation]:
    loops = []
    while operation.name != "builtin.module":
        operation = operation.parent.operation
        if operation.name in LOOPS:
            loops.append(operation)
    return loops


def _arithmetic_behind(value: ir.Value) -> ir.Value | None:
    """Return the arithmetic result that `value` is a reshape, transpose, broadcast or widening of; None for others."""
    while isinstance(owner := value.owner, ir.Operation | ir.OpView):
        operation = owner.operation
        if operation.name in RESHAPES:
            value = operation.operands[0]
        elif operation.name == "linalg.generic" and (source := _moved_operand(operation)) is not None:
            value = source
        else:
            # A body of one operation only fills or moves.
            computes = operation.name == "linalg.generic" and len(operation.regions[0].blocks[0].operations) > 1
            return value if computes else None
    return None


def _moved_operand(generic: ir.Operation) -> ir.Value | None:
    """Return the operand that a generic only moves or widens; None where it does anything else."""
    block = generic.regions[0].blocks[0]
    if len(generic.operands) != 2 or any(inner.operation.name not in FREE for inner in block.operations):
        return None
    return generic.operands[0]


# --- Producers of overwritten arrays ------------------------------------------------------------------------------


WRITTEN = {"tensor.insert_slice": 1, "tensor.insert": 1}
"""Operations that write into an operand, with its position."""


class Overwrites:
    """The order of a module's operations; `kept` has the results that do not fuse, and grows between calls."""

    def __init__(self, module: ir.Module, kept: Mapping[ir.Value, None]):
        operations = all_operations(module)
        self.order = {operation: position for position, operation in enumerate(operations)}
        self.kept = kept
        self.replaced = dict(pair for operation in operations for pair in self._replaced_by(operation))
        """For loop-carried or updated tensors: the order of the operation that first writes their new content."""
        self._reads: dict[ir.Operation, dict[ir.Value, None]] = {}
        self._writes: dict[ir.Value, list[int]] = {}

    def read_too_late(self, consumer: ir.Operation) -> Iterator[ir.Value]:
        """Yield the operands of `consumer` that are computed from a tensor overwritten before it runs.

        Consumers are asked in program order: what a producer reads is computed once, from what its own producers read.
        """
        for value in consumer.operands:
            producer = definition(value)
            if not _is_generic(producer) or not _has_one_use(value):
                continue
            if any(self._is_written_between(array, producer, consumer) for array in self._read(producer)):
                yield value

    def _read(self, producer: ir.Operation) -> dict[ir.Value, None]:
        """Return the overwritten tensors that a generic reads, also through producers that will fuse into it."""
        if producer not in self._reads:
            self._reads[producer] = dict.fromkeys(self._read_by(producer))
        return self._reads[producer]

    def _read_by(self, producer: ir.Operation) -> Iterator[ir.Value]:
        read = list(producer.operands)[: len(producer.operands) - len(producer.results)]
        read += [
            inner.operation.operands[0]
            for inner in producer.regions[0].blocks[0].operations
            if inner.operation.name == "tensor.extract"
        ]
        for value in read:
            fuses = _is_generic(producer_before := definition(value)) and _has_one_use(value) and value not in self.kept
            if fuses:
                yield from self._read(producer_before)
            elif self._writes_of(array := viewed(value)):
                yield array

    def _writes_of(self, array: ir.Value) -> list[int]:
        if array not in self._writes:
            writes = [self.order[use.owner.operation] for use in array.uses if _writes(use)]
            self._writes[array] = [*writes, *([self.replaced[array]] if array in self.replaced else [])]
        return self._writes[array]

    def _is_written_between(self, array: ir.Value, producer: ir.Operation, consumer: ir.Operation) -> bool:
        first, last = self.order[producer], self.order[consumer]
        return any(first < write < last for write in self._writes_of(array))

    def _replaced_by(self, operation: ir.Operation) -> Iterator[tuple[ir.Value, int]]:
        for array, content in _contents(operation):
            maker = definition(_original(content))
            if maker is not None:
                yield array, self.order[maker]


def _contents(operation: ir.Operation) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield the tensors that an operation's region starts with, each with its content at the end."""
    if operation.name == "func.func" and operation.regions[0].blocks:
        block, updates = operation.regions[0].blocks[0], updates_of(operation.opview)
        returned = terminator(block).operands
        yield from ((block.arguments[argument], returned[result]) for argument, result in updates.items())
    elif operation.name == "scf.for":
        block = operation.regions[0].blocks[0]
        yield from zip(list(block.arguments)[1:], terminator(block).operands, strict=True)
    elif operation.name == "scf.while":
        block = operation.regions[1].blocks[0]
        yield from zip(block.arguments, terminator(block).operands, strict=False)


def _original(value: ir.Value) -> ir.Value:
    while (operation := definition(value)) is not None:
        if operation.name in WRITTEN:
            value = operation.operands[WRITTEN[operation.name]]
        elif operation.name == "scf.for":
            value = operation.operands[3 + value.result_number]
        else:
            break
    return value


def _is_generic(operation: ir.Operation | None) -> bool:
    return operation is not None and operation.name == "linalg.generic"


def _has_one_use(value: ir.Value) -> bool:
    return sum(1 for _ in value.uses) == 1


def _writes(use: ir.OpOperand) -> bool:
    """Return whether the user may write the tensor in place: as a destination, or carried by a loop."""
    operation = use.owner.operation
    if operation.name.startswith("linalg."):
        return use.operand_number >= len(operation.operands) - len(operation.results)
    if operation.name in ("scf.for", "scf.while"):
        return True
    return WRITTEN.get(operation.name) == use.operand_number
