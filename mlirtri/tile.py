"""The names of tile kernels: ``import mlirtri.tile as T``.

The functions of `T` are read by the compiler, inside of ``with T.Kernel(…)`` in a function of ``@mlirtri.jit``.
They are never run. Annotations, macros and sizes are those of `mlirtri`, by TileLang's names.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from mlirtri.dialect.base.dtypes import DTYPES, DType, as_dtype, instead_of
from mlirtri.dialect.base.sizes import Size
from mlirtri.language.dimensions import dyn
from mlirtri.language.names import LanguageFunction, Ref, StridedTensor, macro, ptr
from mlirtri.language.names import Tensor as _Tensor

if TYPE_CHECKING:
    from mlirtri.kernels.factories import ResultKernel
    from mlirtri.kernels.jit import JitFunction

__all__ = [
    "GemmWarpPolicy", "PassConfigKey", "Ref", "StridedTensor", "Tensor", "compile", "dyn", "dynamic", "jit", "macro",
    "prim_func", "ptr",
]  # fmt: skip

TILE_FUNCTIONS = (
    "Cast", "Kernel", "Parallel", "Pipelined", "Select", "alloc_fragment", "alloc_local", "alloc_shared", "alloc_var",
    "annotate_l2_hit_ratio", "annotate_layout", "assume", "atomic_add", "atomic_max", "atomic_min", "cast", "ceildiv",
    "clamp", "clear", "copy", "cumsum", "disable_warp_group_reg_alloc", "empty", "fill", "gemm", "grid",
    "if_then_else", "infinity", "max", "max_value", "min", "min_value", "no_set_max_nreg", "reduce_absmax",
    "reduce_abssum", "reduce_max", "reduce_min", "reduce_sum", "reshape", "serial", "set_max_nreg", "sync_threads",
    "unroll", "use_swizzle", "vectorized", "view",
)  # fmt: skip
"""The functions that only tile kernels have; `lowering.frontend.tile_language.function_table` implements them."""
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


class _NamesOfOptions(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class PassConfigKey(metaclass=_NamesOfOptions):
    """The names of options of TileLang's compiler, for `pass_configs=` of `jit`, which is accepted and not read."""


class _TensorFactory(type(_Tensor)):
    def __call__(cls, shape: Any = None, dtype: Any = "float32") -> Any:
        return _Tensor(shape, _dtype(dtype))

    def __getitem__(cls, parts: Any) -> Any:
        shape, dtype = parts if isinstance(parts, tuple) and len(parts) == 2 else (parts, None)
        return _Tensor(shape, _dtype(dtype))


class Tensor(metaclass=_TensorFactory):
    """The annotation of an array argument, ``T.Tensor((M, N), "float16")`` or ``T.Tensor[[M, N], "float16"]``.

    In a kernel ``T.Tensor((M, N), "float16", x.data)`` is the memory of `x` in another shape.
    """

    __mlirtri_name__ = "mlirtri.tile.Tensor"


def _dtype(dtype: Any) -> DType | None:
    if dtype is None or dtype is Any:
        return None
    dtype = "float" if dtype is float else dtype
    return as_dtype(_WORDS.get(dtype, dtype) if isinstance(dtype, str) else dtype)


def dynamic(name: str, dtype: str = "int32") -> Size:
    """Return a size that is known at run time only, for annotations and in the kernel: ``mt.dyn["M"]``."""
    return dyn[name]


def prim_func(function: Callable[..., Any] | None = None, **options: Any) -> JitFunction | Callable[..., Any]:
    """Return the kernel of a function: `mlirtri.jit` by TileLang's name."""
    from mlirtri.kernels.jit import jit  # loads late, as in mlirtri

    return partial(jit, **options) if function is None else jit(function, **options)


def jit(function: Callable[..., object] | None = None, **options: object) -> Any:
    """Return TileLang's `jit` of a function: of a kernel, or of a function that returns a `prim_func`.

    `out_idx` are the positions of the arguments that calls allocate and return; `target` and `pipeline` are those of
    `mlirtri.jit`. Options of TileLang's build are accepted: `execution_backend`, `pass_configs`, `compile_flags`.
    """
    from mlirtri.kernels.factories import tile_jit  # loads late, as in mlirtri

    return partial(tile_jit, **options) if function is None else tile_jit(function, **options)


def compile(function: JitFunction, out_idx: object = None, **options: object) -> ResultKernel:
    """Return a `prim_func` that allocates and returns the arguments at `out_idx`: `tilelang.compile`."""
    from mlirtri.kernels.factories import with_results  # loads late, as in mlirtri

    return with_results(function, out_idx, **options)


lazy_jit = jit
Buffer = SharedBuffer = FragmentBuffer = LocalBuffer = Tensor
symbolic, dtype = dynamic, DType
globals().update({name: LanguageFunction(f"tile.{name}") for name in TILE_FUNCTIONS})
globals().update({name: DTYPES[name] for name in DTYPES})
globals().update({name: DTYPES[_WORDS[name]] for name in ("float", "half", "double")})
globals().update({name: LanguageFunction(function or name) for name, function in ELEMENTWISE.items()})
match_buffer, print = LanguageFunction("match_buffer"), LanguageFunction("device_print")


INSTEAD = {
    **dict.fromkeys(
        ("get_thread_binding", "get_thread_bindings", "get_lane_idx", "get_warp_idx", "thread_binding"),
        "a tile kernel says what a block does: write the work of all its threads as `for i in T.Parallel(n)`",
    ),
    **dict.fromkeys(
        ("alloc_barrier", "mbarrier_arrive", "mbarrier_wait_parity", "barrier_arrive", "barrier_wait", "ws",
         "ptx_wait_group", "cp_async_barrier_noinc", "fence_proxy_async", "wait_wgmma", "warpgroup_arrive"),
        "barriers and asynchronous copies follow from T.copy in `for k in T.Pipelined(n, num_stages=3)`",
    ),
    **dict.fromkeys(
        ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), instead_of("float8"),
    ),
    "const": "annotate the arguments, A: T.Tensor[[int, int], T.float16], and write M, N = A.shape",
    "Persistent": "write the number of tiles as the grid of T.Kernel",
    "gemm_sp": "products of sparse tiles are not there: write T.gemm of dense ones",
    "get_profiler": "`mlirtri bench` measures a kernel, and kernel.stats has its figures",
    "alloc_reducer": "write T.alloc_fragment, T.clear and T.reduce_sum",
    "call_extern": "register TensorIR with mt.tensorir and call that",
}  # fmt: skip
"""What to write in place of TileLang's names that tile kernels do not have."""


def __getattr__(name: str) -> Any:
    """Raise `AttributeError` for a name that tile kernels do not have, with what to write instead."""
    instead = INSTEAD.get(name, "dir(mlirtri.tile) lists them")
    raise AttributeError(f"module 'mlirtri.tile' has no attribute {name!r}: {instead}")
