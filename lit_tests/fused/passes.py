# Every pass of a stage can be looked at, and those that changed nothing are left out of "all".
# RUN: mlirtri emit %s --stage=fused --pass=all | FileCheck %s

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[4], mt.float32], b: mt.Tensor[[4], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: ===== add_chain: fused: linalg-fuse-elementwise-ops =====
# CHECK: linalg.generic
# CHECK: arith.addf
# CHECK-NEXT: arith.addf
# CHECK-NOT: linalg.generic
# CHECK: return
