"""mlirtri: a kernel compiler from plain Python through MLIR and TVM Relax to CPU code and CUDA source.

    import mlirtri as mt

    @mt.jit
    def add(a, b):
        return a + b

MLIR, TVM and torch load when the first kernel compiles, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.errors import KernelError
from mlirtri.kernels.jit import JitFunction, jit
from mlirtri.language.names import LanguageFunction, Macro, Ref, Tensor, device_print, macro, static_range
from mlirtri.lowering.core.forks import watch as _watch_forks

__version__ = "0.1.0"

__all__ = [
    "Config",
    "JitFunction",
    "Kernel",
    "KernelError",
    "Macro",
    "Ref",
    "Tensor",
    "autotune",
    "compare",
    "device",
    "device_print",
    "from_jax",
    "from_mlir",
    "from_onnx",
    "from_relax",
    "from_stablehlo",
    "from_torch",
    "from_tosa",
    "jit",
    "macro",
    "relax",
    "resume",
    "static_range",
    "tensorir",
    "tune",
]  # fmt: skip

if TYPE_CHECKING:
    from mlirtri import relax
    from mlirtri.kernels.kernel import Kernel
    from mlirtri.kernels.session import resume
    from mlirtri.lowering.external.devices import device
    from mlirtri.lowering.external.tensorir import tensorir
    from mlirtri.measure.autotuning import autotune
    from mlirtri.measure.comparison import compare
    from mlirtri.measure.configurations import Config
    from mlirtri.measure.tuning import tune
    from mlirtri.programs.mlir_program import from_mlir
    from mlirtri.programs.onnx_program import from_onnx
    from mlirtri.programs.relax_program import from_relax
    from mlirtri.programs.stablehlo_program import from_jax, from_stablehlo
    from mlirtri.programs.torch_programs.program import from_torch
    from mlirtri.programs.tosa_program import from_tosa

_watch_forks()
globals().update(DTYPES)
_LAZY = {
    "compare": "mlirtri.measure.comparison",
    "autotune": "mlirtri.measure.autotuning",
    "Config": "mlirtri.measure.configurations",
    "tune": "mlirtri.measure.tuning",
    "from_mlir": "mlirtri.programs.mlir_program",
    "from_torch": "mlirtri.programs.torch_programs.program",
    "from_onnx": "mlirtri.programs.onnx_program",
    "from_relax": "mlirtri.programs.relax_program",
    "from_stablehlo": "mlirtri.programs.stablehlo_program",
    "from_jax": "mlirtri.programs.stablehlo_program",
    "from_tosa": "mlirtri.programs.tosa_program",
    "Program": "mlirtri.programs.program",
    "Kernel": "mlirtri.kernels.kernel",
    "resume": "mlirtri.kernels.session",
    "Pipeline": "mlirtri.lowering.pipelines",
    "tensorir": "mlirtri.lowering.external.tensorir",
    "device": "mlirtri.lowering.external.devices",
}
_MODULES = ("relax",)
_STATIC = ("static_print", "static_assert")


def __getattr__(name: str) -> Any:
    """Language functions, and what loads late. The names are those of the op table and `mlirtri.*` spellings."""
    if name in _LAZY:
        from importlib import import_module

        value = getattr(import_module(_LAZY[name]), name)
    elif name in _MODULES:
        from importlib import import_module

        value = import_module(f"mlirtri.{name}")
    elif name in _STATIC or _is_language_function(name):
        value = LanguageFunction(name)
    else:
        raise AttributeError(f"module 'mlirtri' has no attribute {name!r}")
    globals()[name] = value
    return value


def _is_language_function(name: str) -> bool:
    if name.startswith("_"):
        return False
    from mlirtri.dialect.spellings import registry as spellings

    return spellings.lookup(f"mlirtri.{name}") is not None
