"""The rooms right of `relax`: what they make runs right, in as few kernels as it can, and maps to the user's lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from mlirtri.errors import DeviceError, KernelError, PassFailedError
from mlirtri.lowering import (
    cuda_to_ptx,
    llvm_to_asm,
    relax_to_tir,
    scheduled_to_cuda,
    scheduled_to_llvm,
    tir_to_scheduled,
)
from mlirtri.lowering.stage import CompileContext
from mlirtri.lowering.target import Target, as_target
from mlirtri.lowering.tvm_names import BlockBuilder, PrimFunc, SBlock, TensorType, relax, structural_map, tirx
from mlirtri.lowering.tvm_passes import Pass, prim_funcs, run_passes

op = relax.op
FILE = os.path.abspath("kernel.py")


def module(make, *specs, locations=None):
    """A Relax module: `make(emit, *parameters)` gives the results; a spec is a shape, or (shape, dtype)."""
    specs = [spec if len(spec) == 2 and isinstance(spec[1], str) else (spec, "float32") for spec in specs]
    builder = BlockBuilder()
    parameters = [relax.Var(f"x{at}", TensorType(shape, dtype)) for at, (shape, dtype) in enumerate(specs)]
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


def context_for(target="cpu", **options):
    return CompileContext("kernel", as_target(target) if isinstance(target, str) else target, **options)


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


# relax → tir


def test_a_chain_becomes_one_prim_func_of_call_tir():
    mod = tir_of(module(add_chain, (4, 5), (4, 5)))
    assert len(prim_funcs(mod)) == 1
    assert mod["kernel"].script().count("call_tir") == 1


def test_passes_are_recorded_and_those_that_change_nothing_say_so():
    context = context_for()
    context.stage = "tir"
    tir_of(module(add_chain, (4, 5), (4, 5)), context)
    changed = {record.name: record.changed for record in context.passes["tir"]}
    assert changed["LegalizeOps"]
    assert changed["FuseOps"]
    assert changed["FuseTIR"]
    assert not changed["MarkViews"]


def test_lines_of_bindings_reach_the_blocks_and_shared_functions_are_cloned_per_line():
    mod = tir_of(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}))
    text = mod.script()
    assert f"{FILE}:3:5" in text
    assert f"{FILE}:4:5" in text


def test_a_failing_relax_pass_names_the_line_of_the_binding_on_which_it_fails():
    mod = module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4})

    def refuse(given):
        if "R.subtract" in given.script():
            raise ValueError("no subtraction\nTraceback (most recent call last):\n  File x.cc, line 3")
        return given

    def make(emit, a, b):
        return emit(op.subtract(emit(op.add(a, b), "out"), a), "out1")

    mod = module(make, (4, 5), (4, 5), locations={"out": 3, "out1": 4})
    with pytest.raises(PassFailedError, match="pass Refuse failed: no subtraction") as caught:
        run_passes(mod, (Pass("Refuse", refuse),), context_for())
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)
    assert "x.cc" not in str(caught.value)


def test_a_failing_tir_pass_names_the_line_of_the_function():
    mod = tir_of(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}))

    def refuse(_given):
        raise RuntimeError("boom")

    with pytest.raises(PassFailedError) as caught:
        run_passes(mod, (Pass("Refuse", refuse),), context_for())
    assert caught.value.span.line == 4


# scheduled → llvm: numbers

SHAPES = [(3,), (64,), (37, 50), (128, 64), (7, 1, 33), (2048, 3), (1, 1), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise(shape):
    a, b = random(*shape), random(*shape)
    torch.testing.assert_close(run(module(add_chain, shape, shape), a, b), a + b + a)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape], ids=str)
@pytest.mark.parametrize(
    ("relax_op", "torch_op"),
    [
        (lambda x: op.sum(x, [-1]), lambda x: x.sum(-1)),
        (lambda x: op.sum(x, [0]), lambda x: x.sum(0)),
        (op.sum, torch.sum),
        (lambda x: op.max(x, [-1]), lambda x: x.amax(-1)),
        (lambda x: op.mean(x, [0]), lambda x: x.mean(0)),
        (lambda x: op.variance(x, [-1]), lambda x: x.var(-1, unbiased=False)),
        (lambda x: op.argmax(x, -1), lambda x: x.argmax(-1)),
        (lambda x: op.nn.softmax(x, -1), lambda x: x.softmax(-1)),
        (lambda x: op.nn.softmax(x, 0), lambda x: x.softmax(0)),
    ],
    ids=["sum-1", "sum0", "sum", "max", "mean0", "var", "argmax", "softmax-1", "softmax0"],
)
def test_reductions(shape, relax_op, torch_op):
    x = random(*shape)
    result = run(module(lambda emit, a: emit(relax_op(a)), shape), x)
    tolerance = 1e-6 * x.numel() ** 0.5
    torch.testing.assert_close(result, torch_op(x), rtol=1e-5, atol=max(1e-6, 4 * tolerance))


@pytest.mark.parametrize("shape", [(4, 5, 6), (8, 64, 32), (3, 130, 17)], ids=str)
def test_norms(shape):
    x, scale, shift = random(*shape), random(shape[-1]), random(shape[-1])
    mod = module(lambda emit, a, g, b: emit(op.nn.layer_norm(a, g, b, axes=[-1])), shape, shape[-1:], shape[-1:])
    expected = torch.nn.functional.layer_norm(x, shape[-1:], scale, shift)
    torch.testing.assert_close(run(mod, x, scale, shift), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "columns", "reduced"),
    [
        (4, 16, 4),
        (8, 32, 8),
        (37, 511, 129),
        (1, 33, 40),
        (33, 1, 40),
        (5, 7, 9),
        (9, 50, 20),
        (130, 300, 700),
        (40, 48, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_matmul(rows, columns, reduced, dtype):
    kind = getattr(torch, dtype)
    wide = "float32" if kind.itemsize == 2 else dtype
    left, right = random(rows, reduced, dtype=kind), random(reduced, columns, dtype=kind)
    mod = module(
        lambda emit, a, b: emit(op.matmul(a, b, out_dtype=wide)), ((rows, reduced), dtype), ((reduced, columns), dtype)
    )
    expected = left.to(getattr(torch, wide)) @ right.to(getattr(torch, wide))
    torch.testing.assert_close(run(mod, left, right), expected, rtol=1e-4, atol=1e-5 * reduced**0.5)


@pytest.mark.parametrize("columns", [64, 50])
@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_matmul_with_epilogue_is_one_kernel(columns, activation):
    def make(emit, a, b, c):
        return emit(getattr(op.nn, activation)(emit(op.add(emit(op.matmul(a, b)), c))))

    left, right, bias = random(30, 40), random(40, columns), random(columns)
    mod = module(make, (30, 40), (40, columns), (columns,))
    expected = getattr(torch.nn.functional, activation)(left @ right + bias)
    torch.testing.assert_close(run(mod, left, right, bias), expected, rtol=1e-4, atol=1e-5)
    scheduled = tir_to_scheduled.lower(tir_of(mod), context_for())
    assert rules_of(scheduled) == ["Matmul"]


@pytest.mark.parametrize(
    ("left", "right"), [((3, 20, 17), (3, 17, 33)), ((2, 4, 64, 32), (2, 4, 32, 64)), ((5, 8, 16), (16, 48))], ids=str
)
def test_batched_matmul(left, right):
    a, b = random(*left), random(*right)
    result = run(module(lambda emit, x, y: emit(op.matmul(x, y)), left, right), a, b)
    torch.testing.assert_close(result, a @ b, rtol=1e-4, atol=1e-4)


def test_a_product_with_itself_and_with_transposes():
    def make(emit, a):
        return [emit(op.matmul(a, a)), emit(op.matmul(a, emit(op.permute_dims(a, [1, 0]))))]

    a = random(65, 65)
    squared, gram = run(module(make, (65, 65)), a)
    torch.testing.assert_close(squared, a @ a, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(gram, a @ a.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_dtype(dtype):
    kind = getattr(torch, dtype)
    a, b = random(48, 32, dtype=kind), random(48, 32, dtype=kind)
    spec = ((48, 32), dtype)
    added, equal, largest = run(
        module(lambda emit, x, y: [emit(op.add(x, y)), emit(op.equal(x, y)), emit(op.max(x, [0]))], spec, spec), a, b
    )
    assert torch.equal(added, a + b)
    assert torch.equal(equal, a == b)
    assert torch.equal(largest, a.amax(0))


def test_bool():
    a, b = random(48, 32, dtype=torch.bool), random(48, 32, dtype=torch.bool)
    spec = ((48, 32), "bool")
    both, neither = run(
        module(lambda emit, x, y: [emit(op.logical_and(x, y)), emit(op.logical_not(x))], spec, spec), a, b
    )
    assert torch.equal(both, a & b)
    assert torch.equal(neither, ~a)


def test_bf16_constants_do_not_stop_the_compiler():
    mod = module(lambda emit: emit(op.full((64, 48), relax.const(1.5, "bfloat16"), "bfloat16")))
    assert torch.equal(run(mod), torch.full((64, 48), 1.5, dtype=torch.bfloat16))


def test_without_a_schedule_the_numbers_are_the_same():
    mod = module(lambda emit, a, b: emit(op.nn.softmax(emit(op.matmul(a, b)))), (9, 20), (20, 50))
    a, b = random(9, 20), random(20, 50)
    plain = run(mod, a, b, context=context_for(schedule="none"))
    torch.testing.assert_close(plain, (a @ b).softmax(-1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("offset", [1, 3])
def test_tensors_may_start_anywhere_in_memory(offset):
    def shifted(*shape):
        return random(int(np.prod(shape)) + offset)[offset:].view(shape)

    a, b = shifted(64, 48), shifted(48, 64)
    mod = module(lambda emit, x, y: emit(op.exp(emit(op.matmul(x, y)))), (64, 48), (48, 64))
    out = torch.empty(64 * 64 + offset)[offset:].view(64, 64)
    compiled(mod).executable.launch([a, b], [out])
    torch.testing.assert_close(out, (a @ b).exp(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_more_threads_give_the_same(threads):
    a, b = random(600, 500), random(500, 700)
    mod = module(lambda emit, x, y: emit(op.nn.softmax(emit(op.matmul(x, y)))), (600, 500), (500, 700))
    context = context_for(Target("cpu", "here", threads))
    torch.testing.assert_close(run(mod, a, b, context=context), (a @ b).softmax(-1), rtol=1e-4, atol=1e-4)


def test_tiny_work_is_not_spread_over_threads_and_large_work_is():
    context = context_for(Target("cpu", "here", 4))
    tiny = tir_to_scheduled.lower(tir_of(module(add_chain, (8, 8), (8, 8))), context).script()
    large = tir_to_scheduled.lower(tir_of(module(add_chain, (512, 512), (512, 512))), context).script()
    assert "T.parallel" not in tiny
    assert "T.vectorized" in tiny
    assert "T.parallel" in large


def test_a_rule_that_raises_is_named_and_the_next_one_taken(monkeypatch):
    def broken(_function, _target):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(tir_to_scheduled, "CPU_RULES", (("Broken", broken), *tir_to_scheduled.CPU_RULES))
    scheduled = tir_to_scheduled.lower(tir_of(module(add_chain, (8, 8), (8, 8))), context_for())
    assert rules_of(scheduled) == ["Elementwise"]
    assert "Broken: oops" in scheduled.script()


# executables


def test_results_may_be_arguments_constants_views_and_repeated():
    def make(emit, a, b):
        added = emit(op.add(a, b))
        flat = emit(op.reshape(added, (50, 37)))
        soft = emit(op.nn.softmax(flat))
        scaled = emit(op.multiply(soft, relax.const(np.arange(37, dtype="float32"), "float32")))
        back = emit(op.reshape(scaled, (37, 50)))
        return [added, flat, soft, back, back, a, added, relax.const(3.5, "float32")]

    a, b = random(37, 50), random(37, 50)
    added = a + b
    soft = added.view(50, 37).softmax(-1)
    back = (soft * torch.arange(37)).view(37, 50)
    results = run(module(make, (37, 50), (37, 50)), a, b)
    expected = [added, added.view(50, 37), soft, back, back, a, added, torch.tensor(3.5)]
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5)


def test_a_pure_reshape_costs_no_launch():
    code = compiled(module(lambda emit, a: emit(op.exp(emit(op.reshape(a, (20,))))), (4, 5)))
    assert code.executable.kernels == 1
    only_reshape = compiled(module(lambda emit, a: emit(op.reshape(a, (20,))), (4, 5)))
    assert only_reshape.executable.kernels == 0
    x, out = random(4, 5), torch.empty(20)
    only_reshape.executable.launch([x], [out])
    assert torch.equal(out, x.view(20))


def test_tensors_without_elements():
    def make(emit, a):
        return [emit(op.sum(a, [1])), emit(op.add(a, a)), emit(op.sum(a)), emit(op.exp(emit(op.sum(a, [1]))))]

    sums, doubled, total, one = run(module(make, (4, 0)), torch.empty(4, 0))
    assert sums.tolist() == [0, 0, 0, 0]
    assert doubled.shape == (4, 0)
    assert total.item() == 0
    assert one.tolist() == [1, 1, 1, 1]


def test_no_results_and_no_kernels():
    executable = compiled(module(lambda emit, a: a, (4,))).executable
    out = torch.zeros(4)
    executable.launch([torch.arange(4.0)], [out])
    assert executable.kernels == 0
    assert out.tolist() == [0, 1, 2, 3]


def branching():
    builder = BlockBuilder()
    condition, x = relax.Var("c", TensorType((), "bool")), relax.Var("x", TensorType((8,), "float32"))
    with builder.function("kernel", [condition, x]):
        taken = relax.SeqExpr([], relax.op.add(x, x))
        other = relax.SeqExpr([], relax.op.multiply(x, x))
        builder.emit_func_output(builder.emit(relax.If(condition, taken, other)))
    return relax.transform.Normalize()(builder.get())


def launch_in_threads(executable, inputs, expected, outputs_like):
    def call(_number):
        outputs = [torch.empty_like(each) for each in outputs_like]
        for _ in range(50):
            executable.launch(inputs, outputs)
        return outputs

    with ThreadPoolExecutor(4) as pool:
        for outputs in pool.map(call, range(8)):
            for output, wanted in zip(outputs, expected, strict=True):
                torch.testing.assert_close(output, wanted, rtol=1e-4, atol=1e-4)


def test_a_branch_runs_on_the_virtual_machine_from_several_threads():
    executable = compiled(branching()).executable
    x = torch.arange(8.0)
    for condition, expected in ((True, x + x), (False, x * x)):
        launch_in_threads(executable, [torch.tensor(condition), x], [expected], [x])


def test_one_executable_is_called_from_several_threads():
    def make(emit, a, b):
        product = emit(op.matmul(a, b))
        return [emit(op.nn.softmax(product)), emit(op.sum(product, [0]))]

    a, b = random(200, 100), random(100, 300)
    expected = [(a @ b).softmax(-1), (a @ b).sum(0)]
    executable = compiled(module(make, (200, 100), (100, 300))).executable
    launch_in_threads(executable, [a, b], expected, expected)


def test_llvm_and_assembly_texts():
    context = context_for()
    code = compiled(module(add_chain, (64, 48), (64, 48)), context)
    assert re.search(r"define .*@__tvm_ffi_fused_add_add", code.text)
    assembly = llvm_to_asm.lower(code, context)
    assert ".text" in assembly.text
    assert assembly.executable is code.executable


# cuda


def cuda_code(mod, context=None):
    context = context or context_for("cuda")
    return scheduled_to_cuda.lower(tir_to_scheduled.lower(tir_of(mod, context), context), context)


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

        def note(block):
            for buffer in block.alloc_buffers:
                fresh[buffer] = tirx.decl_buffer(buffer.shape, buffer.dtype, buffer.name, layout=None)
            return block

        structural_map(function.body, (SBlock, note))
        body = structural_map(function.body, [(tirx.For, serial)])
        return function.with_body(structural_map(body, (tirx.Var, lambda variable: fresh.get(variable, variable))))

    functions = {
        gv: without_scopes(function) if isinstance(function, PrimFunc) else function
        for gv, function in mod.functions_items()
    }
    return type(mod)(functions, attrs=mod.attrs)


CUDA_CASES = {
    "add": (add_chain, [(37, 50), (37, 50)], lambda a, b: a + b + a),
    "scalar": (add_chain, [(), ()], lambda a, b: a + b + a),
    "sum": (lambda emit, a: emit(op.sum(a)), [(37, 50)], torch.sum),
    "argmax": (lambda emit, a: emit(op.argmax(a)), [(37, 50)], torch.argmax),
    "mean": (lambda emit, a: emit(op.mean(a, [0])), [(64,)], lambda a: a.mean(0)),
    "softmax": (lambda emit, a: emit(op.nn.softmax(a)), [(8, 100)], lambda a: a.softmax(-1)),
    "matmul": (lambda emit, a, b: emit(op.matmul(a, b)), [(70, 33), (33, 50)], lambda a, b: a @ b),
    "transpose": (lambda emit, a: emit(op.permute_dims(a, [1, 0])), [(37, 50)], lambda a: a.T.contiguous()),
}


@pytest.mark.parametrize("name", CUDA_CASES)
def test_cuda_schedules_compute_the_right_numbers_when_run_without_threads(name):
    make, shapes, reference = CUDA_CASES[name]
    context = context_for("cuda")
    scheduled = tir_to_scheduled.lower(tir_of(module(make, *shapes), context), context)
    inputs = [random(*shape) for shape in shapes]
    expected = reference(*inputs)
    out = torch.full_like(expected, 7)
    scheduled_to_llvm.lower(on_the_cpu(scheduled), context_for()).executable.launch(inputs, [out])
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CUDA_CASES)
def test_every_block_is_on_threads(name):
    make, shapes, _ = CUDA_CASES[name]
    assert kernels_in(cuda_code(module(make, *shapes)).text) >= 1


def test_the_chain_is_one_global_function_with_the_users_lines():
    source = cuda_code(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4})).text
    assert kernels_in(source) == 1
    assert f'#line 4 "{FILE}"' in source
    assert f"// {FILE}:3" in source


def test_calling_a_cuda_kernel_says_what_is_missing():
    executable = cuda_code(module(add_chain, (4, 5), (4, 5))).executable
    assert executable.kernels == 1
    with pytest.raises(DeviceError, match="CUDA"):
        executable.launch([torch.ones(4, 5)] * 2, [torch.ones(4, 5)])


def test_ptx_without_nvcc_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(DeviceError, match="nvcc"):
        cuda_to_ptx.lower(cuda_code(module(add_chain, (4, 5), (4, 5))), context_for("cuda"))


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@pytest.mark.nvcc
@needs_nvcc
@pytest.mark.parametrize("name", CUDA_CASES)
def test_nvcc_takes_every_source(name):
    make, shapes, _ = CUDA_CASES[name]
    assert cuda_to_ptx.run_nvcc(cuda_code(module(make, *shapes)).text, "sm_80", "-cubin").startswith(b"\x7fELF")


@pytest.mark.nvcc
@needs_nvcc
def test_ptx_and_nvccs_complaints_on_the_users_line():
    context = context_for("cuda:sm_90")
    code = cuda_code(module(add_chain, (4, 5), (4, 5), locations={"out": 3, "out1": 4}), context)
    assert ".target sm_90" in cuda_to_ptx.lower(code, context).text
    broken = re.sub(r"(#line 4 [^\n]*\n)", r"\1  nonsense;\n", code.text)
    with pytest.raises(KernelError) as caught:
        cuda_to_ptx.run_nvcc(broken, "sm_90", "-ptx")
    assert (caught.value.span.file, caught.value.span.line) == (FILE, 4)


# texts

TEXTS = """
import sys
sys.path.insert(0, {folder!r})
import test_tvm_rooms as rooms
def make(emit, a, b):
    product = emit(rooms.op.matmul(a, b), "product")
    soft = emit(rooms.op.nn.softmax(product), "soft")
    return [soft, emit(rooms.op.add(soft, soft), "twice"), emit(rooms.op.sum(product, [0]), "total")]
for target in ("cpu", "cuda"):
    context = rooms.context_for(target)
    mod = rooms.module(make, (33, 20), (20, 50), locations=dict(product=3, soft=4, twice=5, total=6))
    tir = rooms.tir_of(mod, context)
    scheduled = rooms.tir_to_scheduled.lower(tir, context)
    room = rooms.scheduled_to_cuda if target == "cuda" else rooms.scheduled_to_llvm
    print(tir.script(), scheduled.script(), room.lower(scheduled, context).text)
"""


def test_texts_are_equal_across_processes_and_hash_seeds():
    texts = []
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", TEXTS.format(folder=os.path.dirname(__file__))],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        texts.append(ran.stdout)
    assert texts[0] == texts[1]
    assert "__global__" in texts[0]
