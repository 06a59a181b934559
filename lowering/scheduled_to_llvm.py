"""scheduled → llvm: machine code for this CPU, shown as LLVM IR.

Takes the scheduled module. Gives `Code`: the IR text, the runtime module as payload, and the executable.
The module is compiled once; `llvm_to_asm` reads the same one. Raises `CodegenError` on the line of the kernel.
"""

from __future__ import annotations

import re

from mlirtri.errors import CodegenError
from mlirtri.lowering.bfloat16_storage import keep_bfloat16
from mlirtri.lowering.buffer_alignment import without_alignment
from mlirtri.lowering.launch_plan import make_plan
from mlirtri.lowering.stage import Code, CompileContext
from mlirtri.lowering.tvm_executable import MachineExecutable, make_executable, use_threads
from mlirtri.lowering.tvm_names import IRModule, PrimFunc, relax, tvm
from mlirtri.lowering.tvm_passes import place_of, prim_funcs, relax_functions, short_message
from mlirtri.lowering.tvm_targets import BUILD_PIPELINE, tvm_target


def lower(mod: IRModule, context: CompileContext) -> Code:
    """LLVM IR and what runs it."""
    use_threads(context.target.threads)
    target = tvm_target(context.target)
    plan = make_plan(mod)
    if plan is None:
        return _for_machine(mod, target)
    functions = prim_funcs(mod)
    if not functions:
        return Code("; no kernel\n", make_executable(plan, _none))
    library = build(functions, target)
    return Code(stable_text(library.inspect_source("ll")), make_executable(plan, library.__getitem__), library)


def build(functions, target):
    """The runtime module of these PrimFuncs; raises `CodegenError` on the line of one that TVM refuses."""
    try:
        return tvm.tirx.build(_public(functions), target=target, pipeline=BUILD_PIPELINE)
    except Exception as error:
        place = next((place_of(function) for pair in functions if _fails(pair, target) for function in pair[1:]), None)
        raise CodegenError(f"TVM made no code: {short_message(error)}", place) from None


def host_ready(function: PrimFunc) -> PrimFunc:
    """The function without what TVM's lowering gets wrong on a CPU."""
    return without_alignment(keep_bfloat16(function))


def stable_text(text: str) -> str:
    """LLVM IR in which the addresses that TVM names memory regions by are numbered in order of appearance."""
    numbers: dict[str, int] = {}
    return re.sub(r'!"0x[0-9a-f]+', lambda match: f'!"region{numbers.setdefault(match.group(), len(numbers))}', text)


def _public(functions) -> IRModule:
    return IRModule({name: host_ready(function).with_attr("global_symbol", name) for name, function in functions})


def _fails(pair, target) -> bool:
    try:
        tvm.tirx.build(_public([pair]), target=target, pipeline=BUILD_PIPELINE)
    except Exception:
        return True
    return False


def _none(name: str):
    raise CodegenError(f"there is no kernel {name}")


def _for_machine(mod: IRModule, target) -> Code:
    """Branches: Relax's own compiler and machine."""
    functions = {
        gv: host_ready(function) if isinstance(function, PrimFunc) else function
        for gv, function in mod.functions_items()
    }
    try:
        compiled = relax.build(IRModule(functions, attrs=mod.attrs), target)
    except Exception as error:
        raise CodegenError(f"TVM made no code: {short_message(error)}") from None
    (name, _), *_ = relax_functions(mod)
    machine = MachineExecutable(compiled, name, len(prim_funcs(mod)), tvm.cpu())
    libraries = [module for module in compiled.mod.imports if module.kind == "llvm"]
    text = "".join(stable_text(module.inspect_source("ll")) for module in libraries)
    return Code(text, machine, libraries[0] if libraries else None)
