"""Convert GPU kernels to the spirv dialect by upstream passes, and serialise each to a binary.

Takes the module of `bufferized_to_gpu`. Gives the text of the SPIR-V modules, and their binaries by the kernel's name,
with the launches in order. Refuses functions that GLSL's library lacks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlirtri.dialect.bindings.mlir import bytes_of_object, ir, operations_named, public_functions
from mlirtri.errors import DeviceError, PassFailedError, UnsupportedOperationError
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.core.untranslatable import bytes_of, refuse
from mlirtri.lowering.spirv.bufferized_to_gpu import ATTACH, HELP
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
_PREFIX = "__spv__"
_ALLOCATIONS = ("memref.alloc", "memref.alloca")
_SIZES = ("grid x", "grid y", "grid z", "block x", "block y", "block z")
"""What the first operands of a launch are."""


@dataclass(frozen=True)
class Dispatch:
    """One launch of a kernel."""

    kernel: str
    entry_point: str
    """Its name within the SPIR-V module of the kernel."""
    blocks: tuple[int, int, int]
    buffers: tuple[int, ...]
    """The buffers of bindings 0, 1…: arguments and results of the function by number, then temporaries."""


@dataclass(frozen=True)
class SpirvExecutable:
    """Kernels for Vulkan. Nothing here runs them."""

    dispatches: tuple[Dispatch, ...]
    """In order; each waits for the one before it."""
    temporaries: tuple[int, ...]
    """Bytes of each temporary buffer."""
    bytes: int | None
    binaries: dict[str, bytes]
    """SPIR-V modules by the name of their kernel, in the order of the launches."""

    @property
    def kernels(self) -> int:
        return len(self.dispatches)

    def make_figures(self) -> tuple[Dispatch, ...]:
        """Return what a call launches."""
        return self.dispatches

    def launch(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        raise DeviceError(
            "a kernel for SPIR-V cannot be called", help='its binaries are kernel.binaries; use target="cpu" to run it'
        )


def lower(module: ir.Module, context: CompileContext) -> Code:
    """Return the text of the SPIR-V modules, and their binaries; raises `UnsupportedOperationError`."""
    with module.context, ir.Location.unknown():
        try:
            run_passes(module, CONVERT, context)
        except PassFailedError as error:
            raise _refused(error) from None
        run_passes(module, FINISH, context)
        text = "\n".join(kernel.get_asm(use_name_loc_as_prefix=True) for kernel in _modules(module))
        dispatches, temporaries = _dispatches(module)
        run_rewrite("binaries-of-spirv-modules", _keep_spirv_alone, module, context)
        run_passes(module, SERIALIZE, context)
        operations = operations_named(module, "gpu.binary")
        binaries = {binary.attributes["sym_name"].value: _words(binary) for binary in operations}
    moved = module.operation.attributes
    size = ir.IntegerAttr(moved["mlirtri.bytes"]).value if "mlirtri.bytes" in moved else None
    launched = {dispatch.kernel: binaries[dispatch.kernel] for dispatch in dispatches}
    return Code(text, SpirvExecutable(dispatches, temporaries, size, launched))


def _dispatches(module: ir.Module) -> tuple[tuple[Dispatch, ...], tuple[int, ...]]:
    """Return the launches of the host function, and the bytes of its temporaries."""
    [function] = public_functions(module)
    numbers = {argument: number for number, argument in enumerate(function.arguments)}
    temporaries = []
    for allocation in _ALLOCATIONS:
        for operation in operations_named(module, allocation):
            numbers[operation.results[0]] = len(numbers)
            kind = operation.results[0].type
            temporaries.append(prod(kind.shape) * bytes_of(kind.element_type))
    dispatches = []
    for launch in operations_named(module, "gpu.launch_func"):
        sizes, operands = list(launch.operands)[: len(_SIZES)], list(launch.operands)[len(_SIZES) :]
        x, y, z, *_ = [ir.IntegerAttr(size.owner.attributes["value"]).value for size in sizes]
        _refuse_constants(launch, [operand for operand in operands if operand not in numbers])
        kernel, entry_point = re.findall(r"[^@:\"]+", str(launch.attributes["kernel"]))
        dispatches.append(Dispatch(kernel, entry_point, (x, y, z), tuple(numbers[operand] for operand in operands)))
    return tuple(dispatches), tuple(temporaries)


def _refuse_constants(launch: ir.Operation, others: Sequence[ir.Value]) -> None:
    refuse([(launch, "an array of constants") for _ in others], "SPIR-V", HELP)


def _refused(error: PassFailedError) -> UnsupportedOperationError:
    match = re.search(r"failed to legalize operation '([\w.]+)'|'(spirv\.GL\.\w+)' op operand", error.message)
    if match is None:
        raise error
    name = match.group(1) or match.group(2)
    return UnsupportedOperationError(f"SPIR-V for Vulkan has no {name} of this dtype", error.span, help=HELP)


def _modules(module: ir.Module) -> list[ir.Operation]:
    return operations_named(module, "spirv.module")


def _keep_spirv_alone(module: ir.Module) -> None:
    """Put each `spirv.module` into the `gpu.module` that it was made of, in place of the kernel."""
    converted = {kernel.attributes["sym_name"].value.removeprefix(_PREFIX): kernel for kernel in _modules(module)}
    for function in public_functions(module):
        function.operation.erase()
    for gpu_module in operations_named(module, "gpu.module"):
        block = gpu_module.regions[0].blocks[0]
        for operation in list(block.operations):
            operation.operation.erase()
        spirv = converted[gpu_module.attributes["sym_name"].value]
        block.append(spirv)


def _words(binary: ir.OpView) -> bytes:
    [attribute] = list(binary.attributes["objects"])
    return bytes_of_object(attribute)
