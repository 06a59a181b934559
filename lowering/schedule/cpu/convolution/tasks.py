"""The loop over the tasks of a convolution: images, chunks of whole rows of the result, parts of the output channels.

The layouts define a task: `channels_first`, `channels_last` and `depthwise` subclass `ConvolutionTasks`.

    parallel over images, chunks, parts:  allocate the task's buffers;  statements of the task
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlirtri.lowering.codegen.targets import lanes_for
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import loop_kind, parallel_loop
from mlirtri.lowering.schedule.cpu.convolution.padded_chunks import PaddedChunk
from mlirtri.lowering.tir.contraction import Axis, Contraction, Values, size_of
from mlirtri.lowering.tir.statements import index, plus, sequence
from mlirtri.lowering.tir.tiles import axis_values, for_loop, replaced
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Extent, Stmt, tirx


@dataclass(frozen=True)
class Chunks:
    """Chunks of `rows` whole rows of the result each, and the tasks that compute them."""

    rows: int
    count: int
    parts: int = 1
    """Tasks per chunk, each of which computes a part of the output channels."""
    first_row: int = 0
    """Rows of the result in front of the first chunk."""


class ConvolutionTasks(ABC):
    """The tasks of one convolution; a subclass sets `chunks` and defines a task's statements."""

    chunks: Chunks

    def __init__(self, contraction: Contraction, target: Target):
        self.contraction, self.target = contraction, target
        self.lanes = lanes_for(contraction.dtype)

    @abstractmethod
    def work(self, batch: Extent) -> Extent:
        """Return the number of vector operations for `batch` images and groups."""

    @abstractmethod
    def buffers(self) -> Sequence[Buffer | None]:
        """Return the buffers of one task, in the order in which they are allocated."""

    @abstractmethod
    def task(self, batch: Values, first: Expr, part: Expr) -> Sequence[Stmt]:
        """Return the statements for the chunk that begins with row `first` of one image, and a part of its channels."""

    def statement(self) -> Stmt:
        """Return the loop over all tasks."""
        batch, chunks = self.contraction.batch, self.chunks

        def task(position: Expr) -> Stmt:
            part, chunk = tirx.floormod(position, index(chunks.parts)), tirx.floordiv(position, index(chunks.parts))
            image = axis_values(batch, tirx.floordiv(chunk, index(chunks.count)))
            first = plus(tirx.floormod(chunk, index(chunks.count)) * index(chunks.rows), index(chunks.first_row))
            allocations = [tirx.AllocBuffer(buffer) for buffer in self.buffers() if buffer is not None]
            return sequence(*allocations, *self.task(image, first, part))

        tasks = size_of(batch) * chunks.count * chunks.parts
        # The number of images may be dynamic; the other axes alone may be enough work for the threads.
        static = self.work(size_of([axis for axis in batch if isinstance(axis.extent, int)]))
        if loop_kind(static, self.target) == tirx.ForKind.PARALLEL:
            return for_loop("task", tasks, task, tirx.ForKind.PARALLEL)
        return parallel_loop("task", tasks, task, self.work(size_of(batch)), self.target)


class ChunkCopyTasks(ConvolutionTasks):
    """Tasks that copy a chunk's part of the image, if it is padded, before they compute the chunk."""

    image: PaddedChunk | None
    copy: Buffer | None
    """The padded copy; None where the image is read in place."""

    def __init__(self, contraction: Contraction, axes: Sequence[Axis], target: Target):
        super().__init__(contraction, target)
        *outer, self.inner = axes
        self.has_rows = bool(outer)
        """Whether the result has rows; an image of one dimension is one row, which is not split."""
        self.outer = outer or [Axis(tirx.Var("line", "int64"), 1)]
        """Axes of whole rows of the result; chunks are cut from the first one."""

    def chunked(self, rows: Extent) -> Extent:
        """Return the extent of the axis that the padded copy is chunked along, for `rows` rows of the result."""
        return rows if self.has_rows else self.inner.extent

    def rows_from(self, first: Expr) -> int | Expr:
        """Return the number of rows of the chunk that begins with row `first`; the last chunk may have fewer."""
        total, rows = self.outer[0].extent, self.chunks.rows
        return tirx.min(index(rows), index(total) - first) if total % rows else rows

    def filled_copy(self, batch: Values, first: Expr, rows: Extent) -> list[Stmt]:
        """Return the statements that fill the padded copy for a chunk."""
        if self.image is None:
            return []
        return [self.image.filled(self.copy, batch, first, self.chunked(rows), self.lanes)]

    def of_chunk(self, first: Expr, **operands: object) -> Contraction:
        """Return the contraction of the chunk that begins with row `first`, from which its rows are counted.

        `operands` are fields of the contraction that read the padded copy.
        """
        values = {self.outer[0].variable: plus(first, self.outer[0].variable)}
        left, right = (replaced(operand, values) for operand in (self.contraction.left, self.contraction.right))
        stores = tuple(replaced(store, values) for store in self.contraction.stores)
        return replace(self.contraction, **{"left": left, "right": right, "stores": stores, **operands})
