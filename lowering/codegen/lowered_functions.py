"""Lower scheduled PrimFuncs by TVM's own pipeline: one by one for the CPU, each once, and to source for CUDA.

The schedule rules share it with the stages: `llvm` reuses what a rule has lowered to try it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.errors import CodegenError, KernelError
from mlirtri.lowering.codegen.build_pipeline import BUILD_PIPELINE, LOWERED_PIPELINE
from mlirtri.lowering.codegen.passes.argument_checks import with_few_checks, with_separate_result
from mlirtri.lowering.codegen.passes.exact_doubles import with_literals, with_marked_doubles
from mlirtri.lowering.codegen.passes.host_functions import (
    has_halves,
    in_even_tasks,
    on_stack,
    without_alignment,
    without_conversions_of_halves,
)
from mlirtri.lowering.codegen.passes.repeated_statements import with_arguments_as_declared, with_calls_of_repeated
from mlirtri.lowering.codegen.passes.source_locations import with_spans
from mlirtri.lowering.codegen.passes.streaming_stores import with_streaming_stores
from mlirtri.lowering.core.forks import renewed
from mlirtri.lowering.runtime.torch_threads import TASKS
from mlirtri.lowering.tir.bfloat16_storage import keep_bfloat16
from mlirtri.lowering.toolchain.cuda_code import without_code
from mlirtri.lowering.toolchain.tvm_names import (
    IS_SCHEDULED,
    SCHEDULE_RULE,
    IRModule,
    PrimFunc,
    RuntimeModule,
    Target,
    address_of,
    tirx,
    tvm,
)
from mlirtri.lowering.toolchain.tvm_passes import first_failing, short_message

_LLVM_MODULE = renewed(threading.RLock())
"""Held while a module is compiled at a lookup, or printed: both use the module's LLVM context, which has no lock."""
_REMEMBERED = 256
"""The number of lowered functions kept until they are built."""
_NOT_LOWERED = ("global_symbol", SCHEDULE_RULE, IS_SCHEDULED)
"""Attributes that a function has only before or only after its schedule is accepted."""


def find_in(module: RuntimeModule) -> Callable[[str], Callable]:
    """Return the lookup of compiled functions of a module of TVM's, for several threads."""

    def find(name: str) -> Callable:
        with _LLVM_MODULE:
            return module[name]

    return find


def assembly_of(module: RuntimeModule) -> str:
    """Return the assembly of a module of TVM's, which another thread may look functions up in meanwhile."""
    with _LLVM_MODULE:
        return module.inspect_source("s")


@dataclass(frozen=True)
class _Lowered:
    function: PrimFunc
    attributes: Mapping[str, Any]
    module: IRModule

    def is_of(self, function: PrimFunc) -> bool:
        parameters, own = ([address_of(each) for each in some.params] for some in (function, self.function))
        return parameters == own and _attributes(function) == self.attributes


_tried: dict[tuple[Any, ...], _Lowered] = {}


def attempt(name: str, function: PrimFunc, target: Target) -> None:
    """Lower a function and cache the result; raises for loops that TVM cannot lower."""
    while len(_tried) >= _REMEMBERED:
        _tried.pop(next(iter(_tried)))
    module = _lower(name, function, target)
    _tried[_key(name, function, target)] = _Lowered(function, _attributes(function), module)


def built(functions: Iterable[Named], target: Target, results: Mapping[str, int] | None = None) -> RuntimeModule:
    """Return the runtime module of functions for this CPU.

    Those in `results` raise if the parameter at the given index shares memory with another.
    """
    merged, with_halves = IRModule({}), False
    for name, function in functions:
        with_halves = with_halves or has_halves(function)
        cached = _tried.pop(_key(name, function, target), None)
        is_known = cached is not None and cached.is_of(function)
        lowered = cached.module if is_known else _lower(name, function, target)
        if results and name in results:
            parts = dict(lowered.functions_items())
            for variable in parts:
                if variable.name_hint == name:
                    parts[variable] = with_separate_result(parts[variable], results[name], len(function.params))
            lowered = IRModule(parts, attrs=lowered.attrs)
        merged.update(lowered)
    if not with_halves:
        first, function = next(iter(merged.functions_items()))
        merged.update_func(first, without_conversions_of_halves(function))
    return tvm.tirx.build(merged, target=target, pipeline=LOWERED_PIPELINE)


def _lower(name: str, function: PrimFunc, target: Target) -> IRModule:
    pipeline, _, _ = tvm.tirx.get_tir_pipeline(BUILD_PIPELINE)
    module = with_calls_of_repeated(host_module([(name, function)]))
    lowered = pipeline(tirx.transform.BindTarget(target.with_host(target))(module))
    if len(lowered.functions) > 1:
        lowered = with_arguments_as_declared(lowered)
    tasks = TASKS * int(target.attrs.get("num-cores", 1))

    def finished(part: PrimFunc) -> PrimFunc:
        return in_even_tasks(with_streaming_stores(with_few_checks(part)), tasks)

    return IRModule({variable: finished(part) for variable, part in lowered.functions_items()}, attrs=lowered.attrs)


def _key(name: str, function: PrimFunc, target: Target) -> tuple[Any, ...]:
    # The cached body is kept alive, so that its address is not reused.
    return name, str(target), function.body.__chandle__()


def _attributes(function: PrimFunc) -> dict[str, Any]:
    return {key: value for key, value in dict(function.attrs or {}).items() if key not in _NOT_LOWERED}


Named = tuple[str, PrimFunc]


def host_module(functions: Iterable[Named]) -> IRModule:
    """Return the module of functions for this CPU, each of which callers see by its name."""
    return _public((name, host_ready(function)) for name, function in functions)


def cuda_module(functions: Iterable[Named]) -> IRModule:
    """Return the module of functions with loops on CUDA's threads, each of which launches its kernels."""
    return _public((name, keep_bfloat16(function)) for name, function in functions)


def host_ready(function: PrimFunc) -> PrimFunc:
    """Return the function without what TVM's lowering gets wrong on a CPU."""
    return with_spans(on_stack(without_alignment(keep_bfloat16(function))))


def _public(functions: Iterable[Named]) -> IRModule:
    return IRModule({name: function.with_attrs({"global_symbol": name}) for name, function in functions})


DEVICE_FUNCTION = 2
"""TVM's `calling_conv` of a function that runs on the device."""


def device_module(functions: Iterable[Named], target: Target) -> IRModule:
    """Return the device functions: ``<name>_kernel``, ``<name>_kernel_1``… for each PrimFunc."""
    pipeline, _, finish_device = tvm.tirx.get_tir_pipeline(BUILD_PIPELINE)
    mod = pipeline(tirx.transform.BindTarget(target)(cuda_module(functions)))
    on_device = tirx.transform.Filter(lambda function: int(function.attrs.get("calling_conv", 0)) == DEVICE_FUNCTION)
    return finish_device()(on_device(mod))


def source_of(device: IRModule, target: Target) -> str:
    """Return the CUDA source of device functions."""
    marked = IRModule({name: with_marked_doubles(function) for name, function in device.functions_items()})
    with without_code():
        text = with_literals(tvm.get_global_func("target.build.cuda")(marked, target).inspect_source())
    # TVM prints infinities and NaN of 16-bit floats by names that no header defines.
    text = re.sub(r"\binff\b", "__int_as_float(0x7f800000)", text)
    text = re.sub(r"\bnanf\b(?!\()", "__int_as_float(0x7fc00000)", text)
    # TVM places buffers by their alignment within the dynamic shared memory that they share, which itself has 64 bytes.
    # Tiles of warpgroups have the largest one.
    has_groups = "wgmma.mma_async" in text
    return re.sub(r"(extern __shared__) __align__\(64\)", r"\1 __align__(1024)", text) if has_groups else text


def on_failing_line(functions: Sequence[Named], attempt: Callable[[Any], Any], message: str) -> Any:
    """Return ``attempt(functions)``; raises `CodegenError` on the line of the first function on which it fails."""
    try:
        return attempt(functions)
    except KernelError as error:
        raise error.at(first_failing(functions, attempt)) from None
    except Exception as error:
        raise CodegenError(f"{message}: {short_message(error)}", first_failing(functions, attempt)) from None
