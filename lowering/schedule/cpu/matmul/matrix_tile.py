"""Tiles of bf16 products by the matrix registers of x86 (AMX): 16 by 16 fp32 sums, 32 terms by one instruction.

Both operands are words of two neighbours along the sum: rows of the left one, in place or copied, and the packed
vectors of columns of the right one. A function in LLVM IR computes the sums of a tile, which the stores then read::

    finished = left[rows, words] * right[vectors, words, lanes]        in up to four matrix registers
    stores of finished

A task configures the registers for all of its tiles, and releases them at its end. The last words of a sum, fewer than
an instruction takes, have a function of their own, that adds to the sums: then each function configures them anew.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from mlirtri.lowering.core.cpu import has_matrix_registers
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import Cut, StaticTiles
from mlirtri.lowering.schedule.cpu.matmul.tile import Tile
from mlirtri.lowering.tir.contraction import Axis, Contraction, size_of
from mlirtri.lowering.tir.statements import index, loads_in, sequence
from mlirtri.lowering.tir.tiles import axis_values, groups_of, replaced
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, TensorLoad, tirx

SIDE = 16
"""Rows of a matrix register, and 32-bit words in one of its rows."""
WORD_BYTES = 4


def is_in_matrices(contraction: Contraction) -> bool:
    """Return whether the sums of a contraction of bf16 go to matrix registers: its sizes are known."""
    axes = (*contraction.batch, *contraction.rows, *contraction.columns, *contraction.reduced)
    are_known = all(isinstance(axis.extent, int) for axis in axes)
    return has_matrix_registers() and are_known and contraction.reduced_range is None


def matrix_tiles(contraction: Contraction) -> StaticTiles:
    """Return the tiles of a contraction: two by two registers, or one by four for a few rows."""
    rows, vectors = size_of(contraction.rows), -(-size_of(contraction.columns) // SIDE)
    tall, wide = (2 * SIDE, 2) if rows > SIDE else (SIDE, 4)
    return StaticTiles(Cut(rows, -(-rows // tall)), Cut(vectors, -(-vectors // wide)))


def row_stride(load: TensorLoad, rows: Sequence[Axis]) -> int | None:
    """Return the elements from one row to the next in memory; None where that is not the same for all rows."""
    dimensions = [number for axis in rows if (number := _dimension(load, axis)) is not None]
    shape = [int(size) if isinstance(size, tirx.IntImm) else 0 for size in load.source.ty.shape]
    if len(dimensions) < len(rows) or not rows:
        return None
    first, last = dimensions[0], dimensions[-1]
    follows = dimensions == list(range(first, last + 1))
    if not follows or any(shape[first + 1 + number] != axis.extent for number, axis in enumerate(rows[1:])):
        return None
    return size_of([Axis(None, extent) for extent in shape[last + 1 :]]) or None


def _dimension(load: TensorLoad, axis: Axis) -> int | None:
    found = [number for number, position in enumerate(load.indices) if axis.variable.same_as(position)]
    return found[0] if len(found) == 1 else None


class MatrixTile(Tile):
    """Writes the statements of one tile: a call that computes its sums, and their stores."""

    @classmethod
    def around(cls, contraction: Contraction, tallest: int, task: Stmt) -> Stmt:
        if size_of(contraction.reduced) % SIDE:
            return task
        return sequence(_called(f"{_CONFIGURE}_{_height(tallest)}"), task, _called(_RELEASE))

    def body(self) -> Stmt:
        words = size_of(self.contraction.reduced)
        whole, remaining = divmod(words, SIDE)
        calls = [self._call(0, SIDE, whole, False)] if whole else []
        calls += [self._call(whole * SIDE, remaining, 1, bool(whole))] if remaining else []

        def of_row(row: Any) -> Any:
            return groups_of(
                self.position.columns,
                self.lanes,
                lambda first, count: self.store(row, first, count, self.finished, first),
            )

        return sequence(*calls, self._written_rows(of_row))

    def _call(self, first: int, words: int, steps: int, adds: bool) -> Stmt:
        """Return the call for some words of the sum from `first` on, in steps of `words`."""
        contraction, position = self.contraction, self.position
        reduced = axis_values(contraction.reduced, index(first))
        left = replaced(_element(contraction.left), {**position.batch, **reduced, **self._rows(index(0))})
        columns = axis_values(contraction.columns, position.column)
        right = replaced(_element(contraction.right), {**position.batch, **reduced, **columns})
        panel = size_of(contraction.reduced) * SIDE * WORD_BYTES
        width = int(self.finished.ty.shape[1]) * WORD_BYTES
        strides = self._left_bytes(), panel, width
        height, is_alone = _height(int(self.finished.ty.shape[0])), size_of(contraction.reduced) % SIDE > 0
        shape = position.rows, height, position.vectors, words, steps
        function = _Sums(*shape, int(adds), int(is_alone), *strides)
        operands = left, right, tirx.BufferLoad(self.finished, [index(0), index(0)])
        return _called(function.name, *map(tirx.address_of, operands))

    def _left_bytes(self) -> int:
        """Return the bytes from one row of the left operand to the next."""
        load = _element(self.contraction.left)
        if str(load.ty.dtype) == "int32":
            return size_of(self.contraction.reduced) * WORD_BYTES
        stride = row_stride(load, self.contraction.rows)
        return stride * WORD_BYTES // 2 if stride else 0


def _element(operand: Expr) -> TensorLoad:
    """Return the load of the first element of an operand's word."""
    [load] = loads_in(operand)
    *outer, last = load.indices
    return tirx.BufferLoad(load.source, [*outer, last.base]) if isinstance(last, tirx.Ramp) else load


_NAME = "mlirtri_bfloat16_tile"
_CONFIGURE, _RELEASE = "mlirtri_bfloat16_configure", "mlirtri_bfloat16_release"


def _called(name: str, *arguments: Expr) -> Stmt:
    return tirx.Evaluate(tirx.call_extern("int32", name, *arguments))


def _height(rows: int) -> int:
    """Return the rows of a register, of the one or the two that the tallest tile has."""
    return rows if rows <= SIDE else -(-rows // 2)


def _shapes(height: int, words: int) -> str:
    """Return the configuration: the number of the palette, bytes of a row and rows of each of eight registers."""
    row_bytes = SIDE * WORD_BYTES
    shapes = [(row_bytes, height)] * 4 + [(words * WORD_BYTES, height)] * 2 + [(row_bytes, words)] * 2
    layout = struct.pack("<B15x8H16x8B8x", 1, *(size for size, _ in shapes), *(rows for _, rows in shapes))
    text = "".join(f"\\{byte:02X}" for byte in layout)
    return f'private constant [64 x i8] c"{text}"'


@dataclass(frozen=True)
class _Sums:
    """The function that computes the sums of a tile, all of whose sizes are constants in its name."""

    rows: int
    height: int
    """Rows of a register. Two of them overlap where the tile has fewer rows than both."""
    vectors: int
    words: int
    """Words of the sum that one instruction takes, in each of `steps`."""
    steps: int
    adds: int
    """Whether the products are added to sums in memory."""
    is_alone: int
    """Whether it configures the registers and releases them."""
    left_bytes: int
    """From one row of the left operand to the next."""
    right_bytes: int
    """From one vector of columns of the right operand to the next."""
    sums_bytes: int
    """From one row of the sums to the next."""

    @property
    def name(self) -> str:
        return "_".join([_NAME, *map(str, astuple(self))])

    def in_llvm(self) -> str:
        """Return its LLVM IR. TVM inlines it: registers are named, since LLVM does not spill those that it allots."""
        text = "\\0A".join(self._instructions())
        operands = "=&r,=&r,=&r,r,r,r,r,r,0,1,2,~{memory},~{flags},~{dirflag},~{fpsr}"
        values = (
            f"ptr %sums, i64 {self.left_bytes}, i64 {SIDE * WORD_BYTES}, i64 {self.sums_bytes}, "
            f"ptr @{self.name}.shapes, ptr %left, ptr %right, i64 {self.steps}"
        )
        return f"""
@{self.name}.shapes = {_shapes(self.height, self.words)}
define linkonce_odr i32 @{self.name}(ptr %left, ptr %right, ptr %sums) alwaysinline {{
  %ends = call {{ ptr, ptr, i64 }} asm sideeffect "{text}", "{operands}"({values})
  ret i32 0
}}
"""

    def _instructions(self) -> list[str]:
        """Return the code: sums in tmm0 to tmm3, left operands in tmm4 and tmm5, right ones in tmm6 and tmm7."""
        left, right, steps, sums, left_stride, lanes, sums_stride, shapes = (f"${number}" for number in range(8))
        firsts = sorted({0, self.rows - self.height})
        memory = {
            (row, vector): f"{first * self.sums_bytes + vector * SIDE * WORD_BYTES}({sums},{sums_stride})"
            for row, first in enumerate(firsts)
            for vector in range(self.vectors)
        }
        registers = {block: f"%tmm{number}" for number, block in enumerate(memory)}
        start = [
            f"tileloadd {memory[block]}, {register}" if self.adds else f"tilezero {register}"
            for block, register in registers.items()
        ]
        step = []
        for vector in range(self.vectors):
            step.append(f"tileloadd {vector * self.right_bytes}({right},{lanes}), %tmm{6 + vector % 2}")
            for row, first in enumerate(firsts):
                if vector == 0:
                    step.append(f"tileloadd {first * self.left_bytes}({left},{left_stride}), %tmm{4 + row}")
                step.append(f"tdpbf16ps %tmm{6 + vector % 2}, %tmm{4 + row}, {registers[row, vector]}")
        next_step = [
            f"addq $${self.words * WORD_BYTES}, {left}",
            f"addq $${self.words * SIDE * WORD_BYTES}, {right}",
            f"decq {steps}",
            "jnz 1b",
        ]
        stores = [f"tilestored {register}, {memory[block]}" for block, register in registers.items()]
        code = [*start, "1:", *step, *next_step, *stores]
        return [f"ldtilecfg ({shapes})", *code, "tilerelease"] if self.is_alone else code


def function_in_llvm(name: str) -> str:
    """Return the LLVM IR of a function that a tile or a task calls; empty for another name."""
    if name == _RELEASE:
        return _assembly(name, 'asm sideeffect "tilerelease", "~{memory}"()')
    if match := re.fullmatch(_CONFIGURE + r"_(\d+)", name):
        code = f'asm sideeffect "ldtilecfg ($0)", "r,~{{memory}}"(ptr @{name}.shapes)'
        return f"@{name}.shapes = {_shapes(int(match.group(1)), SIDE)}" + _assembly(name, code)
    match = re.fullmatch(_NAME + r"((?:_\d+){10})", name)
    return _Sums(*map(int, match.group(1)[1:].split("_"))).in_llvm() if match else ""


def _assembly(name: str, code: str) -> str:
    return f"""
define linkonce_odr i32 @{name}() alwaysinline {{
  call void {code}
  ret i32 0
}}
"""
