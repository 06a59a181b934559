"""Programs with loops and updates through the `mlir` pipeline's stages."""

from __future__ import annotations

import numpy as np
import torch

from mlirtri.dialect.bindings.mlir import ir, print_module
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized
from mlirtri.lowering.mlir_backend.llvm import bufferized_to_llvmdialect, llvmdialect_to_asm
from mlirtri.lowering.mlir_backend.loops import bufferized_to_loops

LOWERINGS = {
    "fused": linalg_to_fused.lower,
    "bufferized": fused_to_bufferized.lower,
    "llvmdialect": bufferized_to_llvmdialect.lower,
    "asm": llvmdialect_to_asm.lower,
}


def lower_to(text, until="asm", lowerings=LOWERINGS):
    """The IR after the stage `until`."""
    context = CompileContext("f", as_target("cpu"), keep_passes=False)
    with ir.Context():
        state = ir.Module.parse(text)
        for stage, lower in lowerings.items():
            context.stage = stage
            state = lower(state, context)
            if stage == until:
                return state


def bufferized(text):
    return print_module(lower_to(text, "bufferized"))


def loops(text):
    lowerings = {**LOWERINGS, "llvmdialect": bufferized_to_loops.lower_to_loops}
    return print_module(lower_to(text, "llvmdialect", lowerings))


def run(text, inputs, outputs=(), updated=()):
    """Call the kernel of `text` on arrays, some of which it updates: `updated` are (input, result).

    `outputs` are the other results' arrays, which are written. Inputs that are not updated must stay as they are.
    """
    tensors = [torch.as_tensor(value) for value in inputs]
    copies = [tensor.clone() for tensor in tensors]
    results = [torch.as_tensor(output) for output in outputs]
    for position, result in sorted(updated, key=lambda pair: pair[1]):
        results.insert(result, tensors[position])
    executable = lower_to(text).executable
    assert executable.updates_in_place
    executable.launch(tensors, results)
    for position, (tensor, old) in enumerate(zip(tensors, copies, strict=True)):
        if position not in dict(updated):
            assert torch.equal(tensor, old), "an input was written"


def vector(size=8, dtype="float64"):
    return np.random.default_rng(size).standard_normal(size).astype(dtype)


def square(size=8):
    return np.random.default_rng(size).standard_normal((size, size))


def scalar(value):
    return np.array(value)
