"""Products of 16-bit floats and bytes by instructions of four warps, which read shared memory (``sm_90a``).

A warpgroup, four warps, multiplies 64 rows at once, while its threads go on: the products of one step run while the
next one's tiles are awaited. Tiles are in the layout that the instructions know as swizzled by 128 bytes: lines of 128
bytes, in which the 16 bytes at place c of line n are at place ``c ^ n % 8``, so that eight lines are in different
banks. (PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlirtri.lowering.schedule.cuda.common.instructions import (
    PARTS,
    ROWS,
    Multiplication,
    address,
    barrier,
    call,
    function_of,
    wait_for_copies,
)
from mlirtri.lowering.schedule.cuda.tensor_cores.operands import Operand
from mlirtri.lowering.schedule.cuda.tensor_cores.tensor_core_kernel import BlockTile, TensorCoreKernel
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import Stmt, tirx

ARCHITECTURE_OF_GROUPS = "sm_90a"
"""The only one with these instructions; ``sm_90`` is the same device without what later ones lack."""
GROUP = 4
"""Warps of a warpgroup."""
WIDTHS = (64, 128, 256)
"""Columns of a tile."""
DEPTH = 4
"""Instructions along the sum in each step: their 32 bytes each are a line."""
GROUP_TILES = (
    BlockTile(128, 256, 8, 1, stages=4, k_instructions=DEPTH),
    BlockTile(128, 128, 8, 1, stages=4, k_instructions=DEPTH),
    BlockTile(64, 128, 4, 1, stages=4, k_instructions=DEPTH),
    BlockTile(64, 64, 4, 1, stages=4, k_instructions=DEPTH),
)
"""Tiles from the fewest reads per operation to the most blocks."""
LINE_BYTES, CHUNK_BYTES = 128, 16
"""Bytes of a line, and of what keeps together in it."""
EIGHT = 8
"""Lines after which the layout repeats."""
EIGHT_LINES = EIGHT * LINE_BYTES
_DESCRIPTION = f"""  auto tile = [](const void* from, int leading) {{
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(from));
    return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16
      | (unsigned long long)({EIGHT_LINES} >> 4) << 32 | 1ull << 62;
  }};
"""
"""A tile is described by its place, the bytes to the next column of lines and to the next eight lines, and a layout."""


def _multiply(
    kind: Multiplication, columns: int, across: tuple[bool, bool], sums: Any, left: list[Any], right: list[Any]
) -> Stmt:
    """Start to add the product of two tiles to a warpgroup's sums; `across` says whose lines are across the sum.

    A tile is given by its place and the bytes to the next column of lines, one in registers by its place alone.
    """
    count, is_held = columns // 2, len(left) == 1
    is_float = kind.sums == "float32"
    way = "h" if is_held else f"{across[0]:d}"
    name = f"mlirtri_group_multiply_{kind.name}_{columns}_{way}{across[1]:d}"
    sums_type, constraint = ("float", "f") if is_float else ("int", "r")
    registers = ", ".join(f"%{number}" for number in range(count))
    held = ", ".join(f'"+{constraint}"(sums[{number}])' for number in range(count))
    first = "const void* elements" if is_held else "const void* left, int left_leading"
    parameters = f"{sums_type}* sums, {first}, const void* right, int right_leading"
    parts = range(count, count + 4)
    left_operand = f"{{{', '.join(f'%{number}' for number in parts)}}}" if is_held else f"%{count}"
    given = ", ".join(f'"r"(left[{n}])' for n in range(4)) if is_held else '"l"(tile(left, left_leading))'
    # Integers are along the sum always, and not scaled.
    options = ["1", "1", "1", *([] if is_held else [f"{across[0]:d}"]), f"{across[1]:d}"] if is_float else ["1"]
    operands = f"{{{registers}}}, {left_operand}, %{parts[-1] + 1 if is_held else count + 1}, {', '.join(options)}"
    instruction = f"wgmma.mma_async.sync.aligned.m64n{columns}k{kind.depth}.{kind.of_groups}"
    code = f"""{function_of(name, parameters)} {{
{_DESCRIPTION}{PARTS if is_held else ""}  asm volatile("{instruction} "
    "{operands};"
    : {held}
    : {given}, "l"(tile(right, right_leading)));
}}
"""
    return call(name, code, sums, *left, *right)


def _instruction(name: str, text: str) -> Stmt:
    return call(f"mlirtri_{name}", f'{function_of(f"mlirtri_{name}", "")} {{\n  asm volatile("{text};");\n}}\n')


def _await_all(kind: Multiplication, count: int, sums: Any) -> Stmt:
    """Wait for all products of the warpgroup; the compiler learns that they have changed the sums."""
    name = f"mlirtri_await_products_{kind.sums}_{count}"
    sums_type, constraint = ("float", "f") if kind.sums == "float32" else ("int", "r")
    held = ", ".join(f'"+{constraint}"(sums[{number}])' for number in range(count))
    head = function_of(name, f"{sums_type}* sums")
    return call(name, f'{head} {{\n  asm volatile("wgmma.wait_group.sync.aligned 0;" : {held});\n}}\n', sums)


@dataclass(frozen=True)
class SwizzledOperand(Operand):
    """An operand whose tile is made of columns of lines of 128 bytes, swizzled."""

    instructions: int = 1
    """Instructions of a warpgroup along the kept axis: neighbours there are one warp's, 16 of each instruction."""

    @property
    def elements(self) -> int:
        return self.lines * self.length

    def place(self, line: Any, column: Any) -> Any:
        """Return where an element of the tile is; `column` is a multiple of what is copied at once."""
        line, column = (self._kept(line), column) if self.is_along else (line, self._kept(column))
        length, together = index(self.line), index(CHUNK_BYTES // self.kind.bytes)
        group, within = tirx.floordiv(column, length), tirx.floormod(column, length)
        chunk, rest = tirx.floordiv(within, together), tirx.floormod(within, together)
        narrow = [tirx.Cast("int32", each) for each in (chunk, tirx.floormod(line, index(EIGHT)))]
        # TVM knows no bounds of an exclusive or, and would compute the whole place in 64 bits.
        chunk = tirx.Cast("int64", tirx.floormod(tirx.bitwise_xor(*narrow), tirx.IntImm("int32", EIGHT)))
        return (group * index(self.lines) + line) * length + chunk * together + rest

    @property
    def line(self) -> int:
        """Return the elements of a line of the layout."""
        return LINE_BYTES // self.kind.bytes

    def _kept(self, position: Any) -> Any:
        """Return where a position of the kept axis is, in the order of instructions."""
        count = self.instructions
        if count == 1:
            return position
        group, within = tirx.floordiv(position, index(GROUP * ROWS * count)), tirx.floordiv(position, index(ROWS))
        warp, instruction = tirx.floordiv(within, index(count)), tirx.floormod(within, index(count))
        part = (group * index(count) + instruction) * index(GROUP) + tirx.floormod(warp, index(GROUP))
        return part * index(ROWS) + tirx.floormod(position, index(ROWS))

    def start(self, first: Any, along: int) -> Any:
        """Return where the part of a tile begins that has `first` of the kept axis, `along` of the sum; in elements."""
        line, column = (first, index(along)) if self.is_along else (index(along), first)
        length = index(self.line)
        group, within = tirx.floordiv(column, length), tirx.floormod(column, length)
        return (group * index(self.lines) + line) * length + within

    @property
    def leading(self) -> int:
        """Return the bytes from a column of lines to the next one."""
        return self.lines * LINE_BYTES


class WarpgroupKernel(TensorCoreKernel):
    """The statements of a product by instructions of warpgroups, which divide the rows of a block's tile."""

    operand_type = SwizzledOperand
    alignment = EIGHT_LINES

    def _registers(self) -> list[Any]:
        self.left = replace(self.left, instructions=self.instructions_down)
        return []

    @property
    def _ahead(self) -> int:
        # The products of the last step may still read its tiles: those of the step before it are free.
        return self.tile.stages - 2

    def _step(self, step: Any) -> Any:
        waiting = [wait_for_copies(self._ahead - 1)] if self._copies_async else []
        slot = tirx.floormod(step, index(self.tile.stages))
        return sequence(
            *waiting,
            *self.show_tiles(),
            barrier(),
            *self.start_products(slot),
            self._start_copies(step + index(self._ahead)),
            _instruction("await_products_but_1", "wgmma.wait_group.sync.aligned 1"),
        )

    def show_tiles(self) -> list[Stmt]:
        # What this thread has copied is to be seen by instructions, too, which read memory their own way.
        return [_instruction("show_tiles", "fence.proxy.async.shared::cta")]

    def start_products(self, slot: Any) -> list[Stmt]:
        """Return the statements that start the products of the tiles in a slot."""
        return [
            _instruction("order_sums", "wgmma.fence.sync.aligned"),
            *(
                self._multiply_rows(slot, part, number)
                for part in range(self.tile.k_instructions)
                for number in range(self.instructions_down)
            ),
            _instruction("commit_products", "wgmma.commit_group.sync.aligned"),
        ]

    def _multiply_rows(self, slot: Any, part: int, number: int) -> Any:
        """Return instruction `number` of a warpgroup, of those for one depth of this step."""
        across = not self.left.is_along, not self.right.is_along
        count = self.tile.columns // 2
        sums = address(self.sums, index(number * count), count)
        left, right = self._left_part(slot, part, number), self._part(1, slot, index(0), part)
        return _multiply(self.kind, self.tile.columns, across, sums, left, right)

    def _left_part(self, slot: Any, part: int, number: int) -> list[Any]:
        group = tirx.floordiv(self.warp, index(GROUP)) * index(self.instructions_down) + index(number)
        return self._part(0, slot, group * index(GROUP * ROWS), part)

    def _part(self, side: int, slot: Any, first: Any, part: int) -> list[Any]:
        """Return the place of one instruction's part of a tile, from `first` on, and the bytes between its columns."""
        operand, (memory, offset) = (self.left, self.right)[side], self._tile_place(slot, side)
        start = offset + operand.start(first, part * self.kind.depth)
        return [address(memory, start, CHUNK_BYTES // self.kind.bytes), tirx.IntImm("int32", operand.leading)]

    def _finish(self) -> list[Stmt]:
        count = int(self.sums.shape[0])
        return [_await_all(self.kind, count, address(self.sums, index(0), count))]
