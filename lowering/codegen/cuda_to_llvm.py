"""Build the host's half of a kernel that runs on both kinds of devices (cuda → llvm).

The executable runs the functions of both halves in order, copies between the devices included. The CUDA half is built
at the first call.
"""

from __future__ import annotations

from mlirtri.errors import CodegenError
from mlirtri.lowering.codegen.scheduled_to_cuda import executable_of
from mlirtri.lowering.codegen.scheduled_to_llvm import build, stable_text
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.external.vdevices import is_for, targets_in
from mlirtri.lowering.runtime.planner import make_plan
from mlirtri.lowering.runtime.torch_threads import is_for_torchs_threads, loading, use_threads
from mlirtri.lowering.runtime.tvm_executable import Library
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs


def lower(code: Code, context: CompileContext) -> Code:
    """Return LLVM IR of the host's functions, and the executable of the whole kernel."""
    if code.payload is None:
        raise CodegenError("this CUDA source comes without a module", help="compile the kernel from an earlier stage")
    mod = code.payload
    cpu, cuda = sorted(targets_in(mod, context.target), key=lambda target: target.is_cuda)
    use_threads(cpu.threads)
    functions = prim_funcs(mod)
    on_host = [pair for pair in functions if is_for(pair[1], "cpu")]
    on_device = [pair for pair in functions if is_for(pair[1], "cuda")]
    module = build(on_host, tvm_target(cpu)) if on_host else None
    text = module.inspect_source("ll") if module is not None else "; no kernel\n"
    library = Library(module, cpu.threads, is_for_torchs_threads(text)) if module is not None else None
    with loading(library is not None and library.has_loops, cpu.threads):
        for name, _ in on_host:
            module.implements_function(name)
    executable = executable_of(on_device, code.text, make_plan(mod), cuda, library)
    return Code(stable_text(text), executable, module)
