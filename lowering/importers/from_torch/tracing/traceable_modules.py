"""Trace a module: replace operators of Python numbers, quantised tensors, and views of `prims`.

Operators such as `torch.ops.aten.Bool` read an element, which a trace does not have; their Python equivalents can be
traced. Views of `prims` cannot be functionalised, those of ATen can.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.forks import renewed
from mlirtri.lowering.importers.from_torch.tracing.data_dependent_functions import FUNCTIONS
from mlirtri.lowering.importers.from_torch.tracing.quantized_tensors import QuantisedTensors

aten, prims = torch.ops.aten, torch.ops.prims
EXPORTING = renewed(threading.RLock())
"""torch.export keeps what it is at in globals."""


@contextmanager
def traceable(module: torch.nn.Module, strict: bool) -> Iterator[None]:
    """Make a module traceable within the context; changes `torch.ops.aten`, so only one thread may trace at a time."""
    # Dynamo looks for an overload before it asks a mode.
    originals = {name: getattr(aten, name) for name in _WITHOUT_TENSORS}
    try:
        for name, replacement in _WITHOUT_TENSORS.items():
            setattr(aten, name, replacement)
        with _TracingMode(strict) as mode:
            hook = None if strict else module.register_forward_hook(mode.check_results)
            try:
                yield
            finally:
                if hook is not None:
                    hook.remove()
    finally:
        for name, packet in originals.items():
            setattr(aten, name, packet)


class _TracingMode(TorchFunctionMode):
    def __init__(self, strict: bool) -> None:
        super().__init__()
        self.strict = strict
        """Whether Dynamo asks for examples only, and writes down calls itself."""
        self.quantised = QuantisedTensors()
        self.filled: dict[int, tuple[Any, Any]] = {}
        """Fresh tensors of one number by their identities: with the number, and kept alive."""

    def check_results(self, _module: Any, _args: Any, results: Any) -> None:
        self.quantised.refuse_results(results)

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        _refuse_new_memory(func)
        if not self.strict:
            result = self.quantised.call(func, args, kwargs)
            if result is not NotImplemented:
                return result
            if func in FUNCTIONS and (result := FUNCTIONS[func](*args, **kwargs)) is not NotImplemented:
                return result
        if func is torch.Tensor.item and id(args[0]) in self.filled:
            return self.filled[id(args[0])][1]
        if func is torch.arange and isinstance(kwargs.get("out"), torch.Tensor):
            return _arange_into(kwargs.pop("out"), *args, **kwargs)
        if func in _CONVOLUTIONS_BACK:
            args, kwargs = _with_sizes_of_bias(args, kwargs)
        for argument in (*args, *kwargs.values()):
            # The tensor may be written.
            self.filled.pop(id(argument), None)
        replacement = _SCALAR_FUNCTIONS.get(func)
        if replacement is not None and not kwargs and any(isinstance(argument, _NUMBERS) for argument in args):
            return replacement(*args)
        result = func(*args, **kwargs)
        if func in _FILLING and not self.strict and result.numel() == 1:
            number = _FILLING[func]
            self.filled[id(result)] = result, int(number) if not result.dtype.is_floating_point else float(number)
        return result


_SET_DATA = torch.Tensor.data.__set__
_CONVOLUTIONS_BACK = (aten.convolution_backward, aten.convolution_backward.default)
"""Eager takes None for the sizes of the bias, which a trace needs."""
_FILLING = {torch.ones: 1, torch.zeros: 0}


def _refuse_new_memory(func: Any) -> None:
    if func == _SET_DATA:
        raise UnsupportedOperationError(
            "tensor.data = … is lost in a trace", help="write tensor.copy_(…), which the program does too"
        )


def _with_sizes_of_bias(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    sizes = [args[0].shape[1]]
    if len(args) > 3 and args[3] is None:
        return (*args[:3], sizes, *args[4:]), kwargs
    return args, {**kwargs, "bias_sizes": sizes} if kwargs.get("bias_sizes", 0) is None else kwargs


def _arange_into(out: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Return `out` filled by `torch.arange`, also with several axes, which torch does not trace."""
    return out.copy_(torch.arange(*args, **{"dtype": out.dtype, **kwargs}).view(out.shape))


_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _element(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else x


def _boolean(x: Any) -> Any:
    return _element(x) != 0


def _integer(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(torch.int64).item()
    return torch.sym_ite(x, 1, 0) if isinstance(x, (bool, torch.SymBool)) else torch.sym_int(x)


def _real(x: Any) -> Any:
    return torch.sym_float(_element(x))


_WITHOUT_TENSORS: dict[str, Callable[[Any], Any]] = {
    "ScalarImplicit": _element,
    "FloatImplicit": _element,
    "IntImplicit": _element,
    "Bool": _boolean,
    "Int": _integer,
    "Float": _real,
}
_SCALAR_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.sqrt: lambda x: torch.sym_float(x) ** 0.5,
    aten.ceil: math.ceil,
    aten.floor: math.floor,
    aten.div: lambda x, y: x / y,
    aten.add: lambda x, y: x + y,
    aten.sub: lambda x, y: x - y,
    aten.mul: lambda x, y: x * y,
    aten.eq: lambda x, y: x == y,
    aten.ne: lambda x, y: x != y,
    aten.lt: lambda x, y: x < y,
    aten.le: lambda x, y: x <= y,
    aten.gt: lambda x, y: x > y,
    aten.ge: lambda x, y: x >= y,
}


def replace_prims_views(module: torch.fx.GraphModule) -> None:
    """Replace views of `prims` by those of ATen, in place."""
    for node in module.graph.nodes:
        replacement = _VIEWS.get(node.target) if node.op == "call_function" else None
        if replacement is not None and not node.kwargs:
            node.target, node.args = replacement(*node.args)
    module.recompile()


_VIEWS: dict[Any, Callable[..., tuple[Any, tuple]]] = {
    prims.view_of.default: lambda x: (aten.alias.default, (x,)),
    prims.squeeze.default: lambda x, axes: (aten.squeeze.dims, (x, list(axes))),
    prims.transpose.default: lambda x, order: (aten.permute.default, (x, list(order))),
    prims.collapse_view.default: lambda x, first, last: (aten.flatten.using_ints, (x, first, last)),
    prims.split_dim.default: lambda x, axis, outer: (aten.unflatten.int, (x, axis, [outer, -1])),
    prims.real.default: lambda x: (aten.real.default, (x,)),
    prims.imag.default: lambda x: (aten.imag.default, (x,)),
}
