# Loops are bound to blocks and threads, and locations stay.
# RUN: mlirtri emit "%s::*" --stage=scheduled --target=cuda > %t
# RUN: FileCheck %s --input-file %t

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: ===== add_chain: scheduled =====
# CHECK: T.thread_binding({{.*}}, thread="blockIdx.x")
# CHECK-NEXT: T.thread_binding({{.*}}, thread="threadIdx.x")
# CHECK: T.sblock_attr({"mlirtri.lines": ["cuda.py:10:11", "cuda.py:11:11"], "mlirtri.loc": "cuda.py:11:11"})


@mt.jit
def product(a: mt.Tensor[[128, 128], mt.float32], b: mt.Tensor[[128, 128], mt.float32]):
    return a @ b


# CHECK-LABEL: ===== product: scheduled =====
# CHECK: thread="blockIdx.
# CHECK: thread="threadIdx.
# CHECK: scope="shared.dyn"
# CHECK: T.cuda.func_call("mlirtri_copy_16"
# CHECK: T.tvm_storage_sync("shared")
