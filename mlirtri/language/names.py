"""The names a kernel uses: dtypes, `Tensor` annotations, and the functions of the op table as stubs.

The stubs are never run: the compiler reads which one is called. Calling one outside of a kernel says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mlirtri.dialect.base.dtypes import DType, as_dtype
from mlirtri.dialect.base.sizes import Size, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, KernelTypeError, KernelValueError, SourceNotAvailableError
from mlirtri.language.dimensions import Dyn, dyn, unnamed
from mlirtri.lowering.core.tracebacks import hide_frames, located, public


class LanguageFunction:
    """A function of the language, known by its name."""

    def __init__(self, name: str):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "mlirtri"
        self.__mlirtri_name__ = f"mlirtri.{name}"

    @public
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise KernelError(
            f"mlirtri.{self.__name__} is a function of kernels and was called outside of one",
            help="call it in a function decorated with @mlirtri.jit",
        )

    def __repr__(self) -> str:
        return f"<mlirtri function {self.__name__}>"


class Ref:
    """Annotation of a macro's parameter: assigning to it changes the caller's variable or array element."""


class Pointer:
    """What `mt.ptr` is: the annotation of memory of whatever shape, which `mt.match_buffer` gives one in the body."""

    def __repr__(self) -> str:
        return "ptr"


ptr = Pointer()


class Macro:
    """What `@macro` makes of a function: inlined where a kernel calls it."""

    def __init__(self, function: Callable[..., Any]):
        if not hasattr(function, "__code__"):
            raise SourceNotAvailableError(
                f"macro takes a Python function, not {function!r}", help="decorate a function written with def"
            )
        functools.update_wrapper(self, function)
        self.__mlirtri_function__ = function
        self.__code__ = function.__code__
        self.references = tuple(name for name, kind in function.__annotations__.items() if _is_reference(kind))
        """Parameters that stand for the caller's variable."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function, outside of kernels; raises `KernelError` if it writes its caller's variables."""
        try:
            self._check_outside()
        except KernelError as error:
            hide_frames(error)
            raise
        return self.__mlirtri_function__(*arguments, **keywords)

    def _check_outside(self) -> None:
        if self.references:
            raise KernelError(
                f"{self.__name__} writes its caller's {self.references[0]!r}, which only a kernel can let it do",
                help="call it in a function decorated with @mlirtri.jit",
            )

    def __repr__(self) -> str:
        return f"<mlirtri.macro {self.__name__}>"


@public
def macro(function: Callable[..., object]) -> Macro:
    """Make a macro of a Python function: kernels inline its body. Parameters annotated `Ref` are the caller's."""
    return Macro(function)


def _is_reference(kind: Any) -> bool:
    # With postponed annotations a kind is its source text.
    return kind is Ref or (isinstance(kind, str) and kind.split(".")[-1] == "Ref")


def static_range(*bounds: int) -> range:
    """Return `range`; in a kernel its loop is unrolled whatever its number of iterations."""
    return range(*bounds)


static_range.__mlirtri_name__ = "mlirtri.static_range"  # type: ignore[attr-defined]


def static(value: object) -> Any:
    """Return the value; in a kernel it has to be known at compile time, and a loop over it is unrolled."""
    return value


static.__mlirtri_name__ = "mlirtri.static"  # type: ignore[attr-defined]


def serial(*bounds: int) -> range:
    """Return `range`; in a kernel its loop is never unrolled, and runs in order."""
    return range(*bounds)


serial.__mlirtri_name__ = "mlirtri.serial"  # type: ignore[attr-defined]


def prange(*bounds: int) -> range:
    """Return `range`; in a kernel the iterations are independent, or the kernel is refused."""
    return range(*bounds)


prange.__mlirtri_name__ = "mlirtri.prange"  # type: ignore[attr-defined]


def ndrange(*bounds: int | tuple[int, int]) -> Iterator[tuple[int, ...]] | range:
    """Return the indices of nested loops, each from 0 to a bound or between two; in a kernel these are independent.

    ``for i, j in mt.ndrange(n, (1, m - 1))``. With one bound the elements are integers, else tuples.
    """
    ranges = [range(*bound) if isinstance(bound, tuple) else range(bound) for bound in bounds]
    return ranges[0] if len(ranges) == 1 else product(*ranges)


ndrange.__mlirtri_name__ = "mlirtri.ndrange"  # type: ignore[attr-defined]


def device_print(*values: object) -> None:
    """Print the values; in a kernel after the call if it was compiled with ``debug``, else never."""
    print(*values)


device_print.__mlirtri_name__ = "mlirtri.device_print"  # type: ignore[attr-defined]


atomic_add, atomic_min, atomic_max, atomic_and, atomic_or, atomic_xor, atomic_cas = (
    LanguageFunction(f"atomic_{name}") for name in ("add", "min", "max", "and", "or", "xor", "cas")
)
"""Updates of one element that iterations of a parallel loop may share: ``old = mt.atomic_add(h[i], x)``."""

_LARGEST_SIZE = (1 << 63) - 1


@dataclass(frozen=True)
class _Tensor:
    """What a tensor argument is, as an annotation or instead of a real tensor in `compile`."""

    shape: tuple[int | Size | Dyn | None, ...] | None = None
    """None for any shape; None in it for a size taken from the argument, a `Size` or `dyn` for one of run time."""
    dtype: DType | None = None
    """None for any."""
    bounds: tuple[Any, Any] | None = None
    """The least and the greatest element of the random data that stands for it; None for the usual ones."""
    strides: tuple[int | Dyn | None, ...] | None = None
    """In elements: None for row-major ones; None in it for a stride taken from the argument, `dyn` for one of run time.
    """

    @property
    def type(self) -> TensorType | None:
        """Return the full type if the dtype is known, and every size either now or at run time only; else None."""
        if self.shape is None or self.dtype is None or not all(isinstance(size, int | Size) for size in self.shape):
            return None
        return TensorType(self.shape, self.dtype)

    def named(self, parameter: str) -> _Tensor:
        """Return the annotation of a parameter, with names for the sizes that have none."""
        if self.shape is None or dyn not in self.shape:
            return self
        sizes = (unnamed(parameter, axis) if size is dyn else size for axis, size in enumerate(self.shape))
        return replace(self, shape=tuple(sizes))

    @property
    def specialization(self) -> str:
        """Return what of it is taken from the argument, ``$`` at compile time and ``$dyn`` at run time."""
        sizes = ["…"] if self.shape is None else [_shown_size(size) for size in self.shape]
        strides = "" if self.strides is None else f" strides [{', '.join(map(_shown_stride, self.strides))}]"
        return f"{self.dtype or '$dtype'}[{', '.join(sizes)}]{strides}"

    def __str__(self) -> str:
        shape = "..." if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype or 'any dtype'}[{shape}]"


def _shown_size(size: Any) -> str:
    if size is None:
        return "$"
    return f"$dyn[{size}]" if is_dynamic(size) else str(size)


def _shown_stride(stride: Any) -> str:
    return "$" if stride is None else "$dyn" if isinstance(stride, Dyn) else str(stride)


def _make(shape: Any = None, dtype: Any = None) -> _Tensor:
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = None if shape is None else tuple(map(_size, parts))
    return _Tensor(sizes, None if dtype is None or dtype is Any else as_dtype(dtype))


def _size(size: Any) -> int | Size | Dyn | None:
    if size is int or size is None:
        return None
    if isinstance(size, Dyn | Size):
        return size
    if isinstance(size, bool) or not hasattr(type(size), "__index__") or size < 0:
        is_name = isinstance(size, str) and size.isidentifier()
        run_time = f'dyn["{size}"]' if is_name else 'dyn["K"]'
        raise KernelTypeError(
            f"{size!r} is not a size of a Tensor",
            help=f"write a number, int for a size taken from the argument, or mt.{run_time} for one of run time",
        )
    if size > _LARGEST_SIZE:
        raise KernelValueError(f"a size of {int(size):.2e} is not a size of a Tensor", help="sizes are 64-bit integers")
    return int(size)


class _TensorFactory(type):
    @located
    def __call__(cls, shape: Any = None, dtype: Any = None) -> _Tensor:
        return _make(shape, dtype)

    @located
    def __getitem__(cls, parts: Any) -> _Tensor:
        shape, dtype = parts if isinstance(parts, tuple) and len(parts) == 2 else (parts, None)
        return _make(shape, dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Tensor)


class Tensor(metaclass=_TensorFactory):
    """``Tensor((2, 3), float32)``, ``Tensor(shape=(2, 3), dtype="float32")`` or ``Tensor[[2, 3], float32]``.

    As an annotation it is checked at the call; in `compile` it stands for a tensor that need not exist. A size of
    ``int`` and a dtype of ``Any`` are taken from the argument; one of ``dyn`` is known at run time only.
    """


def _stride(stride: Any) -> int | Dyn | None:
    if stride is int or stride is None:
        return None
    if isinstance(stride, Dyn):
        return stride
    if isinstance(stride, Size) and not stride.is_constant:
        return dyn  # each call's stride, whatever its name
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 0:
        raise KernelTypeError(
            f"{stride!r} is not a stride of a StridedTensor",
            help="write a number of elements, int for a stride taken from the argument, or dyn for one of run time",
        )
    return stride


class _StridedTensorFactory(_TensorFactory):
    @located
    def __call__(cls, shape: Any = None, strides: Any = None, dtype: Any = None) -> _Tensor:
        size = _make(shape, dtype)
        if not isinstance(strides, tuple | list) or size.shape is None or len(strides) != len(size.shape):
            raise KernelTypeError(
                f"a StridedTensor has a list of sizes and as long a list of strides, got {shape!r} and {strides!r}",
                help="write StridedTensor[[M, K], [dyn, 1], float32]",
            )
        return replace(size, strides=tuple(map(_stride, strides)))

    @located
    def __getitem__(cls, parts: Any) -> _Tensor:
        return cls(*parts) if isinstance(parts, tuple) else cls(parts)


class StridedTensor(metaclass=_StridedTensorFactory):
    """``StridedTensor[[M, K], [dyn, 1], float32]``: a tensor that is read and written where it lies, row-major or not.

    Strides count elements. One of ``int`` is taken from the argument at compile time, one of ``dyn`` at run time.
    """
