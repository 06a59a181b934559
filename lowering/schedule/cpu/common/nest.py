"""The loop nest of a block over flat buffers, from which the CPU's rules write their loops.

A `FlatNest` has the axes longer than 1, fused where memory is contiguous along both, and one linear index per access
where there is one. `unflattened` gives statements with the buffers' own indices again.

    for i, j: out[i, j] = x[i, j] + b[j]       ──►   axes i, j;   out[50 * i + j] = x[50 * i + j] + b[j]
    for i, j: out[i, j] = x[i, j] + 1          ──►   axis ij;     out[ij] = x[ij] + 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.tir.blocks import BlockFacts, NotApplicableError, stores_bf16_constant
from mlirtri.lowering.tir.linear_forms import linear
from mlirtri.lowering.tir.statements import (
    Access,
    depends_on,
    fresh,
    index,
    loads_in,
    sequence,
    simplified,
    with_accesses,
)
from mlirtri.lowering.toolchain.tvm_names import (
    Analyzer,
    Buffer,
    Expr,
    Node,
    PrimFunc,
    Range,
    SBlock,
    SBlockRealize,
    Schedule,
    Stmt,
    TensorLoad,
    Var,
    structural_map,
    structural_walk,
    tirx,
    with_values,
)

MIN_LANES = 4
"""Elements of a vector, or iterations, below which a loop is left to LLVM."""
COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


@dataclass(frozen=True)
class NestAxis:
    """One loop of a nest."""

    variable: Var
    extent: int
    is_reduction: bool


@dataclass(frozen=True)
class FlatAccess:
    """One load or store of a buffer that is allocated outside of the nest."""

    buffer: Buffer
    """The flat buffer that stands for it."""
    offset: Expr
    """The flat index."""
    is_store: bool

    def step(self, variable: Var) -> int | None:
        """Return the stride along an axis, in elements; None where it is not known."""
        form = linear(self.offset, {})
        if form is not None:
            return form.factor(variable)
        forms, nonlinear = _parts(self.offset)
        if any(depends_on(summand, [variable]) for summand in nonlinear):
            return None
        return sum(form.factor(variable) for form in forms)


@dataclass(frozen=True)
class FlatNest:
    """Loops around statements; `init` runs before the first iteration of the reduction axes."""

    name: str
    axes: tuple[NestAxis, ...]
    body: Stmt
    init: Stmt | None
    flat: Mapping[Buffer, Buffer]
    """By flat buffer, the buffer that it stands for."""
    vectorizes: bool
    """False where TVM cannot make vector code of the statements."""
    inner: tuple[Buffer, ...]
    """Flat buffers of the function's own allocations: TVM may let two of them share memory."""
    narrowed: tuple[Buffer, ...] = ()
    """Flat buffers of fp64 results that are read as fp32 only."""

    @property
    def spatial(self) -> tuple[NestAxis, ...]:
        return tuple(axis for axis in self.axes if not axis.is_reduction)

    @property
    def reduced(self) -> tuple[NestAxis, ...]:
        return tuple(axis for axis in self.axes if axis.is_reduction)

    @property
    def iterations(self) -> int:
        return prod(axis.extent for axis in self.axes)

    @property
    def accesses(self) -> tuple[FlatAccess, ...]:
        return accesses_in(self.body, self.flat)

    @property
    def written(self) -> list[Buffer]:
        """The flat buffers that are stored to, in order."""
        return list(dict.fromkeys(access.buffer for access in self.accesses if access.is_store))

    @property
    def operands(self) -> list[FlatAccess]:
        """The loads of buffers that the nest does not write."""
        written = self.written
        return [access for access in self.accesses if not access.is_store and access.buffer not in written]


def nest_of(schedule: Schedule, block: BlockFacts) -> FlatNest:
    """Return the nest of a leaf block whose axes all have static extents; raise `ValueError` for a block with views."""
    sblock = schedule.get(block.handle)
    parts = [statement for statement in (sblock.body, sblock.init) if statement is not None]
    if len(sblock.match_buffers):
        raise NotApplicableError(f"block {block.name} has views")
    flat: dict[Any, Any] = {}
    outer_buffers = _buffers_in(parts, sblock.alloc_buffers)
    for buffer in outer_buffers:
        size = prod(int(extent) for extent in buffer.ty.shape)
        flat[buffer] = tirx.decl_buffer([index(size)], buffer.dtype, buffer.name, layout=None)
    analyzer = Analyzer()
    for axis in sblock.iter_vars:
        analyzer.bind(axis.var, Range(index(0), index(int(axis.dom.extent))))
    body, init = (None if part is None else _flattened(part, flat, analyzer) for part in (sblock.body, sblock.init))
    if init is not None and block.is_spatial:  # an update without reduction axes: initialised and updated at once
        body, init = sequence(init, body), None
    body = fresh(sequence(*(tirx.AllocBuffer(buffer) for buffer in sblock.alloc_buffers), body))
    axes = tuple(
        NestAxis(axis.var, int(axis.dom.extent), kind == "R")
        for axis, kind in zip(sblock.iter_vars, block.kinds, strict=True)
    )
    stand_ins = {stand_in: buffer for buffer, stand_in in flat.items()}
    allocated = schedule.get(schedule.get_sblock("root")).alloc_buffers
    inner = tuple(
        flat[buffer] for buffer in outer_buffers if any(buffer.same_as(allocation) for allocation in allocated)
    )
    root = schedule.get(schedule.get_sblock("root")).body
    narrowed = tuple(buffer for buffer in inner if _is_narrowed(stand_ins[buffer], sblock, root))
    nest = FlatNest(block.name, axes, body, init, stand_ins, not stores_bf16_constant(sblock), inner, narrowed)
    return _joined(_ordered(_without_units(nest)))


def _is_narrowed(buffer: Buffer, block: Any, function: PrimFunc) -> bool:
    """Return whether every load of an fp64 buffer outside of the block that writes it is cast to fp32."""
    if str(buffer.dtype) != "float64":
        return False
    casts: list[Any] = []

    def cast(node: Node) -> None:
        if str(node.ty.dtype) == "float32" and isinstance(node.value, TensorLoad) and node.value.source.same_as(buffer):
            casts.append(node)

    structural_walk(function, (tirx.Cast, cast), order="pre")
    loads, inner_loads = (
        [load for load in loads_in(part) if load.source.same_as(buffer)] for part in (function, block)
    )
    return bool(casts) and len(loads) - len(inner_loads) == len(casts)


def lanes_of(nest: FlatNest, buffers: Iterable[Buffer]) -> int:
    """Return the lanes of a register of the widest element, taken as 32 bits or more; 1 where vectors are ruled out."""
    return lanes_in_register(*(int(buffer.dtype.bits) for buffer in buffers), least_bits=32) if nest.vectorizes else 1


def function_of(
    schedule: Schedule, function: PrimFunc, statements: Iterable[Stmt], flat: Mapping[Buffer, Buffer]
) -> PrimFunc:
    """Return the scheduled function with other statements, which access its flat buffers."""
    root = schedule.get(schedule.get_sblock("root"))
    body = unflattened(fresh(sequence(*statements)), flat)
    block = SBlock([], [], [], "root", body, None, root.alloc_buffers)
    return PrimFunc(function.params, SBlockRealize([], True, block), function.ret_type, function.attrs)


def accesses_in(statement: Stmt, flat: Mapping[Buffer, Buffer]) -> tuple[FlatAccess, ...]:
    """Return the loads and stores of flat buffers in a statement."""
    accesses: list[FlatAccess] = []

    def load(node: Node) -> None:
        if node.source in flat:
            accesses.append(FlatAccess(node.source, node.indices[0], False))

    def store(node: Node) -> None:
        if node.buffer in flat:
            accesses.append(FlatAccess(node.buffer, node.indices[0], True))

    structural_walk(statement, [(TensorLoad, load), (tirx.BufferStore, store)], order="pre")
    return tuple(accesses)


def unflattened(statement: Stmt, flat: Mapping[Buffer, Buffer]) -> Stmt:
    """Return the statement on the buffers themselves, with their own indices."""
    analyzer = Analyzer()

    def bound(loop: Stmt) -> None:
        analyzer.bind(loop.loop_var, Range(index(0), loop.extent))

    def named(node: Node) -> Any:
        if isinstance(node.value, tirx.Min) and isinstance(node.value.b, tirx.IntImm):
            analyzer.bind(node.var, Range(index(0), index(node.value.b.value + 1)))

    structural_walk(statement, [(tirx.For, bound), (tirx.Bind, named)], order="pre")

    def access(stand_in: Buffer, indices: Sequence[Expr]) -> Access:
        buffer = flat.get(stand_in)
        return None if buffer is None else (buffer, _indices(indices[0], buffer, analyzer))

    return with_accesses(statement, access)


def _indices(offset: Expr, buffer: Buffer, analyzer: Analyzer) -> list[Any]:
    shape = [int(extent) for extent in buffer.ty.shape]
    if not shape:
        return []
    indices = []
    for extent in reversed(shape[1:]):  # innermost first: each quotient is a sum of whole multiples again
        indices.append(analyzer.simplify(tirx.floormod(offset, index(extent))))
        offset = analyzer.simplify(tirx.floordiv(offset, index(extent)))
    return [analyzer.simplify(offset), *reversed(indices)]


def _buffers_in(parts: Sequence[Any], inner: Sequence[Any]) -> list[Any]:
    buffers: dict[Any, None] = {}

    def load(node: Node) -> None:
        buffers[node.source] = None

    def store(node: Node) -> None:
        buffers[node.buffer] = None

    for part in parts:
        structural_walk(part, [(TensorLoad, load), (tirx.BufferStore, store)], order="pre")
    return [buffer for buffer in buffers if not any(buffer.same_as(allocation) for allocation in inner)]


def _flattened(statement: Stmt, flat: Mapping[Any, Any], analyzer: Analyzer) -> Any:
    def access(buffer: Buffer, indices: Sequence[Any]) -> Access:
        if buffer not in flat:
            return None
        offset: Any = index(0)
        for extent, position in zip(buffer.ty.shape, indices, strict=True):
            offset = offset * index(int(extent)) + position
        return flat[buffer], [analyzer.simplify(offset)]

    def comparison(node: Node) -> Any:
        if not str(getattr(node.a, "ty", "")).startswith("int") or loads_in(node):
            return node
        return type(node)(analyzer.simplify(node.a), analyzer.simplify(node.b))

    def cast(node: Node) -> Any:
        return _unwrapped(node, analyzer)

    return with_accesses(statement, access, (tirx.Cast, cast), *((kind, comparison) for kind in COMPARISONS))


def _unwrapped(cast: Any, analyzer: Analyzer) -> Any:
    """Return a wrapping sum or product of indices (`arithmetic.wrapped`) that does not wrap without its casts."""
    node = cast.value
    if str(cast.ty) != "int64" or not isinstance(node, tirx.Add | tirx.Mul) or str(node.ty) != "int128":
        return cast
    if not all(isinstance(operand, tirx.Cast) and str(operand.value.ty) == "int64" for operand in (node.a, node.b)):
        return cast
    plain = type(node)(node.a.value, node.b.value)
    bounds = [analyzer.const_int_bound(operand) for operand in (plain.a, plain.b)]
    first, second = (int(bound.max_value) for bound in bounds)
    most = first + second if isinstance(node, tirx.Add) else first * second
    return plain if most < 2**62 and all(int(bound.min_value) >= 0 for bound in bounds) else cast


def _without_units(nest: FlatNest) -> FlatNest:
    units = {axis.variable: index(0) for axis in nest.axes if axis.extent == 1}
    axes = tuple(axis for axis in nest.axes if axis.extent != 1)
    return replace(substituted_nest(nest, units), axes=axes) if units else nest


def substituted_nest(nest: FlatNest, values: Mapping[Var, Expr]) -> FlatNest:
    """Return the nest with expressions in place of some axes' variables; its axes stay as they are."""
    analyzer = Analyzer()
    for axis in nest.axes:
        analyzer.bind(axis.variable, Range(index(0), index(axis.extent)))

    def replaced(part: Any) -> Any:
        if part is None:
            return None
        part = with_values(part, values)
        return with_accesses(part, access)

    def access(buffer: Buffer, indices: Sequence[Any]) -> Access:
        return (buffer, [analyzer.simplify(indices[0])]) if buffer in nest.flat else None

    return replace(nest, body=replaced(nest.body), init=replaced(nest.init))


def _ordered(nest: FlatNest) -> FlatNest:
    """Return the nest with spatial axes ordered by the results' strides, and reduced ones by the operands'."""
    accesses = nest.accesses
    stores = [access for access in accesses if access.is_store]
    loads = [access for access in accesses if not access.is_store] or stores

    def key(axis: NestAxis) -> int:
        steps = [access.step(axis.variable) for access in (loads if axis.is_reduction else stores)]
        return -max((abs(step) for step in steps if step is not None), default=0)

    return replace(nest, axes=(*sorted(nest.spatial, key=key), *sorted(nest.reduced, key=key)))


def _joined(nest: FlatNest) -> FlatNest:
    """Return the nest with neighbouring axes fused where every access is contiguous along both."""
    for outer, inner in zip(nest.axes, nest.axes[1:], strict=False):
        if outer.is_reduction != inner.is_reduction or not _runs_through(nest, outer, inner):
            continue
        both = NestAxis(
            tirx.Var(outer.variable.name, outer.variable.ty), outer.extent * inner.extent, outer.is_reduction
        )
        values = {outer.variable: index(0), inner.variable: both.variable}
        axes = tuple(both if axis is outer else axis for axis in nest.axes if axis is not inner)
        nest = replace(
            nest,
            body=_with_positions(nest.body, outer, inner, lambda position: simplified(with_values(position, values))),
        )
        return _joined(replace(substituted_nest(replace(nest, axes=axes), values), axes=axes))
    return nest


def _runs_through(nest: FlatNest, outer: NestAxis, inner: NestAxis) -> bool:
    variables = [outer.variable, inner.variable]
    without = _with_positions(_without_offsets(nest.body, nest.flat), outer, inner, lambda _: index(0))
    if depends_on(without, variables):
        return False
    if nest.init is not None and depends_on(_without_offsets(nest.init, nest.flat), variables):
        return False
    accesses = nest.accesses if nest.init is None else (*nest.accesses, *accesses_in(nest.init, nest.flat))
    for access in accesses:
        form = linear(access.offset, {})
        if form is None and depends_on(access.offset, variables):
            return False
        if form is not None and form.factor(outer.variable) != form.factor(inner.variable) * inner.extent:
            return False
    return True


def _with_positions(statement: Stmt, outer: NestAxis, inner: NestAxis, position: Callable[[Expr], Expr]) -> Any:
    """Return the statement with others in place of the sums that go through both axes as through a single one."""

    def added(node: Node) -> Any:
        form = linear(node, {})
        factor = 0 if form is None else form.factor(inner.variable)
        return position(node) if factor and form.factor(outer.variable) == factor * inner.extent else node

    return structural_map(statement, (tirx.Add, added), order="post")


def _without_offsets(statement: Stmt, flat: Mapping[Any, Any]) -> Any:
    return with_accesses(statement, lambda buffer, _: (buffer, [index(0)]) if buffer in flat else None)


def _parts(offset: Expr) -> tuple[list[Any], list[Any]]:
    """Return the summands of an index: the linear forms of those that have one, and the others."""
    if isinstance(offset, tirx.Add):
        first, second = _parts(offset.a), _parts(offset.b)
        return first[0] + second[0], first[1] + second[1]
    form = linear(offset, {})
    return ([form], []) if form is not None else ([], [offset])
