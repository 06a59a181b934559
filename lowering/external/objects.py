"""The objects that a kernel names and others compile: devices, functions of `relax.op`, TensorIR functions.

    mt.relax.nn.gelu(x)    mt.relax.split(x, 2, axis=1)    tvm.relax.op.sigmoid(x)    with mt.device("gpu"): …

    @mt.tensorir
    @T.prim_func(s_tir=True)
    def scaled_add(a: T.handle, b: T.handle, c: T.handle): …        # the last parameter is the result

Takes the arguments of a call in a kernel: tensors, and values known at compile time. Gives the tensors that it
returns, of the dtypes that Relax infers, without NumPy's or torch's promotion. Refuses arguments that do not fit, with
Relax's message or the parameter's name, and calls outside of a kernel. Imports neither MLIR nor TVM before a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import isfunction
from math import isnan
from typing import Any, NoReturn

import numpy as np

from mlirtri.dialect.base.dtypes import find_dtype
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, KernelTypeError, KernelValueError, UnknownOptionError, did_you_mean
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.core.tracebacks import public


class External:
    """A function that kernels call, or a group of such functions."""

    __name__ = "external"

    def member(self, name: str) -> Any:
        """Return ``self.name`` in a kernel; raise `KernelError` where there is none."""
        raise KernelTypeError(f"{self.__name__} has no attribute {name!r} in a kernel")

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Emit a call in a kernel and return a `TriValue`, or a tuple of them; raises `KernelError`."""
        raise KernelTypeError(f"{self.__name__} is not a function")

    @public
    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise KernelError(
            f"{self.__name__} is a function of kernels and was called outside of one",
            help="call it in a function decorated with @mlirtri.jit",
        )


KINDS = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}


@dataclass(frozen=True)
class Device(External):
    """One device of one kind, ``"cpu"`` or ``"cuda"``."""

    kind: str
    index: int = 0

    @classmethod
    def of(cls, target: Target) -> Device:
        """Return the first device of a target, which holds a kernel's arguments and results."""
        return cls(target.kind)

    @classmethod
    def named(cls, name: str) -> Device:
        """Return the device of a name such as ``cuda:0``."""
        kind, _, index = name.partition(":")
        return cls(kind, int(index))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    def member(self, name: str) -> Any:
        """Return `type` or `index`, as of a `torch.device`."""
        if name not in ("type", "index"):
            raise KernelTypeError(f"a device has no attribute {name!r} in a kernel", help="it has type and index")
        return self.kind if name == "type" else self.index

    @public
    def __enter__(self) -> None:
        raise KernelError(f"`with {self}:` stands in kernels only", help="write it in a function with @mlirtri.jit")

    def __exit__(self, *error: Any) -> None:
        """Never called: entering raises."""


class DeviceFunction(External):
    """`mlirtri.device`."""

    __name__ = "mlirtri.device"

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Device:
        """Return the device that a kernel names; emits nothing."""
        return self(*arguments, **keywords)

    @public
    def __call__(self, kind: Any = None, index: Any = 0, *others: Any, **keywords: Any) -> Device:  # type: ignore[override]
        """Return a device of a kind by its index: ``device("cpu")``, ``device("gpu", 1)``."""
        if others or keywords:
            raise KernelValueError("mlirtri.device takes a kind and a number", help='for example device("cpu", 1)')
        if not isinstance(kind, str) or kind not in KINDS:
            near = did_you_mean(kind, KINDS)
            raise KernelValueError(f"{kind!r} is not a kind of device", help=f"{near}the kinds are {', '.join(KINDS)}")
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise KernelValueError(
                f"expected the number of a device, got {index!r}", help="devices are numbered from 0"
            )
        return Device(KINDS[kind], index)


device = DeviceFunction()


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


def relax_function_of(function: object) -> RelaxFunction | None:
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


class TensorIRFunction(External):
    """A registered PrimFunc; see `tensorir`."""

    def __init__(self, function: Any, outputs: int, shape: Callable[..., Any] | None):
        self.function = function
        self.outputs = outputs
        self.shape = shape
        symbol = (getattr(function, "attrs", None) or {}).get("global_symbol")
        self.__name__ = str(symbol or getattr(function, "__name__", "tensorir"))

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        from mlirtri.lowering.external import calls as external_calls
        from mlirtri.lowering.external import tensorir_calls

        call = tensorir_calls.specialized(self, arguments, keywords)
        values = {"function": call.name, "source": call.source}
        results = external_calls.call(language.tri, "tensorir", call.name, values, call.tensors, call.results)
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        return f"<TensorIR function {self.__name__} for kernels>"


@public
def tensorir(function: object = None, *, outputs: int = 1, shape: Callable[..., object] | None = None) -> Any:
    """Register a PrimFunc for kernels: a decorator above ``@T.prim_func(s_tir=True)``, or a call.

    The last `outputs` parameters are the results; several come back as a tuple. `shape` is needed where their sizes do
    not follow from the arguments': a function of what the call is given (tensors as types with ``.shape`` and
    ``.dtype``) that gives a shape, or a list of one per result. Parameters that are no buffers take numbers known at
    compile time. It fuses with its neighbours if it has the attribute ``op_pattern`` (TVM's number: 0 elementwise,
    1 broadcast, 2 injective, 3 reduction, 4 matmul-like); what binds loops to threads or vectors keeps its schedule.

    Instead of a PrimFunc, a Python function may be given that returns one for the arguments of a call.
    """
    if function is None:
        return lambda decorated: tensorir(decorated, outputs=outputs, shape=shape)
    if not callable(function):
        raise KernelTypeError(
            f"tensorir takes a PrimFunc, not {function!r}", help="decorate it with @T.prim_func first"
        )
    if isinstance(outputs, bool) or not isinstance(outputs, int) or outputs < 1:
        raise UnknownOptionError(f"a TensorIR function has one result or more, not {outputs!r}")
    return TensorIRFunction(function, outputs, shape)
