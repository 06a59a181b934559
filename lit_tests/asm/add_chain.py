# REQUIRES: x86
# Machine code from TVM's code generator: both additions are vector instructions of one kernel, with no jump between.
# RUN: mlirtri emit %s --stage=asm > %t
# RUN: FileCheck %s --input-file %t

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: {{^}}__tvm_ffi_add_add:
# CHECK-NOT: {{^}}__tvm_ffi_add
# CHECK: {{^}}add_add_compute_:
# CHECK: addps
# CHECK-NOT: {{ j[a-z]+ }}
# CHECK: addps
# CHECK-NOT: _compute_:
