"""scheduled → cuda → ptx without a GPU: kernels, launches, the users' lines, what nvcc says, and numbers on the CPU."""

from __future__ import annotations

import math
import re
import shutil

import pytest
import torch
from cuda_helpers import kernels_in, on_the_cpu
from tolerances import within
from tvm_stage_helpers import FILE, add_chain, context_for, cuda_code, module, op, random, rules_of, tir_of

from mlirtri.errors import DeviceError, KernelError
from mlirtri.lowering.codegen import cuda_to_ptx, scheduled_to_llvm
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.schedule.cuda import cuda_rules
from mlirtri.lowering.toolchain.tvm_names import relax

CUDA_CASES = {
    "add": (add_chain, [(37, 50), (37, 50)], lambda a, b: a + b + a),
    "scalar": (add_chain, [(), ()], lambda a, b: a + b + a),
    "sum": (lambda emit, a: emit(op.sum(a)), [(37, 50)], torch.sum),
    "argmax": (lambda emit, a: emit(op.argmax(a)), [(37, 50)], torch.argmax),
    "mean": (lambda emit, a: emit(op.mean(a, [0])), [(64,)], lambda a: a.mean(0)),
    "softmax": (lambda emit, a: emit(op.nn.softmax(a)), [(8, 100)], lambda a: a.softmax(-1)),
    "matmul": (lambda emit, a, b: emit(op.matmul(a, b)), [(70, 12), (12, 50)], lambda a, b: a @ b),
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
    torch.testing.assert_close(out, expected, **within(expected.dtype, max(map(math.prod, shapes))))


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


def test_memory_that_begins_between_vectors_is_copied():
    class Doubling:
        def launch(self, inputs, outputs):
            assert all(each.data_ptr() % 16 == 0 for each in (*inputs, *outputs))
            outputs[0].copy_(inputs[0] * 2)

    executable = cuda_code(module(add_chain, (4, 5), (4, 5))).executable
    executable._built = Doubling()
    memory = torch.zeros(64)
    given, out = torch.arange(21.0)[1:].view(4, 5), memory[3:23].view(4, 5)
    executable.launch([given, torch.ones(4, 5)], [out])
    torch.testing.assert_close(memory[3:23].view(4, 5), given * 2)


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


def test_a_schedule_that_no_launch_could_hold_is_passed_over():
    shapes = [((70000, 4, 4), "float32")] * 2
    context = context_for("cuda")
    mod = tir_of(module(lambda emit, a, b: emit(op.matmul(a, b)), *shapes), context)
    scheduled = tir_to_scheduled.lower(mod, context)
    assert rules_of(scheduled) == ["Fallback"]
    assert "is too large" in scheduled.script()


def test_one_thread_is_right_for_what_no_rule_takes(monkeypatch):
    monkeypatch.setattr(cuda_rules, "CUDA_RULES", cuda_rules.CUDA_RULES[-1:])
    code = cuda_code(module(lambda emit, a: [emit(op.sum(a)), emit(op.nn.softmax(a))], (5, 6)))
    assert kernels_in(code.text) >= 2


@pytest.mark.nvcc
@needs_nvcc
def test_nvcc_takes_infinities_of_fp16():
    for dtype in ("float16", "bfloat16"):

        def make(emit, a, dtype=dtype):
            return emit(op.where(emit(op.less(a, relax.const(0, dtype))), relax.const(float("-inf"), dtype), a))

        assert cuda_to_ptx.run_nvcc(cuda_code(module(make, ((8, 40), dtype))).text, "sm_80", "-cubin")
