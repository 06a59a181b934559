"""The C header and an example program of a saved kernel of pipeline `mlir`, whose object file needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlirtri.calls.dynamic_shapes import DynamicShapes
from mlirtri.dialect.base.sizes import is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError
from mlirtri.lowering.core.interface import Interface
from mlirtri.lowering.runtime.artifact import OBJECT
from mlirtri.lowering.runtime.mlir_executable import Convention

HEADER, EXAMPLE = "kernel.h", "example.c"
_TYPES = {"bool": "uint8_t", "float32": "float", "float64": "double", "complex64": "float", "complex128": "double"}
_BITS = {"float16": "uint16_t", "bfloat16": "uint16_t"}
_SAMPLE = 4
"""What the example takes for sizes that are known at run time only."""


@dataclass(frozen=True)
class _Buffer:
    """One pointer of the function."""

    name: str
    type: TensorType
    is_written: bool
    meaning: str

    @property
    def element(self) -> str:
        dtype = self.type.dtype
        kind = _TYPES.get(dtype.name) or _BITS.get(dtype.name) or ("uint8_t" if dtype.is_float else f"{dtype.name}_t")
        return kind if self.is_written else f"const {kind}"

    @property
    def parts(self) -> int:
        """Return the numbers that one element is: 2 of complex ones."""
        return 2 if self.type.dtype.is_complex else 1


def write_c_files(name: str, signature: str, interface: Interface, convention: Convention, folder: Path) -> None:
    """Write `HEADER`, and `EXAMPLE` if the sizes of the results follow from those of the arguments."""
    buffers = _buffers(interface, convention)
    (folder / HEADER).write_text(_header(name, signature, buffers, convention), encoding="utf-8")
    shapes = _sample_shapes(name, interface, convention)
    if shapes is not None:
        (folder / EXAMPLE).write_text(_example(buffers, shapes, convention), encoding="utf-8")


def _buffers(interface: Interface, convention: Convention) -> list[_Buffer]:
    written = {parameter for parameter, _ in interface.updates}
    inputs = [
        _Buffer(
            f"in{number}_{_word(parameter.name)}", parameter.type, number in written, _meaning(parameter.name, bound)
        )
        for number, (parameter, bound) in enumerate(
            [*((tensor, False) for tensor in interface.parameters), *((tensor, True) for tensor in interface.bound)]
        )
    ]
    checks = {check.index: f"0, or else {check.error.__name__}: {check.message}" for check in interface.checks}
    outputs = [
        _Buffer(f"out{number}", leaf, True, f"result {number}{': ' + checks[number] if number in checks else ''}")
        for number, leaf in enumerate(interface.leaves)
        if number not in convention.updates
    ]
    return [*inputs, *outputs]


def _meaning(name: str, is_bound: bool) -> str:
    return f"the tensor {name!r} of params.npz" if is_bound else f"argument {name!r}"


def _word(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)


def _parameters(buffers: Sequence[_Buffer], convention: Convention) -> list[str]:
    pointers = [f"{buffer.element} *{buffer.name}" for buffer in buffers]
    sizes = [f"int64_t {buffers[buffer].name}_size{axis}" for buffer, axis in convention.sizes]
    return [*pointers, *sizes, *(f"int64_t {buffers[number].name}_stride{axis}" for number, axis in convention.strides)]


def _header(name: str, signature: str, buffers: Sequence[_Buffer], convention: Convention) -> str:
    parameters = ",\n    ".join(_parameters(buffers, convention)) or "void"
    facts = [
        f"{signature}, compiled for this machine's CPU; link with {OBJECT} and -lm"
        + (", and an OpenMP runtime with LLVM's interface (-liomp5 or -lomp)." if convention.has_threads else "."),
        "Arrays are contiguous, in row-major order. No array that is written may overlap another one.",
        *(f"{buffer.name}: {buffer.type}, {buffer.meaning}{_note(buffer)}" for buffer in buffers),
    ]
    if convention.sizes:
        facts.append("Sizes come after the pointers: NAME_sizeAXIS for those that are known at run time only.")
    if convention.strides:
        facts.append("Strides come last, in elements: NAME_strideAXIS; such an array need not be in row-major order.")
    if convention.gives_status:
        facts.append("Returns 0, or 1 where there was no memory for temporaries; results are undefined then.")
    comment = "\n".join(f" * {_comment(fact)}" for fact in facts)
    guard = f"MLIRTRI_{_word(name).upper()}_H"
    kind = "int64_t" if convention.gives_status else "void"
    return (
        f"/*\n{comment}\n */\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n"
        f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n'
        f"{kind} {convention.symbol}(\n    {parameters});\n\n"
        "#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )


def _note(buffer: _Buffer) -> str:
    name = buffer.type.dtype.name
    if buffer.parts == 2:
        return "; each element is its real and its imaginary part"
    return f"; the bits of each {name}" if name in _BITS or name.startswith("float8") else ""


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")


def _sample_shapes(name: str, interface: Interface, convention: Convention) -> list[tuple[int, ...]] | None:
    """Return shapes of the buffers with `_SAMPLE` for each unknown size; None if the program refuses those."""
    types = [parameter.type for parameter in (*interface.parameters, *interface.bound)]
    inputs = [tuple(_SAMPLE if is_dynamic(size) else size for size in type_.shape) for type_ in types]
    outputs = [tuple(leaf.shape) for leaf in interface.leaves]
    if interface.sizes is not None:
        if interface.sizes.elements:
            return None
        try:
            program = DynamicShapes(name, interface, interface.sizes)
            outputs = program.results([SimpleNamespace(shape=shape) for shape in inputs])
        except KernelError:
            return None
    return [*inputs, *(shape for number, shape in enumerate(outputs) if number not in convention.updates)]


def _example(buffers: Sequence[_Buffer], shapes: Sequence[tuple[int, ...]], convention: Convention) -> str:
    arguments: list[Any] = [buffer.name for buffer in buffers]
    arguments += [shapes[buffer][axis] for buffer, axis in convention.sizes]
    arguments += [prod(shapes[buffer][axis + 1 :]) for buffer, axis in convention.strides]
    arrays = [
        f"static {buffer.element.removeprefix('const ')} {buffer.name}[{max(1, prod(shape) * buffer.parts)}];"
        for buffer, shape in zip(buffers, shapes, strict=True)
    ]
    call = f"{convention.symbol}({', '.join(map(str, arguments))})"
    prints = [
        f'    printf("{buffer.name}[0] = %g\\n", (double){buffer.name}[0]);' for buffer in buffers if buffer.is_written
    ]
    return "\n".join(
        [
            f"/* cc example.c {OBJECT} -lm{' -liomp5' if convention.has_threads else ''} && ./a.out */",
            "#include <stdio.h>",
            f'#include "{HEADER}"',
            "",
            *arrays,
            "",
            "int main(void) {",
            f"    if ({call}) return 1;" if convention.gives_status else f"    {call};",
            *prints,
            "    return 0;",
            "}",
            "",
        ]
    )
