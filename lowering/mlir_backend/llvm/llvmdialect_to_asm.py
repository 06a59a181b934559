"""Compile MLIR's LLVM dialect to machine code for the host: its text and an executable.

Gives `Code` whose executable is loaded in this process, compiled at -O3 for the host CPU. The text is the disassembly
by ``objdump``, or the LLVM IR where there is no ``objdump`` on PATH. Refuses what LLVM cannot translate or link with a
`CodegenError`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import execution_engine, ir, operations_named, public_functions, to_llvm_ir
from mlirtri.errors import CodegenError, Note
from mlirtri.lowering.core.stage import Code, CompileContext
from mlirtri.lowering.mlir_backend.llvm.allocations import gives_status
from mlirtri.lowering.mlir_backend.llvm.bufferized_to_llvmdialect import symbol_of
from mlirtri.lowering.mlir_common.attributes import COUNTS, SIGNATURE, UPDATES, noted_strides
from mlirtri.lowering.mlir_common.reading import symbol_name
from mlirtri.lowering.runtime.mlir_executable import Convention, MlirExecutable
from mlirtri.lowering.runtime.openmp import INSTALL, runtime_library
from mlirtri.lowering.sizes.size_arguments import unknown_sizes, unknown_strides


def lower(module: ir.Module, context: CompileContext) -> Code:
    """Compile `module` for the host; raises `CodegenError`."""
    function = _kernel_function(module, context)
    libraries = _libraries(module)
    engine = _compile(module, libraries)
    # A program entered after `bufferized` has no counts.
    attributes = module.operation.attributes
    kernels, bytes_moved = (attributes[name].value if name in attributes else None for name in COUNTS)
    updates = sorted(list(attributes[UPDATES])[1::2]) if UPDATES in attributes else []
    arguments = len(ir.TypeAttr(function.attributes["function_type"]).value.inputs)
    sizes = _sizes_to_pass(attributes, updates)
    symbol = symbol_name(function)
    strides = unknown_strides(noted_strides(module))
    convention = Convention(
        symbol, arguments, tuple(updates), sizes, strides, gives_status(function), has_threads=bool(libraries)
    )
    executable = MlirExecutable(engine, convention, kernels, bytes_moved)
    return Code(_disassemble(engine) or _llvm_ir(module), executable)


def _kernel_function(module: ir.Module, context: CompileContext) -> ir.OpView:
    functions = {symbol_name(candidate): candidate for candidate in public_functions(module)}
    if (function := functions.get(symbol_of(context.kernel))) is not None:
        return function
    if len(functions) == 1:
        return next(iter(functions.values()))
    names = ", ".join(functions) or "none"
    raise CodegenError(
        f"no function stands for the kernel {context.kernel!r}; the module's public functions: {names}",
        help=f"call it {symbol_of(context.kernel)}, or make the other functions private",
    )


def _sizes_to_pass(attributes: ir.OpAttributeMap, updates: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the sizes that the function takes after its pointers: pairs of buffer and axis."""
    if SIGNATURE not in attributes:
        return ()
    signature = ir.FunctionType(ir.TypeAttr(attributes[SIGNATURE]).value)
    results = [kind for position, kind in enumerate(signature.results) if position not in updates]
    return unknown_sizes([kind.shape for kind in (*signature.inputs, *results)])


def _compile(module: ir.Module, libraries: list[str]):
    problems: list[Note] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        problems.append(Note(diagnostic.message, span_of(diagnostic.location)))
        return True

    handler = module.context.attach_diagnostic_handler(collect)
    try:
        return execution_engine.ExecutionEngine(module, opt_level=3, shared_libs=libraries, enable_pic=True)
    except RuntimeError as error:
        span = next((note.span for note in problems if note.span), None)
        raise CodegenError(f"LLVM could not compile the kernel: {error}", span, notes=problems) from None
    finally:
        handler.detach()


def _libraries(module: ir.Module) -> list[str]:
    """Return the libraries that the code calls besides libc; raises `CodegenError` where OpenMP's is missing."""
    if not operations_named(module, "omp.parallel"):
        return []
    if (library := runtime_library()) is None:
        raise CodegenError("the code has OpenMP's threads, and there is no OpenMP runtime", help=INSTALL)
    return [library]


def _disassemble(engine) -> str | None:
    objdump = shutil.which("objdump")
    if objdump is None or not hasattr(os, "memfd_create"):
        return None
    syntax = ["-M", "intel"] if platform.machine() in ("x86_64", "AMD64") else []
    # Memory, since LLVM ends the process where a disk is full.
    with os.fdopen(os.memfd_create("kernel.o")) as file:
        path = f"/proc/self/fd/{file.fileno()}"
        engine.dump_to_object_file(path)
        command = [objdump, "--disassemble", "--line-numbers", "--reloc", "--no-show-raw-insn", *syntax, path]
        finished = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=[file.fileno()])
    if finished.returncode != 0:
        return None
    listing = finished.stdout.partition("Disassembly")[2].partition("\n")[2].strip() + "\n"
    listing = re.sub(r"^\w+\(\):\n", "", listing, flags=re.MULTILINE)
    return re.sub(r"^(\S.*:\d+)(?: \(discriminator \d+\))?$", r"; \1", listing, flags=re.MULTILINE)


def _llvm_ir(module: ir.Module) -> str:
    header = "; objdump is not on PATH (package binutils), so this is the LLVM IR instead of the assembly\n"
    return header + to_llvm_ir(module)
