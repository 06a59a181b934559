"""Lowers scheduled PrimFuncs once each: the stage `llvm` reuses what a schedule rule has lowered to try it.

Takes a name, a PrimFunc and TVM's target. Gives the module that the build pipeline makes of this function alone, and
the runtime module of several. Raises what TVM raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.codegen.build_modules import Named, host_module
from mlirtri.lowering.codegen.passes.argument_checks import with_one_message, with_separate_result
from mlirtri.lowering.codegen.passes.even_tasks import in_even_tasks
from mlirtri.lowering.codegen.passes.streaming_stores import with_streaming_stores
from mlirtri.lowering.codegen.targets import BUILD_PIPELINE, LOWERED_PIPELINE
from mlirtri.lowering.runtime.torch_threads import TASKS
from mlirtri.lowering.toolchain.tvm_attributes import IS_SCHEDULED, SCHEDULE_RULE
from mlirtri.lowering.toolchain.tvm_names import IRModule, PrimFunc, Target, tirx, tvm

_REMEMBERED = 256
"""The number of lowered functions kept until they are built."""
_NOT_LOWERED = ("global_symbol", SCHEDULE_RULE, IS_SCHEDULED)
"""Attributes that a function has only before or only after its schedule is accepted."""


@dataclass(frozen=True)
class _Lowered:
    function: PrimFunc
    attributes: Mapping[str, Any]
    module: IRModule

    def is_of(self, function: PrimFunc) -> bool:
        """Return whether `function` would be lowered to the same."""
        return (
            len(function.params) == len(self.function.params)
            and all(
                other.same_as(parameter) for other, parameter in zip(function.params, self.function.params, strict=True)
            )
            and _attributes(function) == self.attributes
        )


_tried: dict[tuple[Any, ...], _Lowered] = {}


def attempt(name: str, function: PrimFunc, target: Target) -> None:
    """Lower a function and cache the result; raises for loops that TVM cannot lower."""
    while len(_tried) >= _REMEMBERED:
        _tried.pop(next(iter(_tried)))
    module = _lower(name, function, target)
    _tried[_key(name, function, target)] = _Lowered(function, _attributes(function), module)


def built(functions: Iterable[Named], target: Target, results: Mapping[str, int] | None = None) -> Any:
    """Return the runtime module of functions for this CPU.

    Those in `results` raise if the parameter at the given index shares memory with another.
    """
    merged = IRModule({})
    for name, function in functions:
        cached = _tried.pop(_key(name, function, target), None)
        is_known = cached is not None and cached.is_of(function)
        lowered = cached.module if is_known else _lower(name, function, target)
        if results and name in results:
            parts = [(variable, with_separate_result(part, results[name], len(function.params)))
                     for variable, part in lowered.functions_items()]  # fmt: skip
            lowered = IRModule(dict(parts), attrs=lowered.attrs)
        merged.update(lowered)
    return tvm.tirx.build(merged, target=target, pipeline=LOWERED_PIPELINE)


def _lower(name: str, function: PrimFunc, target: Target) -> IRModule:
    pipeline, _, _ = tvm.tirx.get_tir_pipeline(BUILD_PIPELINE)
    lowered = pipeline(tirx.transform.BindTarget(target.with_host(target))(host_module([(name, function)])))
    tasks = TASKS * int(target.attrs.get("num-cores", 1))

    def finished(part: PrimFunc) -> PrimFunc:
        return in_even_tasks(with_streaming_stores(with_one_message(part)), tasks)

    return IRModule({variable: finished(part) for variable, part in lowered.functions_items()}, attrs=lowered.attrs)


def _key(name: str, function: PrimFunc, target: Target) -> tuple[Any, ...]:
    # The cached body is kept alive, so that its address is not reused.
    return name, str(target), function.body.__chandle__()


def _attributes(function: PrimFunc) -> dict[str, Any]:
    return {key: value for key, value in dict(function.attrs or {}).items() if key not in _NOT_LOWERED}
