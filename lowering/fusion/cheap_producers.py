"""Copy cheap elementwise operations of dynamic size to each of their readers, into which upstream then fuses them.

Upstream fuses what has one use. Computing a difference again takes less time than to store it and to read it twice.
One value for all elements is never stored. Other operations of static size have row kernels, which decide this later,
for the cache that they run in.

    %d = %a - %m;  %v = %d * %d;  %o = %d / %s      ──►      %v = (%a - %m)²;  %o = (%a - %m) / %s
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg, operations_named
from mlirtri.lowering.mlir_common.cloning import copy_for
from mlirtri.lowering.mlir_common.linalg_builder import iterators_of

CHEAP = ("arith.addf", "arith.subf", "arith.mulf", "arith.negf", "arith.extf", "arith.truncf", "linalg.yield")
MAX_STEPS = 3
"""The most operations of a body that is copied, without its `linalg.yield`."""
MAX_READERS = 3


def rewrite(module: ir.Module) -> None:
    """Copy every cheap elementwise operation of dynamic size in `module` to each of its readers, in place."""
    for generic in operations_named(module, "linalg.generic"):
        readers = _readers(generic.results[0]) if len(generic.results) == 1 else []
        if _is_one_value(generic):
            for reader in (reader for reader in readers[1:] if _is_input(reader, generic.results[0])):
                copy_for(generic, reader)
        if not _is_cheap(generic):
            continue
        if len(readers) > MAX_READERS or not all(_reads_once(reader, generic.results[0]) for reader in readers):
            continue
        for reader in readers[1:]:
            copy_for(generic, reader)


def _is_one_value(generic: ir.Operation) -> bool:
    """Return whether all elements of a dynamic result are one value, from outside or of tensors of rank 0."""
    body = generic.regions[0].blocks[0].operations
    if len(generic.results) != 1 or generic.results[0].type.has_static_shape or len(body) != 1:
        return False
    *inputs, _ = (attribute.value for attribute in linalg.get_indexing_maps(generic))
    value = body[0].operands[0]
    is_old = isinstance(value.owner, ir.Block) and ir.BlockArgument(value).arg_number == len(inputs)
    return not is_old and not any(access.results for access in inputs)


def _is_input(reader: ir.Operation, value: ir.Value) -> bool:
    """Return whether an operation is a generic that reads a tensor as an input only."""
    if reader.name != "linalg.generic":
        return False
    inputs = reader.attributes["operandSegmentSizes"][0]
    return all(position < inputs for position, operand in enumerate(reader.operands) if operand == value)


def _is_cheap(generic: ir.Operation) -> bool:
    """Return whether a generic computes one dynamic result, from one tensor of its size and from smaller ones."""
    results = list(generic.results)
    if len(results) != 1 or results[0].type.has_static_shape or "reduction" in iterators_of(generic):
        return False
    body = generic.regions[0].blocks[0].operations
    if len(body) > MAX_STEPS + 1 or len(body) < 2 or any(inner.operation.name not in CHEAP for inner in body):
        return False
    *inputs, result = (attribute.value for attribute in linalg.get_indexing_maps(generic))
    whole = [access for access in inputs if len(access.results) == result.n_dims]
    return whole == [result] and result == ir.AffineMap.get_identity(result.n_dims)


def _readers(value: ir.Value) -> list[ir.Operation]:
    """Return the operations that use a value, each once."""
    return list(dict.fromkeys(use.owner.operation for use in value.uses))


def _reads_once(reader: ir.Operation, value: ir.Value) -> bool:
    """Return whether a generic reads each element of a tensor once, as an input."""
    if reader.name != "linalg.generic":
        return False
    maps = [attribute.value for attribute in linalg.get_indexing_maps(reader)]
    inputs = reader.attributes["operandSegmentSizes"][0]
    identity = ir.AffineMap.get_identity(maps[0].n_dims)
    positions = [position for position, operand in enumerate(reader.operands) if operand == value]
    return all(position < inputs and maps[position] == identity for position in positions)
