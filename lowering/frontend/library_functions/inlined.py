"""Functions of NumPy and torch in the kernel language, which the frontend inlines where they are called.

Python never runs them. They are those that need a loop: Euclid's algorithm, the additional results of `numpy.unique`,
and those of the files named in `_FILES`.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import (
    KernelError,
    KernelIndexError,
    KernelLinearAlgebraError,
    KernelTypeError,
    KernelValueError,
    UnknownNameError,
)
from mlirtri.lowering.frontend.library_functions import (
    array_functions,
    linear_algebra,
    matrix_factors,
    polynomials,
    random_distributions,
    random_generator,
    random_numbers,
    set_functions,
    special_functions,
    torch_arrays,
    torch_functions,
    torch_images,
    torch_indexing,
    torch_losses,
    torch_matrices,
    torch_pools,
    torch_statistics,
    ufunc_methods,
)
from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.special_functions import bessel, definitions


def gcd(x1, x2):
    a, b = _integers(x1, x2)
    while np.any(b != 0):
        rest = np.fmod(a, np.where(b == 0, 1, b))
        a, b = np.where(b == 0, a, b), np.where(b == 0, 0, rest)
    # The smallest integer has no absolute value to begin with.
    return np.abs(a)


def lcm(x1, x2):
    a, b = _integers(x1, x2)
    divisor = gcd(a, b)
    return np.abs(a // np.where(divisor == 0, 1, divisor)) * np.abs(b)


def _integers(x1, x2):
    zero = np.multiply(np.add(x1, x2), 0)
    if zero.dtype.name == "bool" or not zero.dtype.is_integer:
        refuse("numpy.gcd and numpy.lcm take integers of one sign or both of a signed dtype")
    return zero + x1, zero + x2


def ldexp(x1, x2):
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if not x1.dtype.is_float or not x2.dtype.is_integer:
        refuse("numpy.ldexp takes floats and integers")
    exponent = np.clip(x2, -2200, 2200)
    result = x1.astype(np.float64)
    # Only the last product may be inexact: it has the largest factor.
    last = np.clip(exponent, -1000, 1000)
    middle = np.clip(exponent - last, -1000, 1000)
    for part in (exponent - last - middle, middle, last):
        result = result * np.exp2(part.astype(np.float64))
    return result.astype(x1.dtype)


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None):
    if axis is not None:
        if return_index or return_inverse or return_counts:
            refuse("numpy.unique along an axis gives the slices alone in kernels")
        return set_functions.unique_slices(ar, axis)
    flat = ar.reshape(-1)
    count = flat.shape[0]
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    is_new = np.ones(count, np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    if ar.dtype.is_float:
        is_new[1:] = is_new[1:] & ~np.isnan(ordered[:-1])
    values = ordered[is_new]
    results = [values]
    ranks = np.cumsum(is_new) - 1
    if return_index:
        results = [*results, order[is_new]]
    if return_inverse:
        inverse = np.zeros(count, np.int64)
        inverse[order] = ranks
        results = [*results, inverse.reshape(ar.shape)]
    if return_counts:
        counts = np.zeros(count, np.int64)
        np.add.at(counts, ranks, 1)
        results = [*results, counts[: values.shape[0]]]
    return tuple(results)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.gcd": gcd,
    "numpy.lcm": lcm,
    "numpy.unique": unique,
    "numpy.ldexp": ldexp,
    **ufunc_methods.FUNCTIONS,
    **array_functions.FUNCTIONS,
    **linear_algebra.FUNCTIONS,
    **matrix_factors.FUNCTIONS,
    **random_generator.FUNCTIONS,
    **polynomials.FUNCTIONS,
    **set_functions.FUNCTIONS,
    **special_functions.FUNCTIONS,
    **torch_arrays.FUNCTIONS,
    **torch_functions.FUNCTIONS,
    **torch_images.FUNCTIONS,
    **torch_indexing.FUNCTIONS,
    **torch_losses.FUNCTIONS,
    **torch_matrices.FUNCTIONS,
    **torch_pools.FUNCTIONS,
    **torch_statistics.FUNCTIONS,
}
"""Inlined library functions by qualified name."""
for _name, _function in reversed(FUNCTIONS.items()):
    if "<" in _function.__qualname__:  # messages name functions, made ones and lambdas, too
        _function.__name__ = _name.rpartition(".")[2]
VIEWS = (
    torch_indexing.select, torch_images.unfold_axis, torch_matrices.diagonal, torch_statistics.split_with_sizes,
    *torch_statistics.SPLITS.values(),
)  # fmt: skip
"""Those whose results are views of their arguments."""
ROUNDED_ONCE = frozenset(
    "addcdiv addcmul addr celu entr glu group_norm hardsigmoid hardswish lerp mish selu sinc xlog1py xlogy".split()
)
"""Functions of torch that compute halves in float32 and round the result, by name."""
_OF_RANDOM = (random_distributions, random_generator, random_numbers)
_OF_TORCH = (
    torch_arrays, torch_functions, torch_images, torch_indexing, torch_losses, torch_matrices, torch_pools,
    torch_statistics,
)  # fmt: skip
_FILES = (
    array_functions, bessel, definitions, linear_algebra, matrix_factors, polynomials, set_functions, special_functions,
    ufunc_methods, *_OF_RANDOM, *_OF_TORCH,
)  # fmt: skip
_OF_TENSORS = special_functions.METHODS | torch_functions.METHODS | torch_images.METHODS
_OF_TENSORS |= torch_arrays.METHODS | torch_indexing.METHODS | torch_matrices.METHODS | torch_statistics.METHODS
MODULES = (__name__, *(file.__name__ for file in _FILES))
FILES = (__file__, *(str(file.__file__) for file in _FILES))
COMPILE_TIME = tuple(function for file in _FILES for function in getattr(file, "COMPILE_TIME", ()))
"""What Python runs while a kernel compiles, called by functions of these files."""


def _require_of_matrix(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Check the operands of a linear algebra function, at run time where the condition is not known before."""
    _require(b, KernelLinearAlgebraError, *arguments)


def _require_value(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Check the operands of any other library function, in the same way."""
    _require(b, KernelValueError, *arguments)


def _require_index(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Check indices of other library functions, in the same way."""
    _require(b, KernelIndexError, *arguments)


def _require(b: Language, error: type[KernelError], condition: Any, message: str) -> None:
    if isinstance(condition, TriValue):
        tri = b.tri
        wrong = tri.logical_not(condition)
        # Report the user's line, not a line of the inlined library function.
        while isinstance(tri.location, ir.CallSiteLoc) and span_of(tri.location).file in FILES:
            tri.location = tri.location.caller
        b.check(wrong, error, message)
    elif not condition:
        raise error(message)


def _refuse(b: Language, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Let a library function that is written in the kernel language refuse its operands."""
    raise KernelTypeError(arguments[0])


CHECKS: dict[str, Callable[[Language, list[Any], dict[str, Any]], Any]] = {
    "mlirtri.require_of_matrix": _require_of_matrix,
    "mlirtri.require_value": _require_value,
    "mlirtri.require_index": _require_index,
    "mlirtri.refuse": _refuse,
}
"""What functions of these files call to check their operands, by `__mlirtri_name__`."""


@dataclass(frozen=True)
class BoundFunction:
    """A method written in the kernel language, before it is called, and the object that it belongs to."""

    function: Callable[..., Any]
    owner: Any
    writes: bool = False
    """Whether the result is the object's new content: one of torch's methods such as `x.lerp_`."""

    @property
    def __name__(self) -> str:
        return self.function.__name__


_WRITING = frozenset(
    """
    addbmm_ addcdiv_ addcmul_ addmv_ addr_ digamma_ erfinv_ gcd_ heaviside_ i0_ index_copy_ index_fill_ index_put_ lcm_
    ldexp_ lerp_ lgamma_ logit_ masked_scatter_ nextafter_ renorm_ scatter_ scatter_reduce_ sinc_ xlogy_
    """.split()
)
"""Methods of tensors that write what the method of the same name without the underscore gives."""
_OF_GENERATORS = random_numbers.METHODS | random_distributions.METHODS


def method(owner: Any, name: str, semantics: str) -> Any:
    """Return the method of an array, a ufunc or a random generator that is in the tables; None for any other.

    Arrays have the methods of the library whose semantics the kernel has.
    """
    if random_generator.is_generator(owner):
        if name not in _OF_GENERATORS:
            has = (
                "is not supported in a kernel" if hasattr(np.random.Generator, name) else "is no method of a generator"
            )
            raise UnknownNameError(f"{name!r} {has}", help=f"there are {', '.join(sorted(_OF_GENERATORS))}")
        return BoundFunction(_OF_GENERATORS[name], owner)
    if isinstance(owner, TriValue) and owner.weak and name in array_functions.METHODS_OF_NUMBERS:
        return BoundFunction(array_functions.METHODS_OF_NUMBERS[name], owner)
    if isinstance(owner, TriValue):
        methods = array_functions.METHODS if semantics == "numpy" else _OF_TENSORS
        if semantics == "torch" and name in _WRITING:
            return BoundFunction(methods[name.removesuffix("_")], owner, writes=True)
        return BoundFunction(methods[name], owner) if name in methods else None
    is_known = isinstance(owner, np.ufunc) and f"numpy.{owner.__name__}.{name}" in FUNCTIONS
    return getattr(owner, name) if is_known else None


def is_of_generator(function: Callable[..., Any]) -> bool:
    """Return whether a function of the tables makes a random generator or draws from one."""
    return function.__module__ in [file.__name__ for file in _OF_RANDOM]


def find(callee: Any, name: str | None, arguments: list[Any], keywords: dict[str, Any]) -> Callable[..., Any] | None:
    """Return the function that implements a library's for a call; `name` is its name where it is known."""
    name = name or _name_of(callee)
    if name not in FUNCTIONS or _has_operation(name, arguments, keywords):
        return None
    return FUNCTIONS[name]


def _name_of(callee: Any) -> str | None:
    """Return the name in `FUNCTIONS` of a function of the libraries that are loaded; None for other values."""
    try:
        return _names(tuple(top for top in _LIBRARIES if top in sys.modules)).get((type(callee), callee))
    except TypeError:  # it has no hash, which functions have
        return None


_LIBRARIES = tuple(dict.fromkeys(name.partition(".")[0] for name in FUNCTIONS))


@lru_cache(maxsize=8)
def _names(loaded: tuple[str, ...]) -> dict[tuple[type, Any], str]:
    """Return the names by function, with its type. A method is a new object each time, which equals the others."""
    names: dict[tuple[type, Any], str] = {}
    for name in FUNCTIONS:
        top, _, path = name.partition(".")
        if top in loaded:
            function = operator.attrgetter(path)(sys.modules[top])
            names.setdefault((type(function), function), name)
    return names


def _needs_singular_values(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> bool:  # noqa: A002
    is_matrix = isinstance(axis, tuple) or (axis is None and isinstance(x, TriValue) and x.type.rank == 2)
    return is_matrix and isinstance(ord, (int, float, str)) and ord in (2, -2, "nuc")


_PLACES_OF_RETURN_INDICES = {"max_pool": 6, "adaptive_max_pool": 2}
"""Which positional argument of a pool is `return_indices`, by the name of the kind."""


def _has_operation(name: str, arguments: list[Any], keywords: dict[str, Any]) -> bool:
    """Return whether a call is an operation of the dialect: distinct elements alone, sums at single elements."""
    if name.startswith("math."):
        # Python computes it where the numbers are known.
        return not any(isinstance(value, TriValue) for value in [*arguments, *keywords.values()])
    pool = next((kind for kind in _PLACES_OF_RETURN_INDICES if name.startswith(f"torch.nn.functional.{kind}")), None)
    if pool is not None and not name.endswith("with_indices"):
        place = _PLACES_OF_RETURN_INDICES[pool]
        return not (keywords["return_indices"] if "return_indices" in keywords else arguments[place:][:1] == [True])
    if name == "numpy.linalg.norm":
        return not _needs_singular_values(*arguments, **keywords)
    if name == "numpy.linalg.matrix_power":
        return not any(isinstance(n, int) and n < 0 for n in (*arguments[1:], *keywords.values()))
    if name in ("numpy.unique", "torch.median"):
        return len(arguments) + len(keywords) == 1
    if name not in ("numpy.add.at", "numpy.subtract.at") or len(arguments) < 2:
        return False
    count = len(arguments[1]) if isinstance(arguments[1], tuple) else 1
    return isinstance(arguments[0], TriValue) and arguments[0].type.rank == count
