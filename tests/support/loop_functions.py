"""Imperative PrimFuncs of a few lines, and calls of them."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import torch

from mlirtri.lowering.codegen.scheduled_to_llvm import build
from mlirtri.lowering.codegen.targets import tvm_target
from mlirtri.lowering.core.target import Target, as_target
from mlirtri.lowering.schedule.imperative.interchange import prepare
from mlirtri.lowering.toolchain.tvm_names import (
    IMPERATIVE,
    INDEPENDENT,
    SCRIPT_NAMES,
    PrimFunc,
    SBlock,
    SBlockRealize,
    from_source,
    structural_walk,
    tirx,
)


def function(body, **arguments):
    """An imperative PrimFunc; `arguments` are (shape, dtype), and whole numbers in `body` are 64-bit indices."""
    text = re.sub(r"(?<![\w.])(\d+)(?![\w.])", r"T.int64(\1)", textwrap.dedent(body).strip())
    shapes = {name: ", ".join(f"T.int64({size})" for size in shape) for name, (shape, _) in arguments.items()}
    parameters = ", ".join(f'{name}: T.Buffer(({shapes[name]},), "{arguments[name][1]}")' for name in arguments)
    return of_source(f"@T.prim_func(s_tir=True)\ndef f({parameters}):\n{textwrap.indent(text, '    ')}\n")


def of_source(source):
    """An imperative PrimFunc of a whole text."""
    parsed = from_source(source, dict(SCRIPT_NAMES), check_well_formed=False)
    inner = SBlockRealize([], True, SBlock([], [], [], "loops", parsed.body))
    root = SBlockRealize([], True, SBlock([], [], [], "root", inner))
    return PrimFunc(parsed.params, root).with_attr({"s_tir": True, "tirx.noalias": True, IMPERATIVE: True})


def on(threads):
    return Target("cpu", as_target("cpu").architecture, threads)


def compiled(text):
    """The function on arrays: it gives them as they are after a call; those given stay as they are."""
    kernel = build([("f", text)], tvm_target(on(2)))["f"]

    def call(*arrays):
        copies = [torch.from_numpy(array.copy()) for array in arrays]
        kernel(*copies)
        return [array.numpy() for array in copies]

    return call


def run(text, *arrays):
    """The arrays after a call of the compiled function."""
    return compiled(text)(*arrays)


def random(*shape, dtype="float64"):
    rng = np.random.default_rng(sum(shape) + 1)
    return (rng.integers(0, 9, shape) if dtype.startswith("int") else rng.normal(size=shape)).astype(dtype)


def arguments_of(arrays):
    return {name: (array.shape, str(array.dtype)) for name, array in arrays.items()}


def body_of(made):
    return made.body.block.body.block.body


def parallel_loops(body, **arguments):
    """The names of the loops that are marked, outermost first."""
    loops = []
    marked = prepare(body_of(function(body, **arguments)))
    structural_walk(marked, (tirx.For, lambda loop: loops.append(loop) if INDEPENDENT in loop.annotations else None))
    return {loop.loop_var.name for loop in loops}


MATRIX = ((32, 32), "float64")
VECTOR = ((32,), "float64")
CUBE = "for k in range(32):\n  for i in range(32):\n    for j in range(32):\n      "
