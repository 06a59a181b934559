"""The state of one call of a PrimFunc on its way to linalg: buffers as tensors, variables as scalars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import arith, ir, tensor
from mlirtri.errors import KernelError, UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.tir_to_scalar import Scalars
from mlirtri.lowering.importers.from_relax.types import mlir_type
from mlirtri.lowering.mlir_common.index_values import index_constant
from mlirtri.lowering.toolchain.tvm_names import LOCATION, Analyzer, Buffer, Expr, SBlock, tirx
from mlirtri.lowering.toolchain.tvm_passes import span_of

Size = int | ir.Value
"""A constant size, or an index value."""


class Frame:
    """The state of one call: the tensor that each buffer of the PrimFunc holds now."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.scalars = Scalars(self.load, self.analyzer)
        self.tensors: dict[Buffer, ir.Value] = {}

    def bind_sizes(self, buffer: Buffer, sizes: Sequence[Size]) -> None:
        """Bind the variables in a buffer's shape to these sizes."""
        if len(buffer.strides or ()):
            raise UnsupportedOperationError(
                f"the buffer {buffer.name} has strides", help="tensors of linalg are contiguous: leave the strides out"
            )
        for size, given_size in zip(buffer.shape, sizes, strict=True):
            if isinstance(size, tirx.Var) and size not in self.scalars.indices:
                value = given_size if isinstance(given_size, ir.Value) else index_constant(given_size)
                self.scalars.indices[size] = value

    def size(self, extent: Expr) -> Size:
        """Return an extent, as an int where it is constant."""
        return int(extent.value) if isinstance(extent, tirx.IntImm) else self.scalars.index(extent)

    def allocate(self, buffer: Buffer) -> None:
        """Give a buffer an uninitialised tensor."""
        sizes = [self.size(extent) for extent in buffer.shape]
        self.tensors[buffer] = tensor.empty(sizes, mlir_type(str(buffer.dtype)))

    def load(self, buffer: Buffer, indices: Sequence[Expr]) -> ir.Value:
        """Return an element of a buffer."""
        if buffer not in self.tensors:
            raise UnsupportedOperationError(f"the buffer {buffer.name} is memory that the function does not own")
        return tensor.extract(self.tensors[buffer], self.inside(buffer, indices)[0])

    def inside(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[list[ir.Value], ir.Value | None]:
        """Return the indices clamped to the buffer, and an i1 whether they were in bounds (None if proven)."""
        clamped_indices, in_bounds = [], None
        for index, extent in zip(indices, buffer.shape, strict=True):
            value = self.scalars.index(index)
            is_safe = self.scalars.least(index) >= 0, self.scalars.is_below(index, extent)
            if not all(is_safe):
                high = arith.subi(self.scalars.index(extent), index_constant(1))
                # As unsigned, a negative index is too large, too.
                clamped = arith.minui(value, high)
                is_inside = arith.cmpi(arith.CmpIPredicate.eq, value, clamped)
                in_bounds = is_inside if in_bounds is None else arith.andi(in_bounds, is_inside)
                value = clamped
            clamped_indices.append(value)
        return clamped_indices, in_bounds


@contextmanager
def located(block: SBlock) -> Iterator[None]:
    """Give operations and errors inside the location that the block is annotated with."""
    span = span_of(block.annotations[LOCATION]) if LOCATION in block.annotations else None
    name = getattr(ir.Location.current, "name_str", None)
    try:
        if span is None:
            yield
            return
        with location_of(span, name):
            yield
    except KernelError as error:
        raise error.at(span) from None
