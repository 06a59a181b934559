"""What tests of CUDA code share: schedules that run on the CPU, without threads."""

from __future__ import annotations

import re

from mlirtri.lowering.toolchain.tvm_names import PrimFunc, SBlock, structural_map, structural_walk, tirx


def kernels_in(source):
    return len(re.findall(r"__global__ [^;{]*\{", source))


def on_the_cpu(mod):
    """The same loops without threads, shared and local memory made ordinary, so that the CPU can run the schedule."""

    def serial(loop):
        if loop.kind in (tirx.ForKind.THREAD_BINDING, tirx.ForKind.VECTORIZED, tirx.ForKind.UNROLLED):
            return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)
        return loop

    def without_scopes(function):
        fresh = {}

        def note(buffer):
            fresh[buffer] = tirx.decl_buffer(buffer.shape, buffer.dtype, buffer.name, layout=None)

        def block(each):
            for buffer in each.alloc_buffers:
                note(buffer)

        structural_walk(function.body, [(SBlock, block), (tirx.AllocBuffer, lambda each: note(each.buffer))])
        body = structural_map(function.body, [(tirx.For, serial)])
        return function.with_body(structural_map(body, (tirx.Var, lambda variable: fresh.get(variable, variable))))

    functions = {
        gv: without_scopes(function) if isinstance(function, PrimFunc) else function
        for gv, function in mod.functions_items()
    }
    return type(mod)(functions, attrs=mod.attrs)
