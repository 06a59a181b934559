"""The names of tile kernels: ``import mlirtri.tile as T``.

The functions of `T` are read by the compiler, inside of ``with T.Kernel(…)`` in a function of ``@mlirtri.jit``.
They are never run. Annotations, macros and sizes are those of `mlirtri`, by TileLang's names.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype
from mlirtri.dialect.base.sizes import Size
from mlirtri.language.dimensions import dyn
from mlirtri.language.names import LanguageFunction, Ref, macro
from mlirtri.language.names import Tensor as _Tensor

if TYPE_CHECKING:
    from mlirtri.kernels.jit import JitFunction

__all__ = ["GemmWarpPolicy", "Ref", "Tensor", "dynamic", "macro", "prim_func"]

TILE_FUNCTIONS = (
    "Cast", "Kernel", "Parallel", "Pipelined", "Select", "alloc_fragment", "alloc_local", "alloc_shared", "alloc_var",
    "annotate_l2_hit_ratio", "annotate_layout", "atomic_add", "atomic_max", "atomic_min", "cast", "ceildiv", "clamp",
    "clear", "copy", "cumsum", "disable_warp_group_reg_alloc", "fill", "gemm", "grid", "if_then_else", "infinity",
    "max", "min", "reduce_absmax", "reduce_abssum", "reduce_max", "reduce_min", "reduce_sum", "serial", "sync_threads",
    "unroll", "use_swizzle", "vectorized",
)  # fmt: skip
"""The functions that only tile kernels have; `lowering.frontend.tile_language.functions` implements them."""
ELEMENTWISE = {
    **dict.fromkeys(
        """abs ceil cos cosh erf exp exp2 floor fmod isfinite isinf isnan log log10 log1p log2 round rsqrt sigmoid sin
        sinh sqrt tan tanh trunc bitwise_and bitwise_not bitwise_or bitwise_xor""".split()
    ),
    "And": "logical_and", "Or": "logical_or", "Not": "logical_not", "pow": "power", "shift_left": "left_shift",
    "shift_right": "right_shift", "floordiv": "floor_divide", "floormod": "remainder",
}  # fmt: skip
"""The functions of elements, by what the kernel language calls them; None for the same name."""
_WORDS = {"float": "float32", "int": "int32", "half": "float16", "double": "float64"}
"""What TVM and TileLang call dtypes, where NumPy means another one by that name or none."""


class GemmWarpPolicy(Enum):
    """How the warps of a block divide a product: a hint for GPUs, accepted as `policy=` of `T.gemm`."""

    Square = 0
    FullRow = 1
    FullCol = 2


def Tensor(shape: Any, dtype: Any = "float32") -> Any:
    """Return the annotation of an array argument: ``T.Tensor((M, N), "float16")``."""
    return _Tensor(shape, _dtype(dtype))


def _dtype(dtype: Any) -> DType:
    return as_dtype(_WORDS.get(dtype, dtype) if isinstance(dtype, str) else dtype)


def dynamic(name: str, dtype: str = "int32") -> Size:
    """Return a size that is known at run time only, for annotations and in the kernel: ``mt.dyn["M"]``."""
    return dyn[name]


def prim_func(function: Callable[..., Any] | None = None, **options: Any) -> JitFunction | Callable[..., Any]:
    """Return the kernel of a function: `mlirtri.jit` by TileLang's name."""
    from mlirtri.kernels.jit import jit  # loads late, as in mlirtri

    return partial(jit, **options) if function is None else jit(function, **options)


Buffer = SharedBuffer = FragmentBuffer = LocalBuffer = Tensor
symbolic = dynamic
globals().update({name: LanguageFunction(f"tile.{name}") for name in TILE_FUNCTIONS})
globals().update({name: DTYPES[name] for name in DTYPES})
globals().update({name: DTYPES[_WORDS[name]] for name in ("float", "half", "double")})
globals().update({name: LanguageFunction(function or name) for name, function in ELEMENTWISE.items()})


def __getattr__(name: str) -> Any:
    """Raise `AttributeError` for a name that tile kernels do not have."""
    raise AttributeError(f"module 'mlirtri.tile' has no attribute {name!r}: dir(mlirtri.tile) lists them")
