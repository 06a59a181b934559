"""Gather the windows of a convolution whose rows of pixels do not fill vectors into a matrix: a product is left.

The pixels that lie one after the other in the result become one loop. Where they fill no whole number of vectors, the
matrix has columns of zeros, and the sums are computed in a buffer with these columns.

    out[n, c, y, x] += filters[c, i, ky, kx] * image[n, i, 2 y + ky, 2 x + kx]
        ──►   windows[n, i, ky, kx, y, x] = image[n, i, 2 y + ky, 2 x + kx]
              out[n, c, yx] += filters[c, i, ky, kx] * windows[n, i, ky, kx, yx]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from mlirtri.dialect.bindings.mlir import ir, linalg, memref
from mlirtri.lowering.mlir_backend.llvm.window_views import sums_of
from mlirtri.lowering.mlir_common.linalg_builder import dimensions, loop_extents, maps_of, set_maps, zero
from mlirtri.lowering.mlir_common.linalg_builder import generic as build_generic

WINDOW_BYTES = 1 << 20
"""Bytes of the windows that are gathered at once at most, to stay in the second-level cache."""
LEAST = 4
"""The fewest pixels, output channels and products of a sum that are worth a matrix."""


@dataclass(frozen=True)
class _Windows:
    """A convolution: which operand is the image, and its loops by role."""

    image: int
    outer: tuple[int, ...]
    """Images and groups."""
    reduced: tuple[int, ...]
    """The loops summed over, the last ones of the filters."""
    pixels: tuple[int, ...]
    """The last loops of the result, which only the image and the result have."""
    extents: dict[int, int]

    def sizes(self, loops: Sequence[int]) -> list[int]:
        return [self.extents[loop] for loop in loops]

    @property
    def count(self) -> int:
        return prod(self.sizes(self.pixels))


def gather_windows(generic: ir.Operation, lanes: int) -> bool:
    """Make a sum of products whose one operand is read by sums of loops a matrix product; return whether it was one."""
    windows = _windows_of(generic)
    if windows is None:
        return False
    maps, filters = maps_of(generic), 1 - windows.image
    columns = -(-windows.count // lanes) * lanes
    generic.operands[windows.image] = _gathered(generic, windows, columns)
    generic.operands[filters] = _joined(generic, generic.operands[filters], len(windows.reduced))
    generic.operands[2] = _result(generic, windows, columns)
    gone = (*windows.reduced[:-1], *windows.pixels[:-1])
    kept = [loop for loop in range(maps[2].n_dims) if loop not in gone]
    kinds = generic.attributes["iterator_types"]
    generic.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[loop] for loop in kept])
    loops = [
        [result.position for result in mapping.results if isinstance(result, ir.AffineDimExpr)] for mapping in maps
    ]
    loops[windows.image] = [*windows.outer, *windows.reduced, *windows.pixels]
    set_maps(generic, [dimensions(*(kept.index(loop) for loop in access if loop in kept), rank=len(kept))
                       for access in loops])  # fmt: skip
    return True


def chunk_sizes(generic: ir.Operation) -> list[int] | None:
    """Return, per loop, how many images, groups and rows of pixels to gather at once, 0 for all; None where all fit."""
    windows = _windows_of(generic)
    if windows is None:
        return None
    bits = generic.operands[windows.image].type.element_type.width
    total = prod(windows.sizes((*windows.outer, *windows.reduced, *windows.pixels))) * bits // 8
    sizes = [0] * maps_of(generic)[2].n_dims
    for loop in (*windows.outer, *windows.pixels[:-1]):
        if total <= WINDOW_BYTES:
            break
        each = total // windows.extents[loop]
        sizes[loop] = largest_divisor(windows.extents[loop], max(1, WINDOW_BYTES // each))
        total = each * sizes[loop]
    return sizes if any(sizes) else None


def largest_divisor(number: int, most: int) -> int:
    """Return the largest divisor of a number that is at most `most`."""
    return max(divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0)


def _windows_of(generic: ir.Operation) -> _Windows | None:
    """Return the roles of the loops of a sum of products of static sizes; None where it is no convolution."""
    maps, extents = maps_of(generic), loop_extents(generic)
    sums = [sums_of(mapping.results) for mapping in maps]
    compound = [position for position in range(3) if not _is_plain(sums[position])]
    if compound not in ([0], [1]) or sums[compound[0]] is None or len(extents) != maps[0].n_dims:
        return None
    image = compound[0]
    out, filters = ([terms[0][0] for terms in sums[position] or ()] for position in (2, 1 - image))
    read = [loop for terms in sums[image] or () for loop, _ in terms]
    if any(len(set(loops)) != len(loops) for loops in (out, filters, read)):
        return None
    pixels = _last(out, lambda loop: loop in read and loop not in filters)
    reduced = _last(filters, lambda loop: loop in read and loop not in out)
    outer = tuple(loop for loop in out if loop in read and loop not in pixels)
    channels = [loop for loop in out if loop not in read]
    windows = _Windows(image, outer, reduced, pixels, extents)
    has_all = {*outer, *reduced, *pixels} == {*read} and len(reduced) + len(out) == maps[0].n_dims
    is_large = all(prod(windows.sizes(loops)) >= LEAST for loops in (channels[-1:], reduced, pixels))
    if not has_all or not is_large or 0 in extents.values():
        return None
    is_joined = _is_contiguous(generic.operands[2], len(pixels))
    return windows if is_joined and _is_contiguous(generic.operands[1 - image], len(reduced)) else None


def _last(loops: list[int], has: Callable[[int], bool]) -> tuple[int, ...]:
    """Return the last loops of which all are of a kind."""
    first = len(loops)
    while first and has(loops[first - 1]):
        first -= 1
    return tuple(loops[first:])


def _is_plain(sums: list[list[tuple[int, int]]] | None) -> bool:
    return sums is not None and all(len(terms) == 1 and terms[0][1] == 1 for terms in sums)


def _is_contiguous(value: ir.Value, count: int) -> bool:
    """Return whether the last `count` axes of a buffer can be one."""
    strides, _ = value.type.get_strides_and_offset()
    return strides[-count:] == _row_major(value.type.shape[-count:])


def _row_major(sizes: Sequence[int]) -> list[int]:
    return [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _gathered(generic: ir.Operation, windows: _Windows, columns: int) -> ir.Value:
    """Return a buffer with the windows of the image: outer axes, a row of pixels for each element that is summed."""
    image, mapping = generic.operands[windows.image], maps_of(generic)[windows.image]
    loops = (*windows.outer, *windows.reduced, *windows.pixels)
    sizes = [*windows.sizes(windows.outer), prod(windows.sizes(windows.reduced)), columns]
    buffer = _buffer(generic, sizes, image.type.element_type)
    new = [ir.AffineDimExpr.get(loops.index(loop) if loop in loops else 0) for loop in range(mapping.n_dims)]
    renamed = ir.AffineMap.get(len(loops), 0, new)
    read = ir.AffineMap.get(len(loops), 0, [result.compose(renamed) for result in mapping.results])
    rows = windows.sizes((*windows.outer, *windows.reduced))
    _copy(generic, image, _pixels_of(generic, buffer, rows, windows.sizes(windows.pixels)), read)
    if columns > windows.count:
        with ir.InsertionPoint(generic), generic.location:
            rest = _cast(buffer, [*sizes[:-1], columns - windows.count], _row_major(sizes), windows.count)
            linalg.fill(zero(image.type.element_type), outs=[rest])
    return buffer


def _result(generic: ir.Operation, windows: _Windows, columns: int) -> ir.Value:
    """Return the result with one axis of pixels; as a copy with more columns where these are more than the pixels."""
    out = generic.operands[2]
    if columns == windows.count:
        return _joined(generic, out, len(windows.pixels))
    rows = list(out.type.shape[: -len(windows.pixels)])
    buffer = _buffer(generic, [*rows, columns], out.type.element_type)
    sums = _pixels_of(generic, buffer, rows, windows.sizes(windows.pixels))
    _copy(generic, out, sums)
    _copy(generic, sums, out, is_after=True)
    return buffer


def _joined(generic: ir.Operation, value: ir.Value, count: int) -> ir.Value:
    """Return a buffer with its last `count` axes as one."""
    if count == 1:
        return value
    shape, (strides, offset) = list(value.type.shape), value.type.get_strides_and_offset()
    rank = len(shape)
    layout = ir.StridedLayoutAttr.get(offset, [*strides[:-count], strides[-1]])
    kind = ir.MemRefType.get([*shape[:-count], prod(shape[-count:])], value.type.element_type, layout=layout)
    axes = [*([axis] for axis in range(rank - count)), [*range(rank - count, rank)]]
    if value.type.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank)):
        kind = ir.MemRefType.get(kind.shape, kind.element_type)
    with ir.InsertionPoint(generic), generic.location:
        return memref.collapse_shape(kind, value, axes)


def _buffer(generic: ir.Operation, sizes: list[int], element: ir.Type) -> ir.Value:
    """Return a buffer that lives until after `generic`."""
    with ir.InsertionPoint(generic), generic.location:
        buffer = memref.alloc(ir.MemRefType.get(sizes, element), [], [])
    with ir.InsertionPoint.after(generic), generic.location:
        memref.dealloc(buffer)
    return buffer


def _pixels_of(generic: ir.Operation, buffer: ir.Value, rows: list[int], pixels: list[int]) -> ir.Value:
    """Return the columns of a buffer that are pixels, with the axes of these and of its rows."""
    columns = buffer.type.shape[-1]
    with ir.InsertionPoint(generic), generic.location:
        steps = [columns * step for step in _row_major(rows)]
        return _cast(buffer, [*rows, *pixels], [*steps, *_row_major(pixels)])


def _cast(value: ir.Value, sizes: list[int], steps: list[int], offset: int = 0) -> ir.Value:
    layout = ir.StridedLayoutAttr.get(offset, steps)
    kind = ir.MemRefType.get(sizes, value.type.element_type, layout=layout)
    return memref.reinterpret_cast(kind, value, [], [], [], [offset], sizes, steps)


def _copy(
    generic: ir.Operation, source: ir.Value, out: ir.Value, read: ir.AffineMap | None = None, is_after: bool = False
) -> None:
    rank = len(out.type.shape)
    maps = [read or ir.AffineMap.get_identity(rank), ir.AffineMap.get_identity(rank)]
    with ir.InsertionPoint.after(generic) if is_after else ir.InsertionPoint(generic), generic.location:
        build_generic([source], [out], maps, ["parallel"] * rank, lambda element, _: [element])
