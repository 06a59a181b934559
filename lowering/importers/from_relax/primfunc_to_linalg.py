"""Inline a call of a PrimFunc as linalg on tensors: blocks become generics, other statements loops.

Takes an unscheduled PrimFunc, the tensors and scalars that it is called with, and the sizes of its results. Gives the
tensors of its outputs. A block of axes becomes a `linalg.generic` whose indexing maps are its loads; a load that no map
expresses becomes a `tensor.extract` in the body. Everything else becomes `scf` on tensors
(`primfunc_statements.py`). Accesses stay in bounds: an index that TVM would not check is clamped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mlirtri.dialect.base.sizes import DYNAMIC
from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import arith, ir, linalg, tensor
from mlirtri.errors import KernelError, UnsupportedOperationError
from mlirtri.lowering.importers.from_relax.primfunc_copies import copied
from mlirtri.lowering.importers.from_relax.primfunc_nests import (
    AffineIndex,
    Nest,
    affine_index_of,
    bind_axes,
    loads_in,
    nest_of,
    statements_of,
)
from mlirtri.lowering.importers.from_relax.tir_to_scalar import Scalars, dtype_of, mlir_type
from mlirtri.lowering.mlir.index_values import index_constant
from mlirtri.lowering.mlir.linalg_builder import generic
from mlirtri.lowering.toolchain.tvm_attributes import LOCATION
from mlirtri.lowering.toolchain.tvm_names import Analyzer, PrimFunc, SBlockRealize, TensorLoad, tirx
from mlirtri.lowering.toolchain.tvm_passes import span_of

Size = int | ir.Value


class Frame:
    """The state of one call: the tensor that each buffer of the PrimFunc holds now."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.scalars = Scalars(self.load, self.analyzer)
        self.tensors: dict[Any, ir.Value] = {}

    # --- sizes -----------------------------------------------------------------------------------------------------

    def bind_sizes(self, buffer: Any, sizes: Sequence[Size]) -> None:
        """Bind the variables in a buffer's shape to these sizes."""
        if len(buffer.strides or ()):
            raise UnsupportedOperationError(
                f"the buffer {buffer.name} has strides",
                help="tensors of linalg are contiguous: leave the strides out",
            )
        for size, known in zip(buffer.shape, sizes, strict=True):
            if isinstance(size, tirx.Var) and size not in self.scalars.indices:
                value = known if isinstance(known, ir.Value) else index_constant(known)
                self.scalars.indices[size] = value

    def size(self, extent: Any) -> Size:
        """Return an extent, as an int where it is constant."""
        return int(extent.value) if isinstance(extent, tirx.IntImm) else self.scalars.index(extent)

    def allocate(self, buffer: Any) -> None:
        """Give a buffer an uninitialised tensor."""
        sizes = [self.size(extent) for extent in buffer.shape]
        self.tensors[buffer] = tensor.empty(sizes, mlir_type(str(buffer.dtype)))

    # --- elements --------------------------------------------------------------------------------------------------

    def load(self, buffer: Any, indices: Sequence[Any]) -> ir.Value:
        """Return an element of a buffer."""
        if buffer not in self.tensors:
            raise UnsupportedOperationError(f"the buffer {buffer.name} is memory that the function does not own")
        return tensor.extract(self.tensors[buffer], self.inside(buffer, indices)[0])

    def inside(self, buffer: Any, indices: Sequence[Any]) -> tuple[list[ir.Value], ir.Value | None]:
        """Return the indices clamped to the buffer, and an i1 whether they were in bounds (None if proven)."""
        kept, within = [], None
        for index, extent in zip(indices, buffer.shape, strict=True):
            value = self.scalars.index(index)
            is_safe = self.scalars.least(index) >= 0, self.scalars.is_below(index, extent)
            if not all(is_safe):
                high = arith.subi(self.scalars.index(extent), index_constant(1))
                # As unsigned, a negative index is too large, too.
                clamped = arith.minui(value, high)
                is_inside = arith.cmpi(arith.CmpIPredicate.eq, value, clamped)
                within = is_inside if within is None else arith.andi(within, is_inside)
                value = clamped
            kept.append(value)
        return kept, within

    # --- statements ------------------------------------------------------------------------------------------------

    def run(self, statement: Any) -> None:
        """Emit a statement of the function's own body, each block as one structured operation where possible."""
        for inner in statements_of(statement):
            if isinstance(inner, SBlockRealize) and not inner.block.iter_vars and inner.block.init is None:
                with located(inner.block):
                    self.run_plain_block(inner.block)
                continue
            if (nest := nest_of(inner, self.analyzer)) is not None:
                with located(nest.block):
                    emit_nest(self, nest)
                continue
            from mlirtri.lowering.importers.from_relax.primfunc_statements import run_statement

            run_statement(self, inner)

    def run_plain_block(self, block: Any) -> None:
        """Emit a block without axes: its allocations and its body."""
        if block.match_buffers:
            raise UnsupportedOperationError("a block with match_buffer has no counterpart in linalg")
        for buffer in block.alloc_buffers:
            self.allocate(buffer)
        self.run(block.body)


def inline(
    function: PrimFunc, arguments: Sequence[ir.Value], results: Sequence[Sequence[Size]], updates: Sequence[int] = ()
) -> list[ir.Value]:
    """Return the tensors of the outputs of `function` after a call.

    `results` has the sizes of each output; `updates` the argument that an output shares its memory with, or -1.
    """
    frame = Frame()
    parameters = list(function.params)
    inputs, outputs = parameters[: len(arguments)], parameters[len(arguments) :]
    for parameter, argument in zip(inputs, arguments, strict=True):
        _bind(frame, parameter, argument)
    shared = list(updates) or [-1] * len(results)
    own = iter(outputs)
    targets = [inputs[position] if position >= 0 else next(own) for position in shared]
    for target, sizes in zip(targets, results, strict=True):
        if target not in frame.tensors:
            frame.bind_sizes(target, sizes)
            frame.allocate(target)
    frame.run(function.body)
    return [frame.tensors[target] for target in targets]


def _bind(frame: Frame, parameter: Any, argument: ir.Value) -> None:
    if not isinstance(argument.type, ir.RankedTensorType):
        frame.scalars.variables[parameter] = argument
        return
    sizes = [
        tensor.dim(argument, index_constant(axis)) if size == DYNAMIC else size
        for axis, size in enumerate(argument.type.shape)
    ]
    frame.bind_sizes(parameter, sizes)
    frame.tensors[parameter] = argument


@contextmanager
def located(block: Any) -> Iterator[None]:
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


# --- a block as one operation ----------------------------------------------------------------------------------------


def emit_nest(frame: Frame, nest: Nest) -> None:
    """Emit a nest as a `linalg.generic`, after the initial values of a reduction."""
    bind_axes(nest, frame.analyzer)
    for buffer in nest.outputs:
        if buffer not in frame.tensors:
            raise UnsupportedOperationError(f"the buffer {buffer.name} is memory that the function does not own")
    if (moved := copied(nest, frame.tensors)) is not None:
        frame.tensors |= dict.fromkeys(nest.outputs, moved)
        return
    inits = [_initial(frame, nest, buffer) for buffer in nest.outputs]
    loads = _affine_loads(frame, nest)
    maps = [_map(nest, load_[1]) for load_ in loads]
    inputs = [frame.tensors[load_[0]] for load_ in loads]
    if window := _unseen_reductions(nest, maps):
        sizes = [frame.size(nest.axes[position].dom.extent) for position in window]
        inputs.append(tensor.empty(sizes, ir.F32Type.get()))
        maps.append(_map(nest, tuple(AffineIndex(((position, 1),)) for position in window)))
    maps += [_map(nest, indices) for indices in nest.outputs.values()]
    kinds = ["reduction" if nest.is_reduction(position) else "parallel" for position in range(len(nest.axes))]

    def body(*elements: ir.Value) -> list[ir.Value]:
        known = dict(zip(loads, elements, strict=False))
        known |= dict(zip(nest.outputs.items(), elements[len(inputs) :], strict=True))
        return _body(frame, nest, nest.statements, known)

    results = generic(inputs, inits, maps, kinds, body)
    for buffer, result in zip(nest.outputs, results, strict=True):
        frame.tensors[buffer] = result


def _initial(frame: Frame, nest: Nest, buffer: Any) -> ir.Value:
    """Return the initial value of a block's output: the buffer's current tensor, or what the init writes."""
    if nest.block.init is None:
        return frame.tensors[buffer] if buffer in nest.updated else _fresh(frame, buffer)
    stores = [store for store in statements_of(nest.block.init) if store.buffer.same_as(buffer)]
    if len(stores) == 1 and not loads_in(stores) and isinstance(stores[0].value, (tirx.IntImm, tirx.FloatImm)):
        return linalg.fill(frame.scalars.evaluate(stores[0].value), outs=[_fresh(frame, buffer)])
    kept = [position for position in range(len(nest.axes)) if not nest.is_reduction(position)]
    spatial = Nest(nest.block, stores, [nest.axes[position] for position in kept], single=nest.single)
    indices = tuple(
        AffineIndex(tuple((kept.index(position), factor) for position, factor in index.terms))
        for index in nest.outputs[buffer]
    )

    def body(*_: ir.Value) -> list[ir.Value]:
        return _body(frame, spatial, stores, {}, [buffer])

    maps = [_map(spatial, indices)]
    return generic([], [_fresh(frame, buffer)], maps, ["parallel"] * len(kept), body)[0]


def _fresh(frame: Frame, buffer: Any) -> ir.Value:
    kind = frame.tensors[buffer].type
    sizes = [frame.size(extent) for extent in buffer.shape]
    static = [known if known != DYNAMIC else size for known, size in zip(kind.shape, sizes, strict=True)]
    return tensor.empty(static, kind.element_type)


def _affine_loads(frame: Frame, nest: Nest) -> list[tuple[Any, tuple[AffineIndex, ...]]]:
    """Return the distinct loads that indexing maps express, as (buffer, indices)."""
    accesses: dict[tuple[Any, tuple[AffineIndex, ...]], None] = {}
    for load in loads_in(nest.statements):
        if load.source in frame.tensors and load.source not in nest.outputs:
            if (indices := _affine_indices(frame, nest, load)) is not None:
                accesses[load.source, indices] = None
    return list(accesses)


def _affine_indices(frame: Frame, nest: Nest, load: TensorLoad) -> tuple[AffineIndex, ...] | None:
    """Return the affine indices of a load, if they are proven to be in bounds; None otherwise."""
    affine_indices = []
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        affine = affine_index_of(index, nest.positions)
        if affine is None:
            return None
        if affine.is_axis:
            fits = frame.analyzer.can_prove_equal(nest.axes[affine.terms[0][0]].dom.extent, extent)
        else:
            fits = isinstance(extent, tirx.IntImm) and frame.scalars.is_below(index, extent)
        if not fits:
            return None
        affine_indices.append(affine)
    return tuple(affine_indices)


def _map(nest: Nest, indices: Sequence[AffineIndex]) -> ir.AffineMap:
    return ir.AffineMap.get(len(nest.axes), 0, [_affine_expression(index) for index in indices])


def _affine_expression(index: AffineIndex) -> ir.AffineExpr:
    parts = [
        ir.AffineExpr.get_dim(position) * factor if factor != 1 else ir.AffineExpr.get_dim(position)
        for position, factor in index.terms
    ]
    parts += [ir.AffineExpr.get_constant(index.offset)] if index.offset or not parts else []
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole


def _unseen_reductions(nest: Nest, maps: Sequence[ir.AffineMap]) -> list[int]:
    """Return the reduction axes whose extent no input determines."""
    seen = {
        expression.position
        for mapping in maps
        for expression in mapping.results
        if isinstance(expression, ir.AffineDimExpr)
    }
    return [position for position in nest.reductions if position not in seen]


def _body(frame: Frame, nest: Nest, statements: list[Any], known: dict[Any, ir.Value], targets=None) -> list[ir.Value]:
    """Emit the statements of a block on scalars, and return the elements of the outputs."""
    scratch: dict[Any, ir.Value] = {}
    outputs: dict[Any, ir.Value] = {}
    outside = frame.scalars

    def load(buffer: Any, indices: Sequence[Any]) -> ir.Value:
        if (value := scratch.get(_element_key(buffer, indices))) is not None:
            return value
        affine_indices = tuple(affine_index_of(index, nest.positions) for index in indices)
        return known[buffer, affine_indices] if (buffer, affine_indices) in known else frame.load(buffer, indices)

    scalars = Scalars(load, frame.analyzer)
    scalars.variables, scalars.indices = dict(outside.variables), dict(outside.indices)
    frame.scalars = scalars
    for position, axis in enumerate(nest.axes):
        scalars.indices[axis.var] = linalg.IndexOp(position).result
    for variable in nest.single:
        scalars.indices[variable] = index_constant(0)
    own = set(nest.block.alloc_buffers)
    for statement in statements:
        value = scalars.evaluate(statement.value)
        if isinstance(statement, tirx.Bind):
            scalars.variables[statement.var] = value
        elif statement.buffer in own:
            scratch[_element_key(statement.buffer, statement.indices)] = value
        else:
            outputs[statement.buffer] = value
    frame.scalars = outside
    return [outputs[buffer] for buffer in targets or nest.outputs]


def _element_key(buffer: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    return (buffer, *(str(index) for index in indices))


__all__ = ["Frame", "dtype_of", "emit_nest", "inline", "located"]
