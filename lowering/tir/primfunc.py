"""How TIR functions are built: buffers, one loop nest, one block inside it.

The PrimFunc has the shape that TVM's fusion and schedules recognise: a root block, serial loops (spatial ones first),
one block with its reads, writes, initial statement and source location. Knows no MLIR.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import Span
from mlirtri.lowering.tir.statements import index
from mlirtri.lowering.toolchain.tvm_names import (
    KERNEL_LOCATIONS,
    LOCATION,
    Buffer,
    Expr,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Stmt,
    read_write_region,
    tirx,
)

_RESERVED = frozenset({"R", "T", "I", "cls", "Module", "tvm", "metadata"})


class Names:
    """A source of unique identifiers that TVMScript can print."""

    def __init__(self, used: Iterable[str] = ()):
        self._used = set(used)
        self._counts: dict[str, int] = {}
        """By name, the number that was appended to it last."""

    def unique(self, name_hint: str) -> str:
        """Return `name_hint` as an identifier, with a number appended if it is taken."""
        base = re.sub(r"\W", "_", name_hint) or "value"
        if base[0].isdigit() or keyword.iskeyword(base) or base in _RESERVED:
            base = f"v_{base}"
        count = self._counts.get(base, 0)
        name = f"{base}_{count}" if count else base
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self._used.add(name)
        return name


@dataclass(frozen=True)
class LoopAxis:
    """One loop: its extent, and whether it is a reduction."""

    extent: int
    is_reduction: bool = False


@dataclass(frozen=True)
class Statements:
    """The statements of one iteration of a block, and the initial ones if it has reduction axes."""

    body: Any
    init: Any = None
    scratch: tuple = ()
    """One-element buffers that live for one iteration."""


def buffer(name: str, shape: Sequence[int], dtype: str, scope: str = "", alignment: int | None = None) -> Buffer:
    """Return a buffer; `alignment` is in bytes, None for TVM's own."""
    # A layout of None is what TVMScript and te give; FuseTIR refuses to mix it with the default one.
    return tirx.decl_buffer(
        [index(size) for size in shape], dtype, name, layout=None, scope=scope, data_alignment=alignment or -1
    )


def load(source: Buffer, indices: Sequence[Expr]) -> Expr:
    return tirx.BufferLoad(source, list(indices))


def store(target: Buffer, value: Expr, indices: Sequence[Expr]) -> Stmt:
    return tirx.BufferStore(target, value, list(indices))


def build(
    name: str,
    inputs: list,
    outputs: Sequence,
    axes: Sequence[LoopAxis],
    statements: Callable[[list], Statements],
    spans: Sequence[Span] = (),
) -> PrimFunc:
    """Return a PrimFunc over `inputs` and `outputs`; `statements` gets one block variable per axis of `axes`, in order.

    `inputs` is read after `statements` ran, which may append the buffers that it reads. The last of `spans` is the
    block's own, the others are those of the operations that it computes on the way.
    """
    # A block without axes cannot be bound to threads: as TVM does, give it one axis of extent 1.
    axes = list(axes) or [LoopAxis(1)]
    order = sorted(range(len(axes)), key=lambda n: axes[n].is_reduction)
    variables = [tirx.Var(f"v_{_letter(axis)}{n}", "int64") for n, axis in enumerate(axes)]
    loops = [tirx.Var(f"{_letter(axis)}{n}", "int64") for n, axis in enumerate(axes)]
    content = statements(variables)
    iterators = [_iterator(axes[n], variables[n]) for n in order]
    block = _block(name, iterators, content, [*inputs, *outputs], _annotations(spans))
    result = SBlockRealize([loops[n] for n in order], True, block)
    for n in reversed(order):
        result = tirx.For(loops[n], index(0), index(axes[n].extent), tirx.ForKind.SERIAL, result)
    root = SBlockRealize([], True, SBlock([], [], [], "root", result))
    return PrimFunc([*inputs, *outputs], root).with_attrs({"s_tir": True, "tirx.noalias": True})


def _annotations(spans: Sequence[Span]) -> dict[str, Any]:
    lines = [str(span) for span in spans]
    return ({LOCATION: lines[-1]} if lines else {}) | ({KERNEL_LOCATIONS: lines} if len(lines) > 1 else {})


def with_statements(function: PrimFunc, statements: Stmt) -> PrimFunc:
    """Return a PrimFunc with the parameters and attributes of `function` and with these statements as its body."""
    root = SBlockRealize([], True, SBlock([], [], [], "root", statements))
    return PrimFunc(list(function.params), root, function.ret_type, function.attrs)


def _letter(axis: LoopAxis) -> str:
    return "k" if axis.is_reduction else "i"


def _iterator(axis: LoopAxis, variable):
    kind = tirx.IterVar.CommReduce if axis.is_reduction else tirx.IterVar.DataPar
    return tirx.IterVar(Range(index(0), index(axis.extent)), variable, kind)


def _block(name: str, iterators: list, content: Statements, buffers: list, annotations: dict) -> SBlock:
    # The regions are found by TVM on a first block that has none.
    bare = SBlock(iterators, [], [], name, content.body, content.init)
    reads, writes = read_write_region(bare, {buffer: buffer for buffer in buffers})[:2]
    return SBlock(
        iterators, reads, writes, name, content.body, content.init, list(content.scratch), annotations=annotations
    )
