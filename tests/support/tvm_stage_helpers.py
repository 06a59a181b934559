"""Relax modules to order, lowered through the stages right of `relax`; shared by the tests of these stages."""

from __future__ import annotations

import os

import torch

from mlirtri.lowering.codegen import scheduled_to_cuda, scheduled_to_llvm
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.relax import relax_to_tir
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.toolchain.tvm_names import BlockBuilder, TensorType, relax
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs

op = relax.op
FILE = os.path.abspath("kernel.py")


def module(make, *specs, locations=None):
    """A Relax module: `make(emit, *parameters)` gives the results; a spec is a shape, or (shape, dtype)."""
    specs = [spec if len(spec) == 2 and isinstance(spec[1], str) else (spec, "float32") for spec in specs]
    builder = BlockBuilder()
    parameters = [relax.Var(f"x{position}", TensorType(shape, dtype)) for position, (shape, dtype) in enumerate(specs)]
    attributes = {"global_symbol": "kernel"}
    if locations:
        attributes["mlirtri.locations"] = {name: f"{FILE}:{line}:5" for name, line in locations.items()}
    with builder.function("kernel", parameters, attrs=attributes):
        with builder.dataflow():
            result = make(lambda value, name="": builder.emit(value, name_hint=name), *parameters)
            result = relax.Tuple(list(result)) if isinstance(result, (list, tuple)) else result
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.get()


def branching():
    """A Relax function of a condition and eight numbers, which needs the virtual machine."""
    builder = BlockBuilder()
    condition, x = relax.Var("c", TensorType((), "bool")), relax.Var("x", TensorType((8,), "float32"))
    with builder.function("kernel", [condition, x]):
        taken = relax.SeqExpr([], relax.op.add(x, x))
        other = relax.SeqExpr([], relax.op.multiply(x, x))
        builder.emit_func_output(builder.emit(relax.If(condition, taken, other)))
    return relax.transform.Normalize()(builder.get())


def context_for(target="cpu", keep_passes=False, **options):
    target = as_target(target) if isinstance(target, str) else target
    return CompileContext("kernel", target, keep_passes=keep_passes, **options)


def tir_of(mod, context=None):
    return relax_to_tir.lower(mod, context or context_for())


def compiled(mod, context=None):
    context = context or context_for()
    return scheduled_to_llvm.lower(tir_to_scheduled.lower(tir_of(mod, context), context), context)


def run(mod, *inputs, context=None):
    """The results of a compiled module as new tensors, which held junk before."""
    kind = mod["kernel"].ret_ty
    kinds = [kind] if isinstance(kind, TensorType) else list(kind.fields)
    outputs = [torch.full([int(size) for size in each.shape], 1).to(getattr(torch, str(each.dtype))) for each in kinds]
    compiled(mod, context).executable.launch(inputs, outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def rules_of(mod):
    return [str(function.attrs["mlirtri.schedule"]) for _, function in prim_funcs(mod)]


def random(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 9, shape, generator=generator).to(dtype)


def add_chain(emit, a, b):
    return emit(op.add(emit(op.add(a, b), "out"), a), "out1")


def cuda_code(mod, context=None):
    context = context or context_for("cuda")
    return scheduled_to_cuda.lower(tir_to_scheduled.lower(tir_of(mod, context), context), context)
