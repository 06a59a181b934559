"""`mlirtri.relax`: every function of TVM's `relax.op`, called by its name in a kernel.

    mt.relax.nn.gelu(x)    mt.relax.split(x, 2, axis=1)    tvm.relax.op.sigmoid(x)

Takes tensors for its tensor parameters, also in lists, and values known at compile time for the others. Gives
a tensor, or a tuple of them, of the dtype that Relax infers, without NumPy's or torch's promotion.
Refuses, with Relax's message, operands that do not fit, and functions that do not return tensors of known shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isfunction
from math import isnan
from typing import Any

import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.external.base import External

ELSEWHERE = {
    "to_vdevice": "write `with mlirtri.device(…):`", "hint_on_device": "write `with mlirtri.device(…):`",
    "call_tir": "register the function with mlirtri.tensorir and call it",
}  # fmt: skip
"""Functions that kernels call in another form."""


@dataclass(frozen=True, repr=False)
class RelaxFunction(External):
    """A function or group of `relax.op` by its dotted name, which is looked up when it is called."""

    path: str

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"mlirtri.relax.{self.path}"

    def __getattr__(self, name: str) -> RelaxFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        return RelaxFunction(f"{self.path}.{name}")

    def member(self, name: str) -> RelaxFunction:
        return getattr(self, name)

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        from mlirtri.lowering.external import calls as external_calls
        from mlirtri.lowering.external import relax_calls

        if self.path in ELSEWHERE:
            raise KernelTypeError(f"{self.__name__} is not for kernels", help=ELSEWHERE[self.path])
        bound = relax_calls.bind(self.path, arguments, keywords)
        call, types = _inferred(self.path, bound, language)
        values = {"function": self.path, "arguments": call.text}
        results = external_calls.call(language.tri, "relax", self.path, values, call.tensors, types)
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


def of_tvm(function: Any) -> RelaxFunction | None:
    """Return the `RelaxFunction` of a function of TVM's own `relax.op`, which kernels may name too; None for others."""
    module = getattr(function, "__module__", None) or ""
    if not isfunction(function) or not module.startswith("tvm.relax.op."):
        return None
    group = module.split(".")[3]
    return RelaxFunction(f"{group}.{function.__name__}" if group in ("nn", "image") else function.__name__)


def _inferred(path: str, bound: dict[str, Any], language: Any) -> tuple[Call, list[TensorType]]:
    """Return the call and its result types; Python numbers become tensors where Relax takes only those."""
    from mlirtri.lowering.external import relax_calls

    attempt = Call.of(bound)
    try:
        return attempt, relax_calls.result_types(path, attempt.text, attempt.types)
    except KernelTypeError as error:
        numbers = [name for name in relax_calls.tensor_parameters(path) if type(bound.get(name)) in (int, float, bool)]
        if not numbers:
            raise
        dtype = attempt.types[0].dtype if attempt.types else None
        as_tensors = Call.of(bound | {name: language.tensor(bound[name], dtype) for name in numbers})
        try:
            return as_tensors, relax_calls.result_types(path, as_tensors.text, as_tensors.types)
        except KernelTypeError:
            raise error from None


@dataclass(frozen=True)
class Call:
    """A call as text, in which ``_0``, ``_1``… stand for the tensors."""

    text: str
    tensors: tuple[Any, ...]

    @classmethod
    def of(cls, bound: dict[str, Any]) -> Call:
        """Return the call with these arguments by parameter name."""
        tensors: list[Any] = []
        text = ", ".join(f"{name}={_text(value, tensors)}" for name, value in bound.items())
        return cls(text, tuple(tensors))

    @property
    def types(self) -> list[TensorType]:
        return [tensor.type for tensor in self.tensors]


def _text(value: Any, tensors: list[Any]) -> str:
    """Return a value as Python source; the tensors in it are appended to `tensors`."""
    if isinstance(getattr(value, "type", None), TensorType):
        tensors.append(value)
        return f"_{len(tensors) - 1}"
    if isinstance(value, (tuple, list)):
        parts = ", ".join(_text(element, tensors) for element in value)
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    if isinstance(value, float) and not isnan(value):
        return repr(float(value)).replace("inf", "1e999")
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, (int, np.integer)):
        return repr(int(value))
    if (dtype := find_dtype(value)) is not None:
        return repr(dtype.name)
    raise KernelTypeError(
        f"{value!r} is no attribute of a Relax function",
        help="attributes are numbers, strings, None, dtypes, and tuples and lists of these, known at compile time",
    )
