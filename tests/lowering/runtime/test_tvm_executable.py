"""What runs compiled kernels: outputs that are anything, tensors without elements, branches, threads, texts."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from tolerances import within
from tvm_stage_helpers import add_chain, branching, compiled, context_for, module, op, random, run

from mlirtri.lowering.codegen import llvm_to_asm
from mlirtri.lowering.toolchain.tvm_names import relax


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
        torch.testing.assert_close(result, wanted, **within(wanted.dtype, 37))


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


def launch_in_threads(executable, inputs, expected, lengths):
    def call(_number):
        outputs = [torch.empty_like(each) for each in expected]
        for _ in range(50):
            executable.launch(inputs, outputs)
        return outputs

    with ThreadPoolExecutor(4) as pool:
        for outputs in pool.map(call, range(8)):
            for output, wanted, length in zip(outputs, expected, lengths, strict=True):
                torch.testing.assert_close(output, wanted, **within(wanted.dtype, length))


def test_a_branch_runs_on_the_virtual_machine_from_several_threads():
    executable = compiled(branching()).executable
    x = torch.arange(8.0)
    for condition, expected in ((True, x + x), (False, x * x)):
        launch_in_threads(executable, [torch.tensor(condition), x], [expected], [1])


def test_one_executable_is_called_from_several_threads():
    def make(emit, a, b):
        product = emit(op.matmul(a, b))
        return [emit(op.nn.softmax(product)), emit(op.sum(product, [0]))]

    a, b = random(200, 100), random(100, 300)
    expected = [(a @ b).softmax(-1), (a @ b).sum(0)]
    executable = compiled(module(make, (200, 100), (100, 300))).executable
    launch_in_threads(executable, [a, b], expected, [100, 100 * 200])


def test_llvm_and_assembly_texts():
    context = context_for()
    code = compiled(module(add_chain, (64, 48), (64, 48)), context)
    assert re.search(r"define .*@__tvm_ffi_fused_add_add", code.text)
    assembly = llvm_to_asm.lower(code, context)
    assert ".text" in assembly.text
    assert assembly.executable is code.executable
