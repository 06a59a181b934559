"""Memory of written calls: results, what is kept between calls, and views in the form that functions take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.lowering.runtime.launches import Launches, Scratch
from mlirtri.lowering.runtime.memory import LARGE, empty_array

if TYPE_CHECKING:
    from mlirtri.calls.call_source import Variant  # imports this file

_Made = dict[str, Any]


def kept_dtype(dtype: DType) -> np.dtype | None:
    """Return NumPy's dtype of memory that Python's numbers are stored in exactly as torch stores them, or None."""
    return dtype.numpy if dtype.kind in "biufc" and dtype.name != "float16" else None


def new_array(shape: tuple[int, ...], dtype: DType) -> Callable[..., np.ndarray]:
    """Return what allocates an array of this shape."""
    return empty_array if prod(shape) * dtype.bytes >= LARGE else np.empty


def flat(memory: object) -> Any:
    """Return the elements of a pointer's memory along one axis; raises `ValueError` if they are not in order."""
    is_contiguous = memory.flags.c_contiguous if isinstance(memory, np.ndarray) else memory.is_contiguous()
    if not is_contiguous:
        raise ValueError
    return memory if memory.ndim == 1 else memory.reshape(-1)


def may_overlap(shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
    """Return whether two indices of a strided array may have one address; axes that interleave count as such.

    `width` is that of an element in the unit of the strides.
    """
    end = width
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride < end:
            return 0 not in shape
        end += (size - 1) * stride
    return False


class Memory:
    """What a call takes from a list and puts back: by name of a local variable, what makes it from those before it."""

    def __init__(self, launches: Launches):
        self.items: dict[str, Callable[[_Made], Any]] = {}
        self.kept: dict[str, tuple[TensorType, DType | None]] = {}
        """Arrays of rank 0 with the dtype that functions take them as."""
        self._launches = launches

    def fresh(self) -> tuple[Any, ...]:
        """Return a new entry."""
        items: _Made = {}
        for name, make in self.items.items():
            items[name] = make(items)
        return tuple(items.values())

    def keep(self, name: str, type_: TensorType, compiled: DType | None) -> None:
        """Keep an array of rank 0 under a name; raises `KeyError` for a dtype that NumPy lacks."""
        self.kept[name] = (type_, compiled)
        self.items[name] = lambda _made: np.zeros((1,), type_.dtype.numpy).reshape(())

    def prepared(self, name: str, shape: tuple[int, ...] | None) -> str:
        """Return the name of a kept array in the form that functions take, in a shape."""
        type_, compiled = self.kept[name]
        own = (2,) if type_.dtype.is_complex else ()
        shape = own if shape is None else shape

        def make(made: _Made) -> Any:
            array = made[name].reshape((1,))
            array = array if compiled is None else array.view(compiled.numpy)
            return self._launches.prepared(array.reshape(shape))

        return self._item(f"p_{name}_{'x'.join(map(str, shape))}", make)

    def scratch(self, name: str, scratch: Scratch, shape: tuple[int, ...] | None) -> str:
        """Return the name of an intermediate that is kept, in the form that functions take, in a shape."""
        self.items.setdefault("arena", lambda _made: self._launches.new_arena())
        self.items.setdefault(f"{name}_memory", lambda made: scratch.within(made["arena"]))
        shape = scratch.shape if shape is None else shape

        def make(made: _Made) -> Any:
            return self._launches.prepared(made[f"{name}_memory"].reshape(shape))

        return self._item(f"{name}_{'x'.join(map(str, shape))}", make)

    def _item(self, name: str, make: Callable[[_Made], Any]) -> str:
        self.items.setdefault(name, make)
        return name


def number_condition(name: str, kind: type, type_: TensorType) -> list[str]:
    """Return the conditions under which a number of class `kind` has a value of this type; raises `Impossible`."""
    from mlirtri.calls.callee import Impossible

    dtype = type_.dtype
    if type_.shape or kept_dtype(dtype) is None:
        raise Impossible
    if kind is dtype.numpy.type:
        return []
    is_numpys = issubclass(kind, np.integer if dtype.is_integer else np.floating if dtype.is_float else ())
    if not (kind is dtype.python or is_numpys) or dtype.name == "complex64":
        raise Impossible
    if is_numpys and np.can_cast(kind, dtype.numpy):
        return []
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return [f"{limits.min} <= {name} <= {limits.max}"]
    if dtype.name == "float32":
        largest = float(np.finfo(np.float32).max)
        return [f"{-largest!r} <= {name} <= {largest!r}"]
    return []


def view_text(variant: Variant, name: str, type_: TensorType, is_array: bool, shape: tuple[int, ...] | None) -> str:
    """Return the expression of a tensor or array in the form that functions take, in a shape."""
    text = name
    if variant.launches.takes_tensors and is_array:
        text, is_array = f"{variant.name('tensor_of', variant.launches.prepared)}({name})", False
    compiled = variant.callee.compiled(type_.dtype)
    if compiled is not None and is_array:
        text += "[..., None]" if type_.dtype.is_complex else ""
        text += f".view({variant.name(f'{name}_view_array', compiled.numpy)})"
    elif type_.dtype.is_complex:
        import torch

        text = f"{variant.name('view_as_real', torch.view_as_real)}({text})"
    elif compiled is not None:
        text += f".view({variant.name(f'{name}_view', compiled.torch)})"
    return text if shape is None else f"{text}.reshape({variant.name(f'{name}_shape_{len(variant.names)}', shape)})"
