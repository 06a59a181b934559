"""The tensors that a program is bound to: a dictionary with fixed shapes and dtypes, which counts its changes.

Refuses new names, and values of another shape or dtype: code is compiled for shapes and dtypes, not for values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import count
from typing import Any

from mlirtri.dialect.base.dtypes import find_stored
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import ArgumentMismatchError, did_you_mean


class Params(MutableMapping[str, Any]):
    """A mapping from names to tensors, whose values may be replaced."""

    def __init__(self, tensors: Mapping[str, Any] | None = None):
        self._tensors = dict(tensors or {})
        self._versions = count(1)
        self.version = 0
        """Counts replacements: kernels of an earlier version hold the tensors of that time."""

    def __getitem__(self, name: str) -> Any:
        return self._tensors[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Replace a tensor; raises `ArgumentMismatchError` for an unknown name, and for another shape or dtype."""
        if name not in self._tensors:
            raise ArgumentMismatchError(
                f"the program is bound to no tensor {name!r}",
                help=f"{did_you_mean(name, self._tensors)}it has {', '.join(self._tensors) or 'none'}",
            )
        bound_type, new_type = type_of_tensor(self._tensors[name]), type_of_tensor(value)
        if bound_type != new_type:
            shown = new_type or type(value).__name__
            raise ArgumentMismatchError(f"{name!r} is a {bound_type}, which cannot be replaced by a {shown}")
        if problem := why_not_held(value):
            raise ArgumentMismatchError(f"{name!r} cannot be replaced by a tensor {problem}")
        self._tensors[name] = value
        # One step, where `+= 1` of two threads may count once: a kernel of the first one's tensors would stay current.
        self.version = next(self._versions)

    def adopt(self, name: str, value: object) -> None:
        """Add a state that compilation created, unless the name exists already."""
        self._tensors.setdefault(name, value)

    def __delitem__(self, name: str) -> None:
        raise ArgumentMismatchError(f"the program needs {name!r}", help="replace it by another tensor of its type")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        types = ", ".join(f"{name}: {type_of_tensor(value)}" for name, value in self._tensors.items())
        return f"<mlirtri params {types or 'none'}>"


def why_not_held(value: object) -> str | None:
    """Return why a kernel cannot take a tensor, as the end of a sentence, or None."""
    layout = getattr(value, "layout", None)
    if layout is not None and str(layout) != "torch.strided":
        return f"of layout {layout}: give tensor.to_dense()"
    if (device := getattr(getattr(value, "device", None), "type", "cpu")) not in ("cpu", "cuda"):
        return f"on device {device!r}: kernels read memory of cpu and cuda"
    return None


def type_of_tensor(value: object) -> TensorType | None:
    """Return the type of an array or tensor; None for anything else."""
    shape, dtype = getattr(value, "shape", None), find_stored(getattr(value, "dtype", None))
    return None if shape is None or dtype is None else TensorType(tuple(shape), dtype)
