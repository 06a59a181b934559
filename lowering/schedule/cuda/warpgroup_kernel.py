"""Products of 16-bit floats by instructions of four warps, which read both operands from shared memory (``sm_90a``).

A warpgroup, four warps, multiplies 64 rows at once, while its threads go on: the products of one step run while the
next one's tiles are awaited. Tiles are in the layout that the instructions know as swizzled by 128 bytes: lines of 128
bytes, in which the 16 bytes at place c of line n are at place ``c ^ n % 8``, so that eight lines are in different
banks. (PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlirtri.lowering.schedule.cuda.instructions import (
    ROWS,
    Multiplication,
    address,
    barrier,
    call,
    function_of,
    wait_for_copies,
)
from mlirtri.lowering.schedule.cuda.operands import Operand
from mlirtri.lowering.schedule.cuda.tensor_core_kernel import BlockTile, TensorCoreKernel
from mlirtri.lowering.tir.statements import index, sequence
from mlirtri.lowering.toolchain.tvm_names import Stmt, tirx

ARCHITECTURE_OF_GROUPS = "sm_90a"
"""The only one with these instructions; ``sm_90`` is the same device without what later ones lack."""
GROUP = 4
"""Warps of a warpgroup."""
WIDTHS = (64, 128, 256)
"""Columns of a tile."""
DEPTH = 4
"""Instructions along the sum in each step: 64 elements are a line."""
GROUP_TILES = (
    BlockTile(128, 256, 8, 1, stages=4, k_instructions=DEPTH),
    BlockTile(128, 128, 8, 1, stages=4, k_instructions=DEPTH),
    BlockTile(64, 128, 4, 1, stages=4, k_instructions=DEPTH),
    BlockTile(64, 64, 4, 1, stages=4, k_instructions=DEPTH),
)
"""Tiles from the fewest reads per operation to the most blocks."""
OPERANDS = {"float16": "f16", "bfloat16": "bf16"}
"""PTX's names of the dtypes that these instructions take in any layout."""
LINE, CHUNK = 64, 8
"""Elements of a line of 128 bytes, and of the 16 bytes that keep together."""
EIGHT_LINES = 1024
"""Bytes of eight lines, of which the layout is made."""


def _multiply(kind: Multiplication, columns: int, across: tuple[bool, bool], sums: Any, tiles: list[Any]) -> Stmt:
    """Start to add the product of two tiles to a warpgroup's sums; `across` says whose lines are across the sum."""
    count = columns // 2
    name = f"mlirtri_group_multiply_{kind.name}_{columns}_{across[0]:d}{across[1]:d}"
    registers = ", ".join(f"%{number}" for number in range(count))
    held = ", ".join(f'"+f"(sums[{number}])' for number in range(count))
    operand = OPERANDS[kind.dtype]
    parameters = "float* sums, const void* left, int left_leading, const void* right, int right_leading"
    # A tile is described by its place, the bytes to the next column of lines and to the next eight lines, and a layout.
    code = f"""{function_of(name, parameters)} {{
  auto tile = [](const void* from, int leading) {{
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(from));
    return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16
      | (unsigned long long)({EIGHT_LINES} >> 4) << 32 | 1ull << 62;
  }};
  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{operand}.{operand} "
    "{{{registers}}}, %{count}, %{count + 1}, 1, 1, 1, {across[0]:d}, {across[1]:d};"
    : {held}
    : "l"(tile(left, left_leading)), "l"(tile(right, right_leading)));
}}
"""
    return call(name, code, sums, *tiles)


def _instruction(name: str, text: str) -> Stmt:
    return call(f"mlirtri_{name}", f'{function_of(f"mlirtri_{name}", "")} {{\n  asm volatile("{text};");\n}}\n')


def _await_all(count: int, sums: Any) -> Stmt:
    """Wait for all products of the warpgroup; the compiler learns that they have changed the sums."""
    name = f"mlirtri_await_products_{count}"
    held = ", ".join(f'"+f"(sums[{number}])' for number in range(count))
    text = f'{function_of(name, "float* sums")} {{\n  asm volatile("wgmma.wait_group.sync.aligned 0;" : {held});\n}}\n'
    return call(name, text, sums)


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
        group, within = tirx.floordiv(column, index(LINE)), tirx.floormod(column, index(LINE))
        chunk, rest = tirx.floordiv(within, index(CHUNK)), tirx.floormod(within, index(CHUNK))
        narrow = [tirx.Cast("int32", each) for each in (chunk, tirx.floormod(line, index(CHUNK)))]
        # TVM knows no bounds of an exclusive or, and would compute the whole place in 64 bits.
        chunk = tirx.Cast("int64", tirx.floormod(tirx.bitwise_xor(*narrow), tirx.IntImm("int32", CHUNK)))
        return (group * index(self.lines) + line) * index(LINE) + chunk * index(CHUNK) + rest

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
        return (tirx.floordiv(column, index(LINE)) * index(self.lines) + line) * index(LINE) + tirx.floormod(
            column, index(LINE)
        )

    @property
    def leading(self) -> int:
        """Return the bytes from a column of lines to the next one."""
        return self.lines * LINE * self.kind.bytes


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
            # What this thread has copied is to be seen by instructions, too, which read memory their own way.
            _instruction("show_tiles", "fence.proxy.async.shared::cta"),
            barrier(),
            _instruction("order_sums", "wgmma.fence.sync.aligned"),
            *(
                self._multiply_rows(slot, part, number)
                for part in range(self.tile.k_instructions)
                for number in range(self.instructions_down)
            ),
            _instruction("commit_products", "wgmma.commit_group.sync.aligned"),
            self._start_copies(step + index(self._ahead)),
            _instruction("await_products_but_1", "wgmma.wait_group.sync.aligned 1"),
        )

    def _multiply_rows(self, slot: Any, part: int, number: int) -> Any:
        """Return instruction `number` of a warpgroup, of those for one depth of this step."""
        group = tirx.floordiv(self.warp, index(GROUP)) * index(self.instructions_down) + index(number)
        operands, firsts = (self.left, self.right), (group * index(GROUP * ROWS), index(0))
        tiles: list[Any] = []
        for side, (operand, first) in enumerate(zip(operands, firsts, strict=True)):
            start = self._tile_offset(slot, side) + operand.start(first, part * self.kind.depth)
            tiles += [address(self.tiles, start, CHUNK), tirx.IntImm("int32", operand.leading)]
        across = not self.left.is_along, not self.right.is_along
        count = self.tile.columns // 2
        sums = address(self.sums, index(number * count), count)
        return _multiply(self.kind, self.tile.columns, across, sums, tiles)

    def _finish(self) -> list[Stmt]:
        count = int(self.sums.shape[0])
        return [_await_all(count, address(self.sums, index(0), count))]
