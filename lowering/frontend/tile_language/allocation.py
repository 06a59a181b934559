"""Allocation of tiles: arrays of compile-time shape, each with a memory space and the line of its allocation."""

from __future__ import annotations

from dataclasses import dataclass

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import KernelValue, TriValue
from mlirtri.errors import KernelTypeError, Note
from mlirtri.lowering.frontend.semantics.builder import Language, describe
from mlirtri.lowering.frontend.semantics.storage import as_new_array, has_memory, viewed, with_memory
from mlirtri.lowering.mlir_common.memory_spaces import mark

SPELLED_DTYPES = {"float": "float32", "int": "int32", "uint": "uint32", "double": "float64", "half": "float16"}
"""What TVM and TileLang call dtypes, where NumPy means another one by that name or none."""


@dataclass(frozen=True)
class Tile:
    """What is known of a tile beside its type."""

    space: str
    """``shared``, ``fragment`` or ``local``."""
    location: ir.Location | None
    """Where it is allocated."""


def dtype_of_tile(dtype: object) -> DType:
    """Return the dtype that a tile kernel names, by an object or by a word of TileLang's or NumPy's."""
    if dtype is float:
        return DTYPES["float32"]
    return as_dtype(SPELLED_DTYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype)


def allocate(
    b: Language, shape: KernelValue, dtype: object = "float32", scope: KernelValue = None, *, space: str
) -> TriValue:
    """Return a tile of zeros; raises `KernelTypeError` for a shape that is not known at compile time."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        shown = ", ".join(map(describe, sizes))
        raise KernelTypeError(
            f"the shape of a tile is known at compile time, got ({shown})",
            help="write numbers, or compile-time arguments",
        )
    tile = with_memory(b.full(tuple(sizes), 0, dtype_of_tile(dtype)))
    b.tiles[tile.origin.storage] = Tile(space, b.tri.location)
    tile.origin.storage.tile = (space, tile.value)
    mark(tile.value.owner.operation, space, None)
    return tile


def empty(b: Language, shape: KernelValue, dtype: object = "float32") -> TriValue:
    """Return a new array, which the kernel fills and returns: `T.empty`."""
    return b.empty(tuple(shape) if isinstance(shape, (tuple, list)) else (shape,), dtype_of_tile(dtype))


def reshaped(b: Language, src: KernelValue, shape: KernelValue, dtype: object = None) -> KernelValue:
    """Return the memory of an array in another shape: `T.reshape` and `T.view`, which may not change the dtype."""
    if not isinstance(src, TriValue) or not src.type.rank:
        raise KernelTypeError(f"T.reshape takes an array, got {describe(src)}", help="write T.reshape(x, (m, n))")
    if dtype is not None and dtype_of_tile(dtype) != src.type.dtype:
        raise KernelTypeError(
            f"this is memory of {src.type.dtype}, not of {dtype_of_tile(dtype)}",
            help="copy it to a tile of the other dtype, which casts its elements",
        )
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    result = viewed("Tensor.view", src, as_new_array(b.reshape(TriValue(src.value, src.type), sizes)))
    if has_memory(src) and not has_memory(result):
        raise KernelTypeError(
            f"{describe(src)} does not lie in one piece, so that it has no other shape", help="copy it with T.copy"
        )
    return result


def in_shape(
    b: Language, shape: KernelValue, dtype: object = None, data: KernelValue = None, **hints: object
) -> KernelValue:
    """Return the memory of an array in another shape: ``T.Tensor((m, n), dtype, x.data)``."""
    if data is None:
        raise KernelTypeError("T.Tensor in a kernel needs the memory of an array", help="write T.empty(shape, dtype)")
    return reshaped(b, data, shape, dtype)


def variable(b: Language, dtype: object = "float32", init: KernelValue = 0, scope: KernelValue = None) -> TriValue:
    """Return a number that assignments to its name replace: `T.alloc_var`."""
    kind = dtype_of_tile(dtype)
    value = b.tensor(init, kind)
    return TriValue(value.value, value.type)


def allocation_of(b: Language, value: TriValue) -> Tile | None:
    """Return what is known of the tile that a value is, or is a part of; None for other arrays."""
    return b.tiles.get(value.origin.storage) if has_memory(value) else None


def allocation_notes(b: Language, *values: TriValue) -> tuple[Note, ...]:
    """Return a note on the line of each tile's allocation."""
    notes = []
    for value in values:
        tile = allocation_of(b, value)
        if tile is not None and tile.location is not None:
            notes.append(Note(f"{value.type} is allocated here", span_of(tile.location)))
    return tuple(notes)


def assign(b: Language, tile: TriValue, value: KernelValue) -> None:
    """Write all elements of a tile or of a part of it; `value` is broadcast, and cast to its dtype."""
    if not has_memory(tile):
        raise KernelTypeError(f"{describe(tile)} cannot be written", help="write into an array or a tile")
    update = b.broadcast_to(b.tensor(value, tile.type.dtype), tile.type.shape)
    b.memory.write(b.tri, tile.origin, update)


def fill(b: Language, tile: TriValue, value: KernelValue = 0) -> None:
    """Fill a tile with a number: `T.fill`, and `T.clear` with zero."""
    if isinstance(value, TriValue) and value.type.rank:
        raise KernelTypeError(f"T.fill takes a number, got {describe(value)}", help="copy it with T.copy")
    assign(b, tile, value)
