"""Build the host's half of a kernel that runs on both kinds of devices (cuda → llvm).

The executable runs the functions of both halves in order, copies between the devices included. The CUDA half is built
at the first call.
"""

from __future__ import annotations

from mlirtri.errors import CodegenError
from mlirtri.lowering.codegen.scheduled_to_cuda import CudaExecutable
from mlirtri.lowering.codegen.scheduled_to_llvm import build, stable_text
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.external.vdevices import is_for, targets_in
from mlirtri.lowering.runtime.planner import make_plan
from mlirtri.lowering.runtime.torch_threads import is_for_torchs_threads, loading, use_threads
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
    library = build(on_host, tvm_target(cpu)) if on_host else None
    text = library.inspect_source("ll") if library is not None else "; no kernel\n"
    with loading(is_for_torchs_threads(text), cpu.threads):
        host = {name: library[name] for name, _ in on_host} if library is not None else {}
    executable = CudaExecutable(on_device, make_plan(mod), tvm_target(cuda), host)
    return Code(stable_text(text), executable, library)
