"""Kernels of CUDA source on the CPU, with threads, barriers and tensor cores (`cuda_emulation.hpp`).

Takes compiled kernels that are one launch each. Gives functions of torch tensors that run the CUDA source itself, made
by the C++ compiler. Refuses nothing: what the header lacks does not compile.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

from mlirtri.lowering.toolchain.tvm_names import structural_walk, tirx
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs

HEADER = Path(__file__).with_name("cuda_emulation.hpp")
AXES = [f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz"]


class Emulated:
    """All of `kernels`, compiled into one library in `folder`; `without` is a call that is left out, to see it fail."""

    def __init__(self, kernels: dict, folder: Path, without: str = ""):
        source, library = folder / "kernels.cpp", folder / "kernels.so"
        parts = [
            _part(name, kernel.ir["cuda"].replace(without, "") if without else kernel.ir["cuda"], _names(kernel))
            for name, kernel in kernels.items()
        ]
        source.write_text(f'#include "{HEADER}"\n' + "\n".join(parts))
        command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++17", "-o", str(library), str(source)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        assert outcome.returncode == 0, outcome.stderr[:3000]
        self._library = ctypes.CDLL(str(library))
        self._sizes = {name: _sizes(kernel) for name, kernel in kernels.items()}

    def run(self, name: str, *tensors) -> None:
        """The kernel on arguments and results, in the order of its PrimFunc."""
        pointers = (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
        sizes = (ctypes.c_uint * 6)(*self._sizes[name])
        assert self._library[f"run_{name}"](pointers, sizes) == 0, "threads wait for each other in vain"


def _sizes(kernel) -> list[int]:
    """How many blocks and threads there are along each axis."""
    sizes = dict.fromkeys(AXES, 1)

    def note(loop):
        if loop.kind == tirx.ForKind.THREAD_BINDING:
            sizes[str(loop.thread_binding.thread_tag)] = int(loop.extent)

    ((_, function),) = prim_funcs(kernel.compilation.records["scheduled"].ir)
    structural_walk(function.body, (tirx.For, note))
    return list(sizes.values())


def _names(kernel) -> list[str]:
    """What the function's parameters are called; TVM brings those of the CUDA function into another order."""
    ((_, function),) = prim_funcs(kernel.compilation.records["scheduled"].ir)
    return [str(parameter.name) for parameter in function.params]


def _part(name: str, cuda: str, names: list[str]) -> str:
    """The kernel in a namespace of its own, and the function that runs it."""
    start = re.search(r'extern "C" __global__ [^;{]*\{', cuda)
    head, body = start.group(), cuda[start.end() :]
    body = re.sub(r"^#line.*$", "", body, flags=re.MULTILINE)
    body = re.sub(r"__shared__ (alignas\(\d+\))", r"\1 static", body)
    body = re.sub(
        r"extern __shared__ __align__\(\d+\) ([\w ]+) (\w+)\[\];", r"\1* \2 = (\1*)emulated::shared_memory;", body
    )
    parameters = re.search(r"\((.*)\) \{", head.replace("__launch_bounds__(", "(", 1).split(")", 1)[1]).group(1)
    pairs = [parameter.split("__restrict__") for parameter in parameters.split(",")]
    positions = [names.index(declared.strip().removesuffix("_ptr")) for _, declared in pairs]
    arguments = ", ".join(
        f"({kind})arguments[{position}]" for (kind, _), position in zip(pairs, positions, strict=True)
    )
    return f"""namespace {name} {{
static void kernel({parameters}) {{{body}
static void** arguments;
static void entry() {{ kernel({arguments}); }}
}}
extern "C" int run_{name}(void** arguments, unsigned* sizes) {{
  {name}::arguments = arguments;
  return emulated::run_grid({name}::entry, {{sizes[0], sizes[1], sizes[2]}}, {{sizes[3], sizes[4], sizes[5]}});
}}
"""
