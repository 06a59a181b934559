# REQUIRES: nvcc
# nvcc compiles the CUDA source for the architecture that the target names.
# RUN: mlirtri emit %s --stage=ptx --target=cuda:sm_90 | FileCheck %s

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: .target sm_90
# CHECK: .visible .entry {{.*}}add
# CHECK: add.f32
# CHECK: add.f32
# CHECK-NOT: .entry
