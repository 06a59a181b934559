"""The memory spaces of a tile kernel's tiles, as an attribute of what computes them and of what allocates them.

    %acc = linalg.generic … {mlirtri.memory_space = #gpu.address_space<private>} … -> tensor<64x64xf32>
    %acc = memref.alloc() {mlirtri.memory_space = #gpu.address_space<private>} : memref<64x64xf32>

A tensor has no memory, and upstream's fusion drops attributes of the operations that it merges. Their locations stay:
the location of each operation that writes a tile is fused with the space, from which `note` writes the attribute.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirtri.dialect.bindings.locations import name_of
from mlirtri.dialect.bindings.mlir import all_operations, ir, operations_named, public_functions
from mlirtri.lowering.core.stage import TILE_KERNEL
from mlirtri.lowering.mlir_common.reading import ALLOCATIONS, VIEWS_OF_MEMORY

MEMORY_SPACE = "mlirtri.memory_space"
"""Attribute of an operation that computes a tile's content or allocates it: an address space of the gpu dialect."""
SPACES = {"shared": "workgroup", "fragment": "private", "local": "private"}
"""The gpu dialect's names of the memory spaces of TileLang."""
_NAME = "mlirtri.tile"
"""What a location calls the name of a tile."""


def mark(operation: ir.Operation, space: str, name: str | None) -> None:
    """Record that an operation computes the content of a tile of this name and memory space, unless it has one."""
    if space_of(operation.location) is not None:
        return
    with operation.context:
        address_space = ir.Attribute.parse(f"#gpu.address_space<{SPACES[space]}>")
        # The name is not that of the operation: loops that it becomes would take it, too.
        names = {} if name is None else {_NAME: ir.StringAttr.get(name)}
        known = ir.DictAttr.get({MEMORY_SPACE: address_space, **names})
        operation.location = ir.Location.fused([operation.location], known)
        operation.attributes[MEMORY_SPACE] = address_space


def space_of(location: ir.Location) -> ir.Attribute | None:
    """Return the memory space in a location of a tile's content; None in any other."""
    return _known_of(location, MEMORY_SPACE)


def _known_of(location: ir.Location, key: str) -> ir.Attribute | None:
    """Return what is known of a tile, from the location of its content; None where locations of several are fused."""
    if isinstance(location, ir.NameLoc):
        return _known_of(location.child_loc, key)
    if not isinstance(location, ir.FusedLoc):
        return None
    known = location.metadata
    if known is not None and known.typeid == ir.DictAttr.static_typeid and key in (entries := ir.DictAttr(known)):
        return entries[key]
    found = {str(value): value for inner in location.locations if (value := _known_of(inner, key)) is not None}
    return next(iter(found.values())) if len(found) == 1 else None


def has_tiles(module: ir.Module) -> bool:
    """Return whether a module is a tile kernel."""
    return any(TILE_KERNEL in function.attributes for function in public_functions(module))


def hide(module: ir.Module) -> None:
    """Remove the attributes: passes merge no operations of which one has an attribute. `note` writes them again."""
    for operation in all_operations(module):
        if MEMORY_SPACE in operation.attributes:
            del operation.attributes[MEMORY_SPACE]


def note(module: ir.Module) -> None:
    """Give the attribute to the operations that compute tiles, and in a bufferized module to what allocates them."""
    for operation in all_operations(module):
        is_tensor = [isinstance(result.type, ir.RankedTensorType) for result in operation.results] == [True]
        if is_tensor and not operation.name.startswith("scf.") and (space := space_of(operation.location)) is not None:
            operation.attributes[MEMORY_SPACE] = space
    for allocation in operations_named(module, *ALLOCATIONS):
        _note_allocation(allocation.operation)


def _note_allocation(allocation: ir.Operation) -> None:
    """Give an allocation the memory space and the name of the tile that it is memory of, if it is of one."""
    locations = list(_written_at(allocation.results[0]))
    spaces = {str(space): space for location in locations if (space := space_of(location)) is not None}
    names = {ir.StringAttr(name).value for location in locations if (name := _known_of(location, _NAME)) is not None}
    if len(spaces) == 1:
        allocation.attributes[MEMORY_SPACE] = next(iter(spaces.values()))
    if len(names) == 1 and name_of(allocation.location) is None:
        with allocation.context:
            allocation.location = ir.Location.name(names.pop(), allocation.location)


def _written_at(buffer: ir.Value) -> Iterator[ir.Location]:
    """Yield the locations of what writes tiles into a buffer, views of it included."""
    for use in buffer.uses:
        user, number = use.owner.operation, use.operand_number
        if user.name in VIEWS_OF_MEMORY:
            yield from _written_at(user.results[0])
        elif _writes(user, number) and space_of(user.location) is not None:
            yield user.location


def _writes(user: ir.Operation, number: int) -> bool:
    if user.name.startswith("linalg."):
        segments = list(user.attributes["operandSegmentSizes"]) if "operandSegmentSizes" in user.attributes else [1]
        return number >= segments[0]
    return user.name in ("memref.copy", "memref.store") and number == 1
