"""MLIR text as one imperative PrimFunc: whole programs through the stages, or one function over memrefs."""

from __future__ import annotations

import numpy as np
import torch

from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.lowering.bridge import fused_to_relax
from mlirtri.lowering.bridge.loops.loops_to_primfunc import build_imperative
from mlirtri.lowering.codegen import scheduled_to_llvm
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.relax import relax_to_tir
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.toolchain import tvm_text
from mlirtri.lowering.toolchain.tvm_names import IRModule, structural_equal

LOWERINGS = (("tir", relax_to_tir), ("scheduled", tir_to_scheduled), ("llvm", scheduled_to_llvm))


def relax_module(text, target="cpu"):
    with ir.Context():
        return fused_to_relax.lower(ir.Module.parse(text), CompileContext("k", as_target(target), keep_passes=False))


def compiled(text, schedule="none"):
    """The executable of MLIR text."""
    module = relax_module(text)
    context = CompileContext("k", as_target("cpu"), keep_passes=False, schedule=schedule)
    for context.stage, lower in LOWERINGS:
        module = lower.lower(module, context)
    return module.executable


def run(text, *arrays, results=(), schedule="none"):
    """Call function ``k``; `results` has the shape and dtype of each, or the number of the argument it updates.

    Gives the results as arrays: copies, so that the arguments of the caller stay as they are.
    """
    executable = compiled(text, schedule)
    inputs = [torch.from_numpy(np.array(array)) for array in arrays]
    fresh = (None if isinstance(argument, int) else np.full(argument[0], 77, argument[1]) for argument in results)
    outputs = [
        inputs[position] if new is None else torch.from_numpy(new) for position, new in zip(results, fresh, strict=True)
    ]
    assert executable.updates_in_place == any(isinstance(argument, int) for argument in results)
    executable.launch(inputs, outputs)
    return [output.numpy() for output in outputs]


# The loops form, statement by statement


def call(text, *arrays, inputs=None):
    """Call the function over memrefs; its text as TIR parses back to what was printed."""
    with ir.Context():
        module = ir.Module.parse(text)
        [function] = public_functions(module)
        built = build_imperative(function.operation, len(arrays) if inputs is None else inputs)
    module = IRModule({"k": built.function.with_attr("global_symbol", "k")})
    printed = tvm_text.print_complete(module)
    parsed = tvm_text.parse(printed, "tir.py")
    assert structural_equal(module, parsed)
    assert tvm_text.print_complete(parsed) == printed
    library = scheduled_to_llvm.build([("k", built.function)], tvm_target(as_target("cpu")))
    library["k"](*(array if isinstance(array, torch.Tensor) else torch.from_numpy(array) for array in arrays))
    return printed


INDICES = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(7))
