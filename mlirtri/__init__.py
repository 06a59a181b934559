"""mlirtri: a kernel compiler from plain Python through MLIR and TVM Relax to CPU code and CUDA source.

    import mlirtri as mt

    @mt.jit
    def add(a, b):
        return a + b

This import loads none of MLIR, TVM, torch and NumPy: MLIR loads with the first compilation, torch with the first call
that has tensors of its own or is not in the disk cache, TVM with the first compilation by a pipeline that uses it.

The packages of this folder, in reading order: `errors`, `settings`, `trace` (pages of stages and passes), `language`
(names and signatures), `tile` (tile kernels), `relax` (TVM's operators), `kernels` (`@jit`), `compiler` (the loop over
the stages), `cache` (kernels on disk), `calls`, `programs`, `sources` (what files hold), `measure`, `testing`, `lit`,
`reduce`, `serve`, `lsp`, `cli`, `opt`, `pages`. The dialect and its op table are `mlirtri.dialect`, in the folder
`dialect/` beside this one; the lowerings are `mlirtri.lowering`, in `lowering/`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlirtri.errors import did_you_mean
from mlirtri.lowering.core.forks import watch as _watch_forks

__version__ = "0.1.0"

__all__ = [
    "Config", "JitFunction", "Kernel", "KernelError", "Macro", "Pipeline", "Ref", "Stage", "StridedTensor", "Tensor",
    "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xor", "autotune",
    "compare", "device", "device_print", "dyn", "from_jax", "from_mlir", "from_onnx", "from_relax",
    "from_stablehlo", "from_torch", "from_tosa", "graph", "jit", "lit", "load", "macro", "ndrange", "prange",
    "profile", "ptr", "relax", "resume", "serial", "static", "static_range", "tensorir", "testing", "torch_op",
    "torch_report", "tune",
]  # fmt: skip

if TYPE_CHECKING:
    from mlirtri import lit, relax, testing
    from mlirtri.errors import KernelError
    from mlirtri.kernels.configuration import Config
    from mlirtri.kernels.graph import graph
    from mlirtri.kernels.jit import JitFunction, jit
    from mlirtri.kernels.kernel import Kernel
    from mlirtri.kernels.saved import load
    from mlirtri.kernels.session import resume
    from mlirtri.language.dimensions import dyn
    from mlirtri.language.names import (
        Macro,
        Ref,
        StridedTensor,
        Tensor,
        atomic_add,
        atomic_and,
        atomic_cas,
        atomic_max,
        atomic_min,
        atomic_or,
        atomic_xor,
        device_print,
        macro,
        ndrange,
        prange,
        ptr,
        serial,
        static,
        static_range,
    )
    from mlirtri.lowering.core.stage import Stage
    from mlirtri.lowering.external.objects import device, tensorir
    from mlirtri.lowering.pipelines import Pipeline
    from mlirtri.measure.autotuning import autotune
    from mlirtri.measure.comparison import compare
    from mlirtri.measure.profile import profile
    from mlirtri.measure.tuning import tune
    from mlirtri.programs.mlir_program import from_mlir, from_tosa
    from mlirtri.programs.onnx_program import from_onnx
    from mlirtri.programs.relax_program import from_relax
    from mlirtri.programs.stablehlo_program import from_jax, from_stablehlo
    from mlirtri.programs.torch_programs.compile_report import torch_report
    from mlirtri.programs.torch_programs.custom_op import torch_op
    from mlirtri.programs.torch_programs.program import from_torch

_watch_forks()
_NAMES = {
    "errors": "KernelError",
    "language.dimensions": "dyn",
    "language.names": "Macro Ref StridedTensor Tensor atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or "
    "atomic_xor device_print macro ndrange prange ptr serial static static_range",
    "lowering.core.stage": "Stage",
    "lowering.external.objects": "device tensorir",
    "lowering.pipelines": "Pipeline",
    "kernels.configuration": "Config",
    "kernels.graph": "Graph graph",
    "kernels.jit": "JitFunction jit",
    "kernels.kernel": "Kernel",
    "kernels.saved": "load",
    "kernels.session": "resume",
    "measure.autotuning": "autotune",
    "measure.comparison": "compare",
    "measure.profile": "profile",
    "measure.tuning": "tune",
    "programs.mlir_program": "from_mlir from_tosa",
    "programs.onnx_program": "from_onnx",
    "programs.program": "Program",
    "programs.relax_program": "from_relax",
    "programs.stablehlo_program": "from_jax from_stablehlo",
    "programs.torch_programs.compile_report": "torch_report",
    "programs.torch_programs.custom_op": "torch_op",
    "programs.torch_programs.program": "from_torch",
}
"""The public names of each module, which loads with the first use of one: a command that a server runs needs none."""
_LAZY = {name: f"mlirtri.{module}" for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("errors", "lit", "relax", "settings", "testing")
"""Public modules, which load late, too."""
_STATIC = ("static_print", "static_assert", "match_buffer")


def __getattr__(name: str) -> Any:
    """Return a public name: of a module that loads now, a dtype, or the stub of a function of the language."""
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
    elif name in _MODULES:
        value = import_module(f"mlirtri.{name}")
    else:
        value = None if name.startswith("_") else _dtype_or_function(name)
    if value is None:
        near = "" if name.startswith("_") else did_you_mean(name, __dir__(), 3).rstrip()
        text = f"module 'mlirtri' has no attribute {name!r}: {near or 'dir(mlirtri) lists them'}"
        # With an `obj`, Python would add a suggestion of its own.
        raise AttributeError(text, name=name, obj=None)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names: those of modules, the dtypes, and the functions of the language."""
    from mlirtri.dialect.base.dtypes import DTYPES
    from mlirtri.dialect.spellings import registry  # as below

    functions = {name.removeprefix("mlirtri.") for name in registry.SPELLINGS if name.startswith("mlirtri.")}
    return sorted({*globals(), *_LAZY, *_MODULES, *_STATIC, *DTYPES, *functions})


def _dtype_or_function(name: str) -> Any:
    from mlirtri.dialect.base.dtypes import DTYPES

    if name in DTYPES:
        return DTYPES[name]
    from mlirtri.dialect.spellings import registry  # imports every file of spellings: not with a dtype
    from mlirtri.language.names import LanguageFunction

    known = name in _STATIC or registry.lookup(f"mlirtri.{name}") is not None
    return LanguageFunction(name) if known else None
