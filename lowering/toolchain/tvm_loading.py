"""What makes ``import tvm`` cheap: no torch, no list of all functions per module, no C++ error that it means to ignore.

An error of TVM's carries a backtrace, and the first one of a process reads the symbols of all libraries: 0.4 to 0.9 s.
TVM's modules catch some hundred errors while they load, which say that something is not there.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mlirtri.lowering.toolchain.tvm_runtime import machine_library, without_torch


@contextlib.contextmanager
def loading_compiler() -> Iterator[None]:
    """Let the modules of TVM that are imported here load fast; afterwards all of them are as without it.

    The virtual machine comes first, whose types TVM's modules register and whose absence is such an error. The garbage
    collector would find nothing in the modules.
    """
    machine_library()
    collecting = gc.isenabled()
    gc.disable()
    try:
        with without_torch(), _answering_in_python():
            yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _answering_in_python() -> Iterator[None]:
    """Let `tvm_ffi` answer from lists that are made once what TVM's modules ask the libraries for."""
    registry = sys.modules["tvm_ffi.registry"]
    listing, getting = registry.list_global_func_names, registry.get_global_func
    replaced = _replacements(getting)
    registry.list_global_func_names = _lister(getting)
    registry.get_global_func = lambda name, *how, **named: replaced.get(name) or getting(name, *how, **named)
    try:
        yield
    finally:
        registry.list_global_func_names, registry.get_global_func = listing, getting
        functions = sys.modules.get("tvm.ir._ffi_api")
        for name in replaced if functions is not None else ():
            setattr(functions, name.removeprefix("ir."), getting(name))


def _lister(getting: Callable[..., Any]) -> Callable[[], list[str]]:
    """Return a function that lists the global functions, anew where there are more of them than last time."""
    names: list[str] = []

    def listed() -> list[str]:
        name = getting("ffi.FunctionListGlobalNamesFunctor")()
        if name(-1) != len(names):
            names[:] = [name(number) for number in range(name(-1))]
        return names

    return listed


def _replacements(getting: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions that do what TVM's of that name do, but raise without a backtrace."""
    operators: set[str] = set()

    def exists(name: str) -> bool:
        if name not in operators and len(known := getting("ir.ListOpNames")()) != len(operators):
            operators.update(map(str, known))
        return name in operators

    def operator(name: str) -> Any:
        if not exists(name):
            raise AttributeError(f"Operator {name} is not registered")
        return getting("ir.GetOp")(name)

    def set_attribute(name: str, key: str, value: Any, level: int) -> None:
        # What the operator has at this level cannot be set again; where the value is a text, it would not change.
        if isinstance(value, str) and exists(name):
            named = getting("ir.GetOp")(name)
            if getting("ir.OpHasAttr")(named, key) and getting("ir.OpGetAttr")(named, key) == value:
                return
        getting("ir.RegisterOpAttr")(name, key, value, level)
        operators.add(name)  # which comes into being with its first attribute

    return {"ir.GetOp": operator, "ir.RegisterOpAttr": set_attribute}
