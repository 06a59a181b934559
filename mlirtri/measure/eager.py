"""Run a kernel's Python function as plain Python on torch or NumPy: the baseline of `compare`.

Kernels that the function calls run as plain functions too. Errors of the function are raised as they are.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from mlirtri.kernels.jit import JitFunction
from mlirtri.language.arguments import is_array, is_torch
from mlirtri.measure.copies import host_array

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A compiler of Python functions, such as ``numba.njit``."""


def plain(function: Callable[..., object], wrap: Wrapper | None = None) -> Callable[..., Any]:
    """Return the function, with every kernel that it can reach by name replaced by its plain function.

    Those are given to `wrap`, for compilers that compile what a function calls only where they are told to.
    """
    return _Plain(wrap).of(function)


class _Plain:
    """Copies of functions by identity, so that a recursive function calls its own copy."""

    def __init__(self, wrap: Wrapper | None) -> None:
        self.copies: dict[int, Callable[..., Any]] = {}
        self.wrap = wrap

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if id(function) in self.copies:
            return self.copies[id(function)]
        names = dict(function.__globals__)
        closure = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)
        copy.__kwdefaults__ = function.__kwdefaults__
        self.copies[id(function)] = copy
        for name in function.__code__.co_names:
            if name in names:
                names[name] = self._value(names[name])
        for variable, original in zip(closure, function.__closure__ or (), strict=True):
            variable.cell_contents = self._value(original.cell_contents)
        return copy

    def _value(self, value: Any) -> Any:
        if not isinstance(value, JitFunction):
            return value
        function = self.of(value.__mlirtri_function__)
        return function if self.wrap is None else self.wrap(function)


def as_plain(f: JitFunction, named: Mapping[str, object]) -> Callable[[], Any]:
    """Return a call of the plain function on these arguments, which it may write."""
    return plain_call(f, named)


def plain_call(f: JitFunction, named: Mapping[str, object], wrap: Wrapper | None = None) -> Callable[[], Any]:
    """Return a call of the plain function, compiled by `wrap` if there is one, on these arguments."""
    function = plain(f.__mlirtri_function__, wrap)
    function = function if wrap is None else wrap(function)
    arguments = dict(named)
    by_name = {name: arguments.pop(name) for name, p in f.signature.parameters.items() if p.kind is p.KEYWORD_ONLY}
    return lambda: function(*arguments.values(), **by_name)


def widened(named: Mapping[str, object]) -> dict[str, Any]:
    """Return copies of the arguments, floats as float64 and complex numbers as complex128."""
    return {name: _widened(value) for name, value in named.items()}


def _widened(value: Any) -> Any:
    if is_torch(value):
        wide = torch.complex128 if value.is_complex() else torch.float64
        is_inexact = value.is_complex() or value.is_floating_point()
        return value.to(wide, copy=True) if is_inexact else value.clone()
    if is_array(value):
        is_inexact = value.dtype.kind in "fc" or value.dtype.name == "bfloat16"
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        return np.array(value, dtype=wide if is_inexact else value.dtype)
    return value


def leaves(result: object) -> list[np.ndarray]:
    """Return the tensors of a nested result, in order, as arrays on the host."""
    if result is None:
        return []
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [host_array(result)]
