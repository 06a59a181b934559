"""`mlirtri.tensorir`: the user's TensorIR functions, called in kernels like any other function.

    @mt.tensorir
    @T.prim_func(s_tir=True)
    def scaled_add(a: T.handle, b: T.handle, c: T.handle): …        # the last parameter is the result

    @mt.jit
    def kernel(x, y):
        return scaled_add(x, y) + 1                                  # no placeholder for it

Takes a PrimFunc, or a Python function that returns one for the types of a call. Gives a function for kernels. Sizes
that are variables in the PrimFunc are bound by the arguments. Refuses arguments that do not fit, at the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.errors import KernelTypeError, UnknownOptionError
from mlirtri.lowering.external.base import External


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


def tensorir(function: Any = None, *, outputs: int = 1, shape: Callable[..., Any] | None = None) -> Any:
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
