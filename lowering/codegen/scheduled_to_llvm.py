"""Compile the scheduled module to machine code for this CPU, shown as LLVM IR (scheduled → llvm)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from mlirtri.errors import CodegenError, KernelError
from mlirtri.lowering.codegen.lowered_functions import Named, built, find_in, host_ready, on_failing_line
from mlirtri.lowering.codegen.passes.source_locations import named_file
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.runtime.planner import make_plan
from mlirtri.lowering.runtime.torch_threads import is_for_torchs_threads, loading, use_threads
from mlirtri.lowering.runtime.tvm_executable import Library, MachineExecutable, make_executable, separate_results
from mlirtri.lowering.toolchain.tvm_names import IMPERATIVE, VIEW, IRModule, PrimFunc, RuntimeModule, Target, relax
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs, relax_functions, short_message, source_span


def lower(mod: IRModule, context: CompileContext) -> Code:
    use_threads(context.target.threads)
    target = tvm_target(context.target)
    plan = make_plan(mod, 0 if context.interface is None else len(context.interface.bound))
    if plan is None:
        return _for_machine(mod, target, context.target.threads)
    # Views only change shapes and need no code.
    functions = [(name, function) for name, function in prim_funcs(mod) if VIEW not in (function.attrs or {})]
    if not functions:
        return Code("; no kernel\n", make_executable(plan, _none))
    module = build(functions, target, separate_results(plan))
    text = module.inspect_source("ll")
    long = tuple(name for name, function in functions if IMPERATIVE in (function.attrs or {}))
    library = Library(module, context.target.threads, is_for_torchs_threads(text), long)
    with loading(library.has_loops, library.threads):
        executable = make_executable(plan, find_in(module), library)
    return Code(named_file(stable_text(text), _files(mod)), executable, module)


def build(functions: Sequence[Named], target: Target, results: Mapping[str, int] | None = None) -> RuntimeModule:
    """Return the runtime module of these PrimFuncs; raises `CodegenError` on the line of one that TVM refuses.

    `results` are parameters for which the functions check that they share memory with no other.
    """

    def attempt(some: Sequence[Named]) -> RuntimeModule:
        return built(some, target, results)

    return on_failing_line(functions, attempt, "TVM made no code")


def stable_text(text: str) -> str:
    """Return LLVM IR with the addresses in TVM's names of memory regions renumbered in order of appearance."""
    numbers: dict[str, int] = {}
    return re.sub(r'!"0x[0-9a-f]+', lambda match: f'!"region{numbers.setdefault(match.group(), len(numbers))}', text)


def _files(mod: IRModule) -> set[str]:
    return {own.file for _, function in prim_funcs(mod) if (own := source_span(function))}


def _none(name: str) -> NoReturn:
    raise CodegenError(f"there is no kernel {name}")


def _for_machine(mod: IRModule, target: Target, threads: int) -> Code:
    functions = {
        gv: host_ready(function) if isinstance(function, PrimFunc) else function
        for gv, function in mod.functions_items()
    }
    try:
        compiled = relax.build(IRModule(functions, attrs=mod.attrs), target)
    except KernelError:
        raise
    except Exception as error:
        raise CodegenError(f"TVM made no code: {short_message(error)}") from None
    (name, _), *_ = relax_functions(mod)
    libraries = [module for module in compiled.mod.imports if module.kind == "llvm"]
    text = "".join(module.inspect_source("ll") for module in libraries)
    library = Library(compiled.jit(), threads, is_for_torchs_threads(text))
    with loading(library.has_loops, threads):
        for module in libraries:
            module.implements_function(name)
    machine = MachineExecutable(library, name, len(prim_funcs(mod)))
    return Code(named_file(stable_text(text), _files(mod)), machine, libraries[0] if libraries else None)
