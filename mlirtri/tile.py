"""The names of tile kernels: ``import mlirtri.tile as T``.

The functions of `T` are read by the compiler, inside of ``with T.Kernel(…)`` in a function of ``@mlirtri.jit``.
They are never run.
"""

from __future__ import annotations

from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.language.names import LanguageFunction

TILE_FUNCTIONS = (
    "Kernel", "Parallel", "Pipelined", "alloc_fragment", "alloc_local", "alloc_shared", "ceildiv", "clear", "copy",
    "cumsum", "fill", "gemm", "if_then_else", "reduce_absmax", "reduce_max", "reduce_min", "reduce_sum", "serial",
)  # fmt: skip
"""The functions that only tile kernels have; `lowering.frontend.tiles` lowers them."""
ELEMENTWISE = {
    **{name: name for name in ("abs", "ceil", "cos", "exp", "exp2", "floor", "log", "log2", "sin", "sqrt", "tanh")},
    "max": "maximum", "min": "minimum", "sigmoid": "sigmoid", "rsqrt": "rsqrt",
}  # fmt: skip
"""The functions of elements, by what the kernel language calls them."""

globals().update({name: LanguageFunction(f"tile.{name}") for name in TILE_FUNCTIONS})
globals().update({name: DTYPES[name] for name in DTYPES})
globals().update({name: LanguageFunction(function) for name, function in ELEMENTWISE.items()})


def __getattr__(name: str) -> Any:
    """Raise `AttributeError` for a name that tile kernels do not have."""
    raise AttributeError(f"module 'mlirtri.tile' has no attribute {name!r}: dir(mlirtri.tile) lists them")
