"""What the generated source of a call (`short_calls.py`) needs to know of its kernel. Loads neither torch nor TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mlirtri.calls.call_memory import may_overlap, new_array
from mlirtri.calls.dynamic_shapes import MAX_SHAPES, DynamicShapes, admits
from mlirtri.dialect.base.dtypes import DTYPES, STORED, DType
from mlirtri.lowering.core.interface import Interface, Leaf, parts_of
from mlirtri.lowering.runtime.launches import Launches


class Impossible(Exception):
    """There is no generated call for such arguments: they take the general one."""


_SIGNED = {"uint8": "int8", "uint16": "int16", "uint32": "int32", "uint64": "int64", **dict.fromkeys(STORED, "int8")}
"""What stands for a dtype where integers have lost their sign, and 8-bit floats are bits."""


def compiled_dtype(dtype: DType, signless: bool) -> DType | None:
    """Return the dtype that executables take the same memory for, where it differs: parts of complex numbers."""
    if dtype.is_complex:
        return dtype.part
    signed = _SIGNED.get(dtype.name) if signless else None
    return None if signed is None else DTYPES[signed]


class Callee:
    """One kernel, as calls are written for it."""

    def __init__(
        self,
        name: str,
        interface: Interface,
        executable: Any,
        semantics: str,
        signless: bool,
        bound: Callable[[], Sequence[Any]],
        device: str = "cpu",
    ):
        self.name, self.interface, self.signless = name, interface, signless
        self.device = device
        """Torch's name of the kind of device where arguments and results are."""
        self.returns_arrays = semantics == "numpy"
        self.bound = bound
        """Returns the tensors that the function takes after the arguments."""
        self.shapes = DynamicShapes(name, interface, interface.sizes) if interface.sizes is not None else None
        self.updates = dict(interface.updates)
        """Number of a written parameter to the result that is its new content."""
        is_in_place = getattr(executable, "updates_in_place", False)
        self.in_place = {result: parameter for parameter, result in interface.updates} if is_in_place else {}
        self.leaves = _leaves(interface.tree)
        self.check_sizes: Callable[[Sequence[Any]], None] | None = None
        """Raises for sizes that the caller refuses."""
        self._executable = executable

    @cached_property
    def launches(self) -> Launches:
        """Return what a call does; raises `Impossible`."""
        interface = self.interface
        find = getattr(self._executable, "launches", None)
        inputs = len(interface.parameters) + len(interface.bound)
        launches = None if find is None else find(inputs, len(interface.leaves))
        types = [*(parameter.type for parameter in interface.parameters), *interface.leaves]
        if launches is None or interface.log is not None or interface.states:
            raise Impossible
        if any(type_.is_static and not type_.size for type_ in types):
            raise Impossible
        return launches

    def check_device(self, kinds: Sequence[type], tensor_class: type | None) -> None:
        """Raise `Impossible` for what the general call copies to the device, or views there in another dtype."""
        types = [*(parameter.type for parameter in self.interface.parameters), *self.interface.leaves]
        has_others = any(kind is not tensor_class for kind in kinds)
        if self.device != "cpu" and (has_others or any(self.compiled(each.dtype) is not None for each in types)):
            raise Impossible

    def is_there(self, argument: object) -> bool:
        """Return whether an argument is a tensor on the kernel's kind of device."""
        return getattr(getattr(argument, "device", None), "type", None) == self.device

    def compiled(self, dtype: DType) -> DType | None:
        return compiled_dtype(dtype, self.signless)

    def accept(self, number: int, known: set[Any], argument: object) -> bool:
        """Return whether an argument can be read and written where it lies, and add its layout to `known`.

        The layout is its strides; of a written argument also its shape, which decides whether elements share an
        address. `Variant._guard_strides` writes the guard that looks the same layout up.
        """
        is_array = isinstance(argument, np.ndarray)
        strides, width = (argument.strides, argument.itemsize) if is_array else (argument.stride(), 1)
        wanted = self.interface.parameters[number].strides or ()
        if len(wanted) != len(strides) or any(stride < 0 or stride % width for stride in strides):
            return False
        if any(fixed is not None and fixed * width != stride for fixed, stride in zip(wanted, strides, strict=True)):
            return False
        is_written = number in self.updates
        if is_written and may_overlap(argument.shape, strides, width):
            return False
        if len(known) >= MAX_SHAPES:
            known.clear()
        known.add((strides, argument.shape) if is_written else strides)
        return True

    def failing(self, index: int, code: int) -> Exception:
        """Return the error of the check that failed: a result may hold the code of one of several."""
        checks = [check for check in self.interface.checks if check.index == index]
        check = next((check for check in checks if check.code == code), checks[0])
        return check.error(check.message, check.span)

    def remember(self, known: dict[Any, Any], gives_tensors: bool, key: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what allocates each result for these arguments, after storing it under `key`.

        Raises `Impossible`, or the error of sizes that do not match.
        """
        for parameter, argument in zip(self.interface.parameters, arguments, strict=True):
            if not admits(parameter.type.shape, np.shape(argument)):
                raise Impossible
        if self.check_sizes is not None:
            self.check_sizes(arguments)
        tensors = [argument if hasattr(argument, "shape") else np.asarray(argument) for argument in arguments]
        shapes = self.shapes.results((*tensors, *(self.bound() if self.interface.bound else ())))
        if any(0 in shape for shape in (*shapes, *(tensor.shape for tensor in tensors))):
            raise Impossible
        if gives_tensors:
            from mlirtri.calls.torch_guards import contiguous_strides

            results = tuple((shape, contiguous_strides(shape)) for shape in shapes)
        else:
            leaves = self.interface.leaves
            results = tuple((shape, new_array(shape, leaf.dtype)) for shape, leaf in zip(shapes, leaves, strict=True))
        if len(known) >= MAX_SHAPES:
            known.clear()
        known[key] = results
        return results


def _leaves(tree: Any) -> list[Leaf]:
    if isinstance(tree, (tuple, list, dict)):
        return [leaf for part in parts_of(tree) for leaf in _leaves(part)]
    return [tree] if isinstance(tree, Leaf) else []
