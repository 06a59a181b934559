# Relax's own passes can be looked at one by one: operators become blocks, are grouped, and then merged.
# RUN: mlirtri emit %s --stage=tir --pass=all --pipeline=relax > %t
# RUN: FileCheck %s --input-file %t

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: ===== add_chain: tir: LegalizeOps =====
# CHECK: def add(
# CHECK: T.sblock("T_add")
# CHECK: R.call_tir(cls.add
# CHECK: R.call_tir(cls.add
# CHECK-LABEL: ===== add_chain: tir: AnnotateTIROpPattern =====
# CHECK: "op_pattern": 0
# CHECK-LABEL: ===== add_chain: tir: FuseOps =====
# CHECK: def fused_add
# CHECK-SAME: R.Tensor
# CHECK: "Primitive": True
# CHECK-LABEL: ===== add_chain: tir: FuseTIR =====
# CHECK: def fused_add
# CHECK-SAME: T.Buffer
