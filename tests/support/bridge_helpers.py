"""MLIR text to order, bridged to Relax and run; shared by the tests of the bridge."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.fused_to_relax import lower
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.relax import relax_to_tir
from mlirtri.lowering.toolchain.tvm_names import PrimFunc, relax, tvm

BF16 = ml_dtypes.bfloat16
MAPS = {1: "affine_map<(d0) -> (d0)>", 2: "affine_map<(d0, d1) -> (d0, d1)>"}
ROWS = "affine_map<(d0, d1) -> (d0)>"


def bridge(text: str):
    """The Relax module of MLIR text."""
    with ir.Context():
        return lower(ir.Module.parse(text), CompileContext("k", as_target("cpu"), keep_passes=False))


def fused(text: str):
    return relax_to_tir.lower(bridge(text), CompileContext("k", as_target("cpu"), keep_passes=False))


def run(text: str, *arrays):
    """The results of function ``k`` in `text`, as a list of arrays."""
    machine = relax.VirtualMachine(tvm.compile(fused(text), target="llvm"), tvm.cpu())
    result = machine["k"](*(tvm.runtime.tensor(np.asarray(array)) for array in arrays))
    return [tensor.numpy() for tensor in ([result] if hasattr(result, "numpy") else result)]


def function(arguments: str, body: str, returned: str, types: str) -> str:
    return f"func.func @k({arguments}) -> ({types}) {{\n{body}\n  return {returned} : {types}\n}}"


def generic(name, inputs, outputs, maps, iterators, body):
    """Text of a linalg.generic; inputs and outputs are (value, type) pairs."""

    def group(pairs):
        return f"({', '.join(value for value, _ in pairs)} : {', '.join(kind for _, kind in pairs)})"

    ins = f"ins{group(inputs)} " if inputs else ""
    results = ", ".join(kind for _, kind in outputs)
    return (
        f"{name} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{', '.join(chr(34) + iterator + chr(34) for iterator in iterators)}]}} "
        f"{ins}outs{group(outputs)} {{\n{body}\n}} -> ({results})"
    )


def elementwise(lines: list[str], arguments: str, types: list[str]) -> str:
    """A function whose n-th line computes ``%rn`` on whole tensors."""
    body = "\n".join(f"  %r{position} = {line}" for position, line in enumerate(lines))
    return function(arguments, body, ", ".join(f"%r{position}" for position in range(len(lines))), ", ".join(types))


def prim_functions(module) -> dict:
    return {gv.name_hint: function for gv, function in module.functions_items() if isinstance(function, PrimFunc)}
