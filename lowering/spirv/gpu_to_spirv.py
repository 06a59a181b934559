"""Convert GPU kernels to the spirv dialect by upstream passes, and serialise each to a binary.

Takes the module of `bufferized_to_gpu`. Gives the text of the SPIR-V modules, and their binaries by the kernel's name,
with the program of the host that launches them. Refuses functions that GLSL's library lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import all_operations_in, bytes_of_object, ir, operations_named, public_functions
from mlirtri.errors import PassFailedError, UnsupportedOperationError
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.mlir_common.attributes import COUNTS, UPDATES
from mlirtri.lowering.mlir_common.reading import symbol_name
from mlirtri.lowering.spirv import compare_exchange
from mlirtri.lowering.spirv.bufferized_to_gpu import ATTACH, HELP
from mlirtri.lowering.spirv.executable import SpirvExecutable
from mlirtri.lowering.spirv.host_program import read_program
from mlirtri.lowering.toolchain.mlir_passes import Pass, run_passes, run_rewrite

CONVERT = (
    Pass("gpu.module(convert-math-to-spirv)", "functions become those of GLSL's library"),
    Pass(ATTACH, "which SPIR-V the kernels may use"),
    Pass("convert-gpu-to-spirv", "each gpu.module gets a spirv.module beside it"),
)
FINISH = (
    Pass("spirv.module(spirv-lower-abi-attrs)", "arguments become variables with bindings"),
    Pass("spirv.module(spirv-update-vce)", "each module lists the capabilities that it uses"),
)
SERIALIZE = (Pass("gpu-module-to-binary", "SPIR-V's words"),)
_VCE = "vce_triple"
"""Attribute of a SPIR-V module: its version, capabilities and extensions."""
_SEMANTICS = ("semantics", "equal_semantics", "unequal_semantics")
"""Attributes of SPIR-V's atomic operations: how they order other accesses of memory."""
_PREFIX = "__spv__"


def lower(module: ir.Module, context: CompileContext) -> Code:
    """Return the text of the SPIR-V modules, and their binaries; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        run_rewrite("compare-and-exchange", compare_exchange.rewrite, module, context)
        try:
            run_passes(module, CONVERT, context)
        except PassFailedError as error:
            raise _refused(error) from None
        run_rewrite("exchanged-buffers-of-integers", compare_exchange.finish, module, context)
        run_passes(module, FINISH, context)
        run_rewrite("wide-atomics", _require_wide_atomics, module, context)
        run_rewrite("relax-atomics", _relax_atomics, module, context)
        text = "\n".join(kernel.get_asm(use_name_loc_as_prefix=True) for kernel in _modules(module))
        make = _executable(module)
        run_rewrite("binaries-of-spirv-modules", _keep_spirv_alone, module, context)
        run_passes(module, SERIALIZE, context)
        operations = operations_named(module, "gpu.binary")
        binaries = {symbol_name(binary): _words(binary) for binary in operations}
    return Code(text, make(binaries))


def _executable(module: ir.Module) -> Callable[[dict[str, bytes]], SpirvExecutable]:
    """Return what makes the executable of the launches once their binaries are there."""
    program, moved = read_program(module), module.operation.attributes
    size = ir.IntegerAttr(moved[COUNTS[1]]).value if COUNTS[1] in moved else None
    pairs = list(moved[UPDATES]) if UPDATES in moved else []
    updates = tuple(zip(pairs[::2], pairs[1::2], strict=True))

    def make(binaries: dict[str, bytes]) -> SpirvExecutable:
        launched = {dispatch.kernel: binaries[dispatch.kernel] for dispatch in program.dispatches}
        return SpirvExecutable(program, size, launched, updates)

    return make


def _refused(error: PassFailedError) -> UnsupportedOperationError:
    match = re.search(r"failed to legalize operation '([\w.]+)'|'(spirv\.GL\.\w+)' op operand", error.message)
    if match is None:
        raise error
    name = match.group(1) or match.group(2)
    help = f"compute it in float32, as np.float32(x), or {HELP}" if name.startswith("spirv.GL.") else HELP
    return UnsupportedOperationError(f"SPIR-V for Vulkan has no {name} of this dtype", error.span, help=help)


def _modules(module: ir.Module) -> list[ir.Operation]:
    return operations_named(module, "spirv.module")


def _require_wide_atomics(module: ir.Module) -> None:
    """List the capability of 64-bit atomic operations, which MLIR's operations do not say that they need."""
    for kernel in _modules(module):
        atomic = [each for each in all_operations_in(kernel) if each.name.startswith("spirv.Atomic")]
        if any(str(result.type) == "i64" for operation in atomic for result in operation.results):
            old = str(kernel.attributes[_VCE])
            kernel.attributes[_VCE] = ir.Attribute.parse(old.replace("[", "[Int64Atomics, ", 1))


def _relax_atomics(module: ir.Module) -> None:
    """Order nothing by atomic operations: no kernel reads what another thread of it writes by anything else.

    MLIR's acquire and release are barriers in lavapipe, which fails where some threads of a block are not there.
    """
    unordered = ir.Attribute.parse("#spirv.memory_semantics<None>")
    for kernel in _modules(module):
        for operation in all_operations_in(kernel):
            for name in _SEMANTICS:
                if operation.name.startswith("spirv.Atomic") and name in operation.attributes:
                    operation.attributes[name] = unordered


def _keep_spirv_alone(module: ir.Module) -> None:
    """Put each `spirv.module` into the `gpu.module` that it was made of, in place of the kernel."""
    converted = {symbol_name(kernel).removeprefix(_PREFIX): kernel for kernel in _modules(module)}
    for function in public_functions(module):
        function.operation.erase()
    for gpu_module in operations_named(module, "gpu.module"):
        block = gpu_module.regions[0].blocks[0]
        for operation in list(block.operations):
            operation.operation.erase()
        spirv = converted[symbol_name(gpu_module)]
        block.append(spirv)


def _words(binary: ir.OpView) -> bytes:
    [attribute] = list(binary.attributes["objects"])
    return bytes_of_object(attribute)
