"""Call a function of signless integers (`i8`) with integers of either sign: NumPy's and torch's dtypes have one.

The memory is the same, and the function's operations carry the sign, so nothing is converted.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype, find_dtype
from mlirtri.errors import KernelTypeError
from mlirtri.kernels.kernel import Kernel, hide_frames
from mlirtri.lowering.core.forks import renewed
from mlirtri.lowering.core.interface import Interface, Leaf, TensorParameter, like

_SIBLINGS = renewed(threading.Lock())
"""Held while a kernel's table of other signs changes: one kernel per signs, so that its state is one, too."""


class SignlessKernel(Kernel):
    """A kernel of which some integers have no sign of their own; the interface has them as signed."""

    def _general_call(self, /, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        kernel = self._of_signs(arguments, keywords, out)
        if kernel is self:
            return super()._general_call(*arguments, out=out, **keywords)
        return kernel(*arguments, **({} if out is None else {"out": out}), **keywords)

    def _short_call(self) -> Callable[..., Any]:
        """Return a call that finds the kernel by the arguments' dtypes: a short call of one takes no others."""
        if not self.interface.signless:
            return super()._short_call()
        own, calls = super()._general_call, dict[Any, Callable[..., Any]]()

        def call(*arguments: Any, **keywords: Any) -> Any:
            key = tuple([getattr(argument, "dtype", None) for argument in arguments])
            if keywords or None in key:
                return self._general_call(*arguments, **keywords)
            if key not in calls:
                kernel = self._of_signs(arguments, {}, None)
                # Never this kernel itself, whose call is this function: other threads read the table meanwhile.
                replace_by = functools.partial(calls.__setitem__, key)
                calls[key] = self.runner.short_call(own, replace_by, hide_frames) if kernel is self else kernel
            return calls[key](*arguments)

        return call

    def with_results(self, dtypes: object) -> SignlessKernel:
        """Return the kernel with these dtypes of results, in order; None leaves a result as it is.

        Raises `KernelTypeError` for others than integers of the width.
        """
        indices = _indices(self.interface.tree)
        requested = list(dtypes) if isinstance(dtypes, (tuple, list)) else [dtypes]
        if len(requested) != len(indices):
            message = f"results= has {len(requested)} dtypes for {len(indices)} results of {self.name!r}"
            raise KernelTypeError(message)
        pairs = zip(indices, requested, strict=True)
        dtype_of = {index: as_dtype(dtype) for index, dtype in pairs if dtype is not None}
        for index, dtype in dtype_of.items():
            self._check_result(index, dtype)
        interface = with_signs(self.interface, {}, dtype_of)
        signless = tuple(index for index in self.interface.signless_results if index not in dtype_of)
        return self._sibling(SignlessKernel, replace(interface, signless_results=signless))

    def _check_result(self, index: int, dtype: DType) -> None:
        of = self.interface.leaves[index]
        is_possible = index in self.interface.signless_results and dtype.is_integer and dtype.bits == of.dtype.bits
        if dtype == of.dtype or is_possible:
            return
        raise KernelTypeError(
            f"results= asks for {dtype} where {self.name!r} gives {of}",
            help="only the sign of a signless integer can be chosen",
        )

    def _of_signs(self, arguments: Sequence[Any], keywords: Mapping[str, Any], out: Any) -> Kernel:
        interface = self.interface
        names = [parameter.name for parameter in interface.parameters]
        values = dict(zip(names, arguments, strict=False)) | dict(keywords)
        signs = {index: _sign(values.get(p.name), p.type.dtype) for index, p in _signless_parameters(interface)}
        unsigned = frozenset(index for index, sign in signs.items() if sign == "u")
        widths = {_bits(interface, index) for index in unsigned}
        widths -= {_bits(interface, index) for index, sign in signs.items() if sign == "i"}
        results = self._unsigned_results(widths, out)
        if not unsigned and not results:
            return self
        with _SIBLINGS:
            siblings = self.__dict__.setdefault("_siblings", {})
            if (unsigned, results) not in siblings:
                parameters = {index: _unsigned(interface.parameters[index].type.dtype) for index in unsigned}
                leaves = {index: _unsigned(interface.leaves[index].dtype) for index in results}
                siblings[unsigned, results] = self._sibling(Kernel, with_signs(interface, parameters, leaves))
            return siblings[unsigned, results]

    def _unsigned_results(self, widths: set[int], out: Any) -> frozenset[int]:
        """Return the signless results that are unsigned: as their tensor of `out` is, else all of these widths."""
        interface = self.interface
        targets = [] if out is None else out if isinstance(out, (tuple, list)) else [out]
        pairs = zip(_indices(interface.tree), targets, strict=False)
        sign_of = {index: _sign(target, interface.leaves[index].dtype) for index, target in pairs}
        return frozenset(
            index
            for index in interface.signless_results
            if sign_of.get(index, "u" if interface.leaves[index].dtype.bits in widths else "i") == "u"
        )

    def _sibling(self, kind: type[Kernel], interface: Interface) -> Any:
        parts = (self.name, self.pipeline, self.target, self.semantics, self.compilation)
        return kind(*parts, interface, self.compile_with_passes)


def with_signs(interface: Interface, parameters: Mapping[int, DType], results: Mapping[int, DType]) -> Interface:
    """Return the interface with other dtypes of some parameters and results."""
    leaves = tuple(of.with_dtype(results.get(index, of.dtype)) for index, of in enumerate(interface.leaves))
    return replace(
        interface,
        parameters=tuple(
            replace(parameter, type=parameter.type.with_dtype(parameters.get(index, parameter.type.dtype)))
            for index, parameter in enumerate(interface.parameters)
        ),
        leaves=leaves,
        tree=_with_types(interface.tree, leaves),
    )


def _with_types(tree: Any, leaves: Sequence[Any]) -> Any:
    if isinstance(tree, Leaf):
        return replace(tree, type=leaves[tree.index])
    return None if tree is None else like(tree, [_with_types(part, leaves) for part in tree])


def _indices(tree: Any) -> list[int]:
    if isinstance(tree, Leaf):
        return [tree.index]
    return [] if tree is None else [index for part in tree for index in _indices(part)]


def _signless_parameters(interface: Interface) -> list[tuple[int, TensorParameter]]:
    return [(index, interface.parameters[index]) for index in interface.signless]


def _sign(value: Any, signed: DType) -> str | None:
    if isinstance(value, int):
        return None if signed.holds(value) else "u"
    dtype = find_dtype(value.dtype) if hasattr(value, "dtype") else None
    return dtype.kind if dtype is not None and dtype.is_integer and dtype.bits == signed.bits else None


def _bits(interface: Interface, index: int) -> int:
    return interface.parameters[index].type.dtype.bits


def _unsigned(dtype: DType) -> DType:
    return DTYPES[f"u{dtype.name}"]
