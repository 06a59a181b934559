"""A kernel of an ONNX model, with the dtypes that ONNX has and torch has not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from mlirtri.kernels.kernel import Kernel


class OnnxKernel(Kernel):
    """A kernel whose function holds `ml_dtypes`' narrow integers as 8-bit ones, and narrow floats as their codes."""

    stored_outputs: Mapping[int, str] = MappingProxyType({})
    """The dtypes of such results, by position."""

    def saved(self, folder: Path) -> dict[str, Any]:
        return {"stored_outputs": [list(pair) for pair in self.stored_outputs.items()]}

    def restore(self, facts: dict[str, Any], folder: Path) -> None:
        self.stored_outputs = {position: name for position, name in facts["stored_outputs"]}

    def _short_call(self) -> Callable[..., Any]:
        call = super()._short_call()
        return lambda *arguments, **keywords: self._narrowed(call(*map(_widened, arguments), **keywords))

    def _general_call(self, /, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        wide = {name: _widened(value) for name, value in keywords.items()}
        return self._narrowed(super()._general_call(*map(_widened, arguments), out=out, **wide))

    def _narrowed(self, results: Any) -> Any:
        if not self.stored_outputs:
            return results
        if not isinstance(results, tuple):
            return _narrow(results, self.stored_outputs[0])
        dtypes = self.stored_outputs
        return tuple(_narrow(result, dtypes.get(position)) for position, result in enumerate(results))


def _widened(value: Any) -> Any:
    name = getattr(getattr(value, "dtype", None), "name", "")
    if name in ("int4", "uint4", "int2", "uint2"):
        return value.astype(f"{name[:-1]}8")
    return value.view(np.uint8) if name in ("float4_e2m1fn", "float8_e8m0fnu") else value


def _narrow(result: Any, name: str | None) -> Any:
    """Return a result with the dtype that ONNX says, which torch has not."""
    if name is None or not isinstance(result, np.ndarray):
        return result
    dtype = np.dtype(getattr(ml_dtypes, name))
    return result.view(dtype) if name.startswith("float") else result.astype(dtype)
