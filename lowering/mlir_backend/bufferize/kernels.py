"""The kernels of a bufferized function, as every report counts them, and what each reads, writes and computes.

A kernel is a loop nest of the function's own block: a structured operation, a loop, a branch with loops in it, or a
copy. A fill of what a later nest writes belongs to that nest's kernel, as TVM's functions fill what they accumulate in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mlirtri.dialect.bindings.locations import name_of, span_of, spans_in
from mlirtri.dialect.bindings.mlir import all_operations_in, ir, linalg, public_functions
from mlirtri.lowering.core.untranslatable import bytes_of
from mlirtri.lowering.mlir_common.attributes import COUNTS
from mlirtri.lowering.mlir_common.cloning import needed_by
from mlirtri.lowering.mlir_common.readable_names import name_of_structured
from mlirtri.lowering.mlir_common.reading import buffer_behind, trip_count

LOOPS = ("scf.for", "scf.parallel", "scf.forall", "scf.while", "affine.for", "affine.parallel")
BRANCHES = ("scf.if", "scf.index_switch")
COPIES = ("memref.copy", "bufferization.materialize_in_destination")
_NO_NEST = ("linalg.yield", "linalg.index")
ARITHMETIC = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maximumf", "arith.minimumf",
    "arith.maxnumf", "arith.minnumf", "arith.cmpf", "arith.negf",
)  # fmt: skip
"""What counts as one operation on elements; functions such as `exp` count none, as in TVM's estimate."""


@dataclass(frozen=True)
class Nest:
    """One kernel and what a call of it costs; None where sizes are known at run time only."""

    name: str
    line: tuple[str, int] | None
    """File and line of the first operation in it that has them."""
    bytes: int | None
    flops: int | None


def kernels_of(function: ir.OpView) -> list[list[ir.Operation]]:
    """Return the nests of each kernel of a function, the fills first, in the order of their last nest."""
    operations = [operation.operation for block in function.regions[0].blocks for operation in block.operations]
    kernels = [[operation] for operation in operations if _is_nest(operation)]
    for number, kernel in reversed(list(enumerate(kernels))):
        if kernel[0].name != "linalg.fill":
            continue
        filled = buffer_behind(kernel[0].operands[-1])
        user = next((later for later in kernels[number + 1 :] if filled in _sizes(later)), None)
        if user is not None:
            user[:0] = kernel
            kernel.clear()
    return [kernel for kernel in kernels if kernel]


def note_counts(module: ir.Module) -> None:
    """Set the module's attributes for the number of its kernels and the bytes that they move, where that is known."""
    attributes = module.operation.attributes
    for name, number in zip(COUNTS, count(public_functions(module)), strict=True):
        if number is not None:
            attributes[name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
        elif name in attributes:
            del attributes[name]


def count(functions: Sequence[ir.OpView]) -> tuple[int, int | None]:
    """Return the number of kernels of bufferized functions, and the bytes that they read and write."""
    sizes = [_bytes(kernel) for function in functions for kernel in kernels_of(function)]
    return len(sizes), None if None in sizes else sum(size or 0 for size in sizes)


def described(kernel: Sequence[ir.Operation]) -> Nest:
    """Return what a kernel is called and what a call of it costs."""
    operation = kernel[-1]
    steps = all_operations_in(operation)
    kind = name_of_structured(operation) if _is_structured(operation) else operation.name.rpartition(".")[2]
    label = next((name for step in steps if (name := name_of(step.location))), None)
    spans = (span for step in steps for span in spans_in(step))
    span = span_of(operation.location) or next(spans, None)
    line = (span.file, span.line) if span else None
    return Nest(f"{kind} {label}" if label else kind, line, _bytes(kernel), _flops(operation, 1))


def _is_nest(operation: ir.Operation) -> bool:
    steps = all_operations_in(operation) if operation.name in BRANCHES else (operation,)
    return any(step.name in (*LOOPS, *COPIES) or _is_structured(step) for step in steps)


def _is_structured(operation: ir.Operation) -> bool:
    return operation.name.startswith("linalg.") and operation.name not in _NO_NEST


def _sizes(kernel: Sequence[ir.Operation]) -> dict[ir.Value, int | None]:
    """Return the bytes of every array from outside that a kernel names: of its parts, and at most of the array."""
    named: list[ir.Value] = []
    for operation in kernel:
        steps = all_operations_in(operation)
        blocks = [block for inner in steps for region in inner.regions for block in region.blocks]
        inside = {value for inner in steps for value in inner.results}
        inside |= {value for block in blocks for value in block.arguments}
        operands = (value for value in needed_by(operation) if isinstance(value.type, ir.MemRefType))
        named += [value for value in operands if value not in inside]
    sizes: dict[ir.Value, int | None] = {}
    for value in dict.fromkeys(named):
        root, part = buffer_behind(value), _size(value.type)
        known = sizes.get(root, 0)
        sizes[root] = None if part is None or known is None else known + part
    return {root: size if size is None else min(size, _size(root.type) or size) for root, size in sizes.items()}


def _bytes(kernel: Sequence[ir.Operation]) -> int | None:
    sizes = _sizes(kernel).values()
    return None if None in sizes else sum(size or 0 for size in sizes)


def _size(type_: ir.MemRefType) -> int | None:
    if not type_.has_static_shape:
        return None
    return prod(type_.shape) * bytes_of(type_.element_type)


def _flops(operation: ir.Operation, times: int | None) -> int | None:
    """Return the operations on floating-point elements of all iterations; None where an extent is not constant."""
    if operation.name in ARITHMETIC:
        return times
    if not any(inner.name in ARITHMETIC for inner in all_operations_in(operation)):
        return 0
    inner = _iterations(operation)
    if inner is None or times is None:
        return None
    steps = (step.operation for region in operation.regions for block in region.blocks for step in block.operations)
    parts = [_flops(step, times * inner) for step in steps]
    return None if None in parts else sum(part or 0 for part in parts)


def _iterations(operation: ir.Operation) -> int | None:
    if operation.name.startswith("linalg."):
        return _domain(operation)
    if operation.name == "scf.for":
        return trip_count(list(operation.operands)[:3])
    return None if operation.name in LOOPS else 1


def _domain(operation: ir.Operation) -> int | None:
    """Return the iterations of a structured operation, by the shapes that its indexing maps read."""
    maps = linalg.get_indexing_maps(operation)
    if maps is None:
        return None
    extents: dict[int, int] = {}
    rank = 0
    for value, attribute in zip(operation.operands, maps, strict=False):
        mapping = ir.AffineMapAttr(attribute).value
        rank = mapping.n_dims
        if not isinstance(value.type, ir.ShapedType) or not value.type.has_static_shape:
            continue
        for size, expression in zip(value.type.shape, mapping.results, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                extents[expression.position] = size
    return prod(extents.values()) if len(extents) == rank else None
