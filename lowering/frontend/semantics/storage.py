"""Memory of arrays: what may be written in place, and the views that share its elements.

SSA values are never written: a `Storage` holds the current value of an array, and a write replaces that value. A view
is the list of operations that reads its elements from the storage's current value, so it sees what is written through
another view, as in NumPy and torch. Results of library functions that are views share the memory of their argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeGuard

from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.bindings.locations import name_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import KernelValue, TriBuilder, TriValue
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops import attributes
from mlirtri.errors import UnsupportedSyntaxError
from mlirtri.lowering.core.interface import like, parts_of
from mlirtri.lowering.frontend.semantics.container_values import is_container, owning
from mlirtri.lowering.frontend.semantics.memory_order import ROW_MAJOR, MemoryOrder, ordered
from mlirtri.lowering.frontend.semantics.strides import keeps_memory
from mlirtri.lowering.mlir_common.memory_spaces import mark

_SERIAL, _VERSION = count(1), count(1)


@dataclass(eq=False)
class Storage:
    """The memory of an array or a view: its content as an SSA value, and what is known of writes to it."""

    value: TriValue
    """Its current content."""
    argument: int | None = None
    """The index of the run-time parameter, if it is one."""
    version: int = 0
    """Changes with each write; two contents never share a version."""
    is_written: bool = False
    """Whether the user wrote to it: loops and branches also yield unwritten memory."""
    is_ordered: bool = False
    """Whether a reshaped view was written, or read after a write, which is a view only if the memory is contiguous."""
    order: MemoryOrder = ROW_MAJOR
    """How the library lays out a new array."""
    frozen: str | None = None
    """The reason why it cannot be written: the meaning of a write is not known at compile time."""
    mirrored: dict[Storage, int] = field(default_factory=dict)
    """The storages that Python may identify with this copy, and the version that was copied."""
    may_be_number: bool = False
    """Whether it may be a number, which is immutable, depending on what ran before: ``x += y`` may then rebind x."""
    tile: tuple[str, ir.Value] | None = None
    """Of a tile its memory space, and its first content, whose location has its name."""
    serial: int = field(default_factory=lambda: next(_SERIAL))
    """Increases with creation."""

    def share(self, name: str, storages: Iterable[Storage | None]) -> None:
        """Record that Python may see this as one array with others: it may be read while none of them is written.

        What the others may be, this may be, too.
        """
        shown = repr(name) if name.isidentifier() else "this value" if name.startswith(".") else name
        self.frozen = f"{shown} may be another name of the same array, depending on what ran before"
        for storage in storages:
            if storage is not None:
                self.mirrored |= {**storage.mirrored, storage: storage.version}

    def note_order(self) -> None:
        """Record that the result depends on the order of this memory, and so on that of the arguments it follows."""
        for storage in (self, *self.order.sources):
            storage.is_ordered = True

    def check(self) -> None:
        """Raise `UnsupportedSyntaxError` where this copy may differ from Python's array."""
        if any(storage.version != version for storage, version in self.mirrored.items()):
            raise UnsupportedSyntaxError(
                f"{self.frozen}, and that was written since", help="make a copy where the name is assigned"
            )


@dataclass(frozen=True)
class ViewStep:
    """One view operation: how it reads, and how it writes an update back."""

    op: str
    """``extract_slice``, ``reshape``, ``transpose``, ``flip``, ``broadcast_to``, ``real``, ``imag``, ``bitcast``."""
    attributes: Mapping[str, Any]
    indices: tuple[TriValue, ...] = ()
    moves_axes: bool = False
    """For a reshape: whether it does more than add and drop axes of size 1."""

    def read(self, b: TriBuilder, x: TriValue) -> TriValue:
        return b.emit(self.op, x, *self.indices, **self.attributes)

    def write(self, b: TriBuilder, x: TriValue, update: TriValue) -> TriValue:
        """Return x with the elements that `read` gives replaced by `update`."""
        if self.op == "extract_slice":
            return b.emit("insert_slice", x, update, *self.indices, **self.attributes)
        if self.op in ("reshape", "dynamic_reshape"):
            if dynamic := [b.index(size) for size in x.type.shape if is_dynamic(size)]:
                return b.dynamic_reshape(update, *dynamic, shape=x.type.shape)
            return b.reshape(update, shape=x.type.shape)
        if self.op == "transpose":
            permutation = self.attributes["permutation"]
            return b.transpose(update, permutation=tuple(permutation.index(axis) for axis in range(len(permutation))))
        if self.op == "flip":
            return b.flip(update, axes=self.attributes["axes"])
        if self.op == "bitcast":
            return b.emit("bitcast", update, dtype=x.type.dtype.name)
        if self.op in ("real", "imag"):
            parts = (update, b.imag(x)) if self.op == "real" else (b.real(x), update)
            return b.emit("complex", *parts)
        raise UnsupportedSyntaxError(
            f"the result of {self.op} is a view whose elements share memory, and cannot be written",
            help="write into a copy of it",
        )


def first_elements(b: TriBuilder, sizes: Sequence[int | Size], drop: tuple[int, ...] = ()) -> ViewStep:
    """Return the slice of so many first elements along each axis, without the axes of size 1 in `drop`."""
    rank, dynamic = len(sizes), tuple(b.index(size) for size in sizes if is_dynamic(size))
    attributes = {"offsets": (0,) * rank, "sizes": tuple(sizes), "strides": (1,) * rank, "drop": drop}
    return ViewStep("extract_slice", attributes, dynamic)


@dataclass(frozen=True)
class View:
    """Some elements of a storage, read at one version of it."""

    storage: Storage
    steps: tuple[ViewStep, ...] = ()
    version: int = 0

    def then(self, step: ViewStep) -> View:
        return replace(self, steps=(*self.steps, step))

    @property
    def is_current(self) -> bool:
        return self.version == self.storage.version


@dataclass
class Memory:
    """The writes, and a journal of the storages written since some point, which a branch or loop has to yield."""

    journals: list[dict[Storage, tuple[TriValue, int]]] = field(default_factory=list)

    def write(self, b: TriBuilder, view: View, update: TriValue) -> None:
        """Replace the elements of `view`; `update` has its type. Raises `UnsupportedSyntaxError`."""
        storage = view.storage
        if storage.frozen:
            raise UnsupportedSyntaxError(f"cannot write in place: {storage.frozen}", help="write into a copy of it")
        levels = [storage.value]
        for step in view.steps[:-1]:
            levels.append(step.read(b, levels[-1]))
        for step, level in zip(reversed(view.steps), reversed(levels), strict=False):
            update = step.write(b, level, update)
        self.put(storage, update)
        storage.is_written = True
        if _moves_axes(view):
            storage.note_order()

    def put(self, storage: Storage, value: TriValue) -> None:
        for journal in self.journals:
            journal.setdefault(storage, (storage.value, storage.version))
        if storage.tile is not None:
            _note_tile(value.value, *storage.tile)
        storage.value = TriValue(value.value, value.type)
        storage.version = next(_VERSION)

    @property
    def serial(self) -> int:
        return next(_SERIAL)

    @contextmanager
    def watched(self) -> Iterator[dict[Storage, tuple[TriValue, int]]]:
        """Collect the storages written inside, with their previous contents."""
        journal: dict[Storage, tuple[TriValue, int]] = {}
        self.journals.append(journal)
        try:
            yield journal
        finally:
            self.journals = [other for other in self.journals if other is not journal]

    def rewind(self, journal: dict[Storage, tuple[TriValue, int]]) -> None:
        for storage, (value, version) in journal.items():
            storage.value, storage.version = value, version


def _note_tile(content: ir.Value, space: str, first: ir.Value) -> None:
    """Record in the location of an operation that it computes the content of a tile."""
    if not isinstance(content.owner, ir.Block) and content.owner.name.startswith("tri."):
        mark(content.owner.operation, space, name_of(first.owner.location))


def _moves_axes(view: View) -> bool:
    """Return whether a view has another shape than its memory, which takes contiguous memory."""
    return any(step.op in ("reshape", "dynamic_reshape") and step.moves_axes for step in view.steps)


def with_memory(value: KernelValue, least_rank: int = 1) -> KernelValue:
    """Return a value to bind to a name: an array of at least this rank without memory gets a storage."""
    if is_container(value):
        return owning(value, [with_memory(part, least_rank) for part in parts_of(value)])
    if not isinstance(value, TriValue) or value.origin is not None or value.weak or value.type.rank < least_rank:
        return value
    return replace(value, origin=View(Storage(TriValue(value.value, value.type), order=value.order or ROW_MAJOR)))


def current(b: TriBuilder, value: KernelValue) -> KernelValue:
    """Return the current value of a name: views of memory written since are read again."""
    if is_container(value):
        parts = [current(b, part) for part in parts_of(value)]
        if all(new is old for new, old in zip(parts, parts_of(value), strict=True)):
            return value
        return like(value, parts)
    if not has_memory(value):
        return value
    view = value.origin
    view.storage.check()
    if view.is_current:
        return value
    if _moves_axes(view):
        view.storage.note_order()
    tensor = view.storage.value
    for step in view.steps:
        tensor = step.read(b, tensor)
    return TriValue(tensor.value, tensor.type, origin=replace(view, version=view.storage.version))


def has_memory(value: KernelValue) -> TypeGuard[TriValue]:
    return isinstance(value, TriValue) and value.origin is not None


_NEW_ARRAYS = frozenset(f"numpy.{name}" for name in """where broadcast_to broadcast_arrays full zeros ones empty ndarray
    full_like zeros_like ones_like empty_like copy array asarray asanyarray roll tile pad cov tensordot cross
    isin""".split())  # fmt: skip
"""Functions of NumPy that return arrays of rank 0; most others return a scalar, which is immutable."""
_KEEPING_ARRAYS = frozenset("reshape transpose permute_dims squeeze astype copy view T real imag".split())
"""Functions, methods and attributes of NumPy that return an array of rank 0 for one, and a scalar for a scalar."""


def with_rank_0_memory(semantics: str, name: str, operands: KernelValue, result: KernelValue) -> KernelValue:
    """Return a function's or operator's result as the library's array: with its memory order, or memory for rank 0.

    torch's tensors of rank 0 are tensors like all others, unless they are computed from numbers alone.
    """
    result = with_order(semantics, name, operands, result)
    is_array = any(map(_has_array, operands))
    if semantics == "torch":
        is_array = is_array or name.startswith("torch.") or name in _NEW_ARRAYS
    else:
        is_array = name in _NEW_ARRAYS or (is_array and name.rsplit(".", 1)[-1] in _KEEPING_ARRAYS)
    return with_memory(result, 0) if is_array else result


def with_order(semantics: str, name: str, operands: KernelValue, result: KernelValue) -> KernelValue:
    """Return a function's result, whose new arrays know in which order the library lays out their elements."""
    if is_container(result):
        return like(result, [with_order(semantics, name, operands, part) for part in parts_of(result)])
    if not isinstance(result, TriValue) or result.origin is not None or result.type.rank < 2:
        return result
    return replace(result, order=ordered(semantics, name, tensors_in(operands), result))


def tensors_in(values: KernelValue) -> list[TriValue]:
    """Return the tensors among values, lists and dicts of them included."""
    if isinstance(values, (tuple, list, dict)):
        return [tensor for part in parts_of(values) for tensor in tensors_in(part)]
    return [values] if isinstance(values, TriValue) else []


def either(result: KernelValue, operands: Iterable[KernelValue], label: str) -> KernelValue:
    """Return the value of what Python gives as one of its operands: it may be read while none of them is written."""
    sources = [operand.origin.storage for operand in operands if has_memory(operand)]
    if not sources:
        return result
    chosen = with_memory(as_new_array(result), 0)
    if has_memory(chosen):
        chosen.origin.storage.share(label, sources)
    return chosen


def _has_array(value: Any) -> bool:
    if is_container(value):
        return any(map(_has_array, parts_of(value)))
    return isinstance(value, TriValue) and is_array(value)


def is_array(value: TriValue) -> bool:
    """Return whether a tensor is an array, which can be written in place, rather than a number."""
    return value.origin is not None or (value.type.rank > 0 and not value.weak)


VIEWS = frozenset(
    """reshape ravel transpose T mT swapaxes moveaxis rollaxis squeeze expand_dims view asarray ascontiguousarray
    asanyarray atleast_1d atleast_2d atleast_3d flip fliplr flipud rot90 broadcast_to diagonal split array_split hsplit
    vsplit dsplit real imag permute t unsqueeze expand expand_as narrow chunk select detach contiguous movedim view_as
    unbind unflatten reshape_as swapdims tensor_split adjoint H permute_dims matrix_transpose""".split()
)
"""Functions, methods and attributes of NumPy and torch that return a view where they can."""
_VIEWS_OF_ONE_LIBRARY = frozenset(
    "numpy.diag numpy.unstack numpy.broadcast_arrays torch.meshgrid torch.flatten Tensor.flatten".split()
)
"""Functions that copy in the other library; some have a view of each of their arguments."""
_COPIES = frozenset(
    f"{owner}.{name}" for owner in ("torch", "Tensor") for name in ("flip", "fliplr", "flipud", "rot90")
) | {"ndarray.flatten"}
"""Functions that are views in the other library only."""
_CONTIGUOUS = ("contiguous", "ascontiguousarray", "ravel")
"""Functions that copy what is not contiguous."""
_STEPS = ("reshape", "transpose", "flip", "broadcast_to", "extract_slice", "slice", "dynamic_reshape",
          "dynamic_broadcast", "real", "imag", "bitcast")  # fmt: skip


def is_view_function(name: str, arguments: dict[str, KernelValue]) -> bool:
    """Return whether ``numpy.ravel``, ``ndarray.T``… gives views of its arguments."""
    if name == "numpy.meshgrid":
        return arguments.get("copy") is False
    if name in _COPIES:
        return False
    return name in _VIEWS_OF_ONE_LIBRARY or name.rsplit(".", 1)[-1] in VIEWS


def is_read_only_view(name: str, arguments: list[KernelValue], source: TriValue, result: object) -> bool:
    """Return whether a call gives a view in NumPy and a read-only copy here: windows, an einsum that sums nothing,
    elements of another width."""
    if name.endswith(".sliding_window_view") or name == "numpy.frombuffer":
        return True
    if name in ("ndarray.view", "Tensor.view"):
        return _between(source.value, result.value) is None
    if name != "numpy.einsum" or len(arguments) != 2 or not isinstance(arguments[0], str):
        return False
    inputs, arrow, outputs = arguments[0].replace(" ", "").partition("->")
    return bool(arrow) and set(inputs) == set(outputs)


def returns_itself(name: str, source: TriValue, result: TriValue, arguments: dict[str, KernelValue]) -> bool:
    """Return whether a method returns its array itself when there is nothing to do."""
    if result.value != source.value:
        return False
    is_itself = name in ("ndarray.conj", "ndarray.conjugate", "torch.as_tensor", "torch.asarray")
    return is_itself or (name == "ndarray.astype" and arguments.get("copy") is False)


def viewed(name: str, source: TriValue, result: KernelValue) -> KernelValue:
    """Return a function's result with the memory of `source`, if only view operations lie between them."""
    source = with_memory(source)
    if isinstance(result, (tuple, list)):
        return type(result)(viewed(name, source, part) for part in result)
    if not isinstance(result, TriValue) or not has_memory(source):
        return result
    steps = _between(source.value, result.value)
    if steps is None:
        return result
    if steps and "shape" in steps[-1].attributes:
        # The operation's attribute does not say which run-time sizes these are.
        steps[-1] = replace(steps[-1], attributes={**steps[-1].attributes, "shape": result.type.shape})
    origin = source.origin
    every = [(step.op, step.attributes, step.moves_axes) for step in (*origin.steps, *steps)]
    shape, axes = origin.storage.value.type.shape, origin.storage.order.axes
    is_view = keeps_memory(shape, axes, every, name.rsplit(".", 1)[-1] in _CONTIGUOUS)
    if is_view is None:
        unknown = either(as_new_array(result), [source], name)
        if has_memory(unknown):
            unknown.origin.storage.frozen = (
                f"the result of {name} is a view or a copy, depending on how the library lays out the array in memory"
            )
        return unknown
    return replace(result, origin=replace(origin, steps=(*origin.steps, *steps)), weak=False) if is_view else result


def as_new_array(result: KernelValue) -> KernelValue:
    """Return a function's result as a new array, even if no operation was emitted for it."""
    if is_container(result):
        return like(result, [as_new_array(part) for part in parts_of(result)])
    return replace(result, origin=None) if has_memory(result) else result


def _between(source: ir.Value, value: ir.Value) -> list[ViewStep] | None:
    steps: list[ViewStep] = []
    while value != source:
        if isinstance(value.owner, ir.Block) or value.owner.operation.name.removeprefix("tri.") not in _STEPS:
            return None
        steps.append(_step(value.owner.operation))
        value = value.owner.operation.operands[0]
    return steps[::-1]


def _step(operation: ir.Operation) -> ViewStep:
    op = op_of(operation)
    before, after = (type_of(value.type).shape for value in (operation.operands[0], operation.results[0]))
    values = attributes.from_mlir(op, operation)
    if op.name == "slice":
        return ViewStep("extract_slice", {**values, "drop": ()})
    indices = tuple(TriValue(operand, type_of(operand.type)) for operand in list(operation.operands)[1:])
    moves_axes = [size for size in before if size != 1] != [size for size in after if size != 1]
    return ViewStep(op.name, values, indices, moves_axes)
