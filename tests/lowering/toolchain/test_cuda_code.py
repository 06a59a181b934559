"""Our replacements of the callback `tvm_callback_cuda_compile`, called as TVM calls it where there is a driver."""

from __future__ import annotations

import shutil

import pytest

from mlirtri.lowering.toolchain import tvm_runtime
from mlirtri.lowering.toolchain.cuda_code import code_of, without_code
from mlirtri.lowering.toolchain.tvm_names import tvm

KERNEL = 'extern "C" __global__ void one(float* a) { a[0] = 1; }'


def asked(source: str) -> bytes:
    return bytes(tvm_runtime.runtime().get_global_func("tvm_callback_cuda_compile")(source))


def test_nothing_is_compiled_for_the_text_alone():
    with without_code():
        assert asked("no CUDA at all") == b""


def test_code_that_is_there_is_not_made_again():
    with code_of("no CUDA at all", "sm_80", b"code"):
        assert asked(KERNEL) == b"code"


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_the_source_that_is_shown_is_what_is_compiled():
    with code_of(KERNEL.replace("one", "other"), "sm_80"):
        assert b"other" in asked(KERNEL)


def test_tvms_own_answer_is_back_afterwards():
    name = "tvm_callback_cuda_compile"
    tvm.register_global_func(name, lambda source: b"TVM's", override=True)
    with without_code(), code_of(KERNEL, "sm_80", b"code"):
        assert asked(KERNEL) == b"code"
    assert asked(KERNEL) == b"TVM's"
    tvm_runtime.runtime().remove_global_func(name)
    with without_code():
        pass
    assert tvm_runtime.runtime().get_global_func(name, allow_missing=True) is None
    tvm.register_global_func(name, tvm.support.nvcc.tvm_callback_cuda_compile)
