"""TileLang's `jit` and `compile`: functions that make tile kernels, and kernels that allocate what they return.

    @tilelang.jit(out_idx=[-1])
    def scale(n, block): …          a factory: it returns a `T.prim_func`
    kernel = scale(1000, 128)       the kernel of these constants, one object per combination
    y = kernel(x)                   allocates the last argument, runs, and returns it

A function without a `prim_func` in it is a kernel itself, which allocates its results with `T.empty` and returns them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import DType
from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.errors import ArgumentMismatchError, KernelError, KernelTypeError
from mlirtri.kernels.jit import JitFunction, jit
from mlirtri.kernels.kernel import Kernel
from mlirtri.kernels.options import Options
from mlirtri.language.arguments import is_torch
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.tracebacks import hide_frames, public

HINTS = ("execution_backend", "pass_configs", "compile_flags", "verbose", "target_host", "debug_root_path", "cache_dir")
"""Options of TileLang's build, which change no result."""
OPTIONS = ("target", "pipeline", "schedule", "debug")
"""Options of `mlirtri.jit`."""


@public
def tile_jit(function: Callable[..., object], out_idx: object = None, **options: object) -> Any:
    """Return a factory of kernels for a function with a `prim_func` in it; for another one its kernel."""
    kept = _options(options)
    if isinstance(function, JitFunction):
        return with_results(function, out_idx, **kept)
    if "prim_func" in getattr(getattr(function, "__code__", None), "co_names", ()):
        return KernelFactory(function, out_idx, kept)
    function_of_tiles = jit(function, **kept)
    return function_of_tiles if out_idx is None else with_results(function_of_tiles, out_idx)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(options) - {*HINTS, *OPTIONS})
    if unknown:
        raise KernelTypeError(
            f"jit of tile kernels has no option {unknown[0]!r}", help=f"it knows out_idx, {', '.join(OPTIONS)}"
        )
    kept = {name: value for name, value in options.items() if name in OPTIONS}
    return {name: value for name, value in kept.items() if value != "auto"}


class KernelFactory:
    """A function from compile-time values to a `prim_func`: called with them it returns the kernel."""

    def __init__(self, function: Callable[..., Any], out_idx: Any, options: Mapping[str, Any]):
        functools.update_wrapper(self, function)
        self.out_idx, self.options = out_idx, options
        self._made: dict[Any, Any] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> ResultKernel:
        """Return the kernel of these values, the same for the same values."""
        key = (arguments, tuple(sorted(keywords.items())))
        try:
            kernel = self._made.get(key)
        except TypeError:  # a list among the values has no hash
            key, kernel = repr(key), self._made.get(repr(key))
        if kernel is None:
            kernel = self._made[key] = self._make(arguments, keywords)
        return kernel

    def _make(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> ResultKernel:
        function = self.__wrapped__(*arguments, **keywords)  # type: ignore[attr-defined]
        if not isinstance(function, JitFunction):
            error = KernelTypeError(
                f"{self.__name__} makes no kernel: it returns {type(function).__name__}",  # type: ignore[attr-defined]
                help="return the function that @T.prim_func decorates",
            )
            hide_frames(error)
            raise error
        return with_results(function, self.out_idx, **self.options)


@public
def with_results(function: JitFunction, out_idx: object = None, **options: object) -> ResultKernel:
    """Return a kernel whose calls allocate and return the arguments at these positions; negative ones count backwards.

    Raises `KernelTypeError` for positions that the function does not have, or whose annotation has no dtype.
    """
    if not isinstance(function, JitFunction):
        raise KernelTypeError(f"{function!r} is no kernel", help="decorate it with @T.prim_func")
    chosen = Options(**{name: value for name, value in _options(options).items()})
    with_options = JitFunction(function.__mlirtri_function__, chosen.over(function.options))
    return ResultKernel(with_options, _positions(with_options, out_idx))


def _positions(function: JitFunction, out_idx: Any) -> tuple[int, ...]:
    given = () if out_idx is None else tuple(out_idx) if isinstance(out_idx, (list, tuple)) else (out_idx,)
    names = list(function.signature.parameters)
    for position in given:
        if not isinstance(position, int) or not -len(names) <= position < len(names):
            raise KernelTypeError(f"out_idx={out_idx!r}: {function.__name__} has {len(names)} arguments")
        kind = function.signature.annotations.get(names[position])
        if not isinstance(kind, Tensor) or kind.shape is None or kind.dtype is None:
            raise KernelTypeError(
                f"argument {names[position]!r} cannot be allocated: its annotation has no shape and dtype",
                help=f'write {names[position]}: T.Tensor((M, N), "float16")',
            )
    return tuple(sorted(position % len(names) for position in given))


class ResultKernel:
    """A tile kernel that is called with its inputs, and returns the arguments that it writes."""

    def __init__(self, function: JitFunction, results: tuple[int, ...]):
        functools.update_wrapper(self, function)
        self.function, self.results = function, results

    def __call__(self, *inputs: Any) -> Any:
        """Run; `inputs` are all arguments, or those that are no results, which are allocated and returned then."""
        names = list(self.function.signature.parameters)
        if not self.results or len(inputs) == len(names):
            return self.function(*inputs)
        try:
            arguments = self._with_results(names, inputs)
        except KernelError as error:
            hide_frames(error)
            raise
        self.function(*arguments)
        results = [arguments[position] for position in self.results]
        return results[0] if len(results) == 1 else tuple(results)

    def _with_results(self, names: Sequence[str], inputs: tuple[Any, ...]) -> list[Any]:
        read = [position for position in range(len(names)) if position not in self.results]
        if len(inputs) != len(read):
            raise ArgumentMismatchError(
                f"{self.function.__name__} takes {len(read)} arguments beside its results, got {len(inputs)}",
                self.function.signature.span,
            )
        given = dict(zip(read, inputs, strict=True))
        kinds: list[Any] = [self.function.signature.annotations.get(name) for name in names]
        sizes = _sizes({kinds[position]: array for position, array in given.items()})
        first = next((array for array in inputs if hasattr(array, "shape")), None)
        results = {position: _empty(kinds[position], names[position], sizes, first) for position in self.results}
        return [given[position] if position in given else results[position] for position in range(len(names))]

    def compile(self, *arguments: object, **options: object) -> Kernel:
        """Return the compiled kernel; arguments that are annotated with all their sizes may be left out."""
        return self.function.compile(*arguments, **options)

    def get_kernel_source(self) -> str:
        """Return the code that was generated: CUDA, or LLVM IR of the CPU."""
        return self.function.get_source()


def _sizes(arrays: Mapping[Any, Any]) -> dict[Symbol, int]:
    """Return the run-time sizes that arguments give to the names in their annotations."""
    sizes: dict[Symbol, int] = {}
    for kind, array in arrays.items():
        if not isinstance(kind, Tensor) or kind.shape is None:
            continue
        for size, actual in zip(kind.shape, getattr(array, "shape", ()), strict=False):
            if isinstance(size, Size) and len(size.terms) == 1 and not size.constant and size.terms[0][1] == 1:
                sizes[size.terms[0][0]] = int(actual)
    return sizes


def _empty(kind: Any, name: str, sizes: Mapping[Symbol, int], like: Any) -> Any:
    """Return a new array of an annotation: a tensor on the device of `like`, or an array if that is NumPy's."""
    shape = [_number(size, name, sizes) for size in kind.shape]
    dtype: DType = kind.dtype
    if like is not None and not is_torch(like):
        return np.zeros(shape, dtype.numpy)
    import torch  # loads late: kernels of NumPy arrays need none

    return torch.zeros(shape, dtype=dtype.torch, device=None if like is None else like.device)


def _number(size: Any, name: str, sizes: Mapping[Symbol, int]) -> int:
    if isinstance(size, int):
        return size
    symbols = [symbol for symbol, _ in size.terms] if isinstance(size, Size) else []
    if not symbols or any(symbol not in sizes for symbol in symbols):
        raise KernelTypeError(f"size {size} of {name!r} is not known from the other arguments", help="pass the array")
    return size.constant + sum(sizes[symbol] * factor for symbol, factor in size.terms)
