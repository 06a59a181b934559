# One LLVM function for the fused chain, with vector arithmetic and the user's file in its debug information.
# RUN: mlirtri emit %s --stage=llvm > %t
# RUN: FileCheck %s --input-file %t
# RUN: mlirtri emit %s --stage=BeforeLowerFunc --pipeline=relax > %t.relax
# RUN: FileCheck %s --input-file %t.relax

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: target triple =
# CHECK: define {{.*}}@{{.*}}add
# CHECK: fadd <[[LANES:[0-9]+]] x float>
# CHECK: fadd <[[LANES]] x float>
