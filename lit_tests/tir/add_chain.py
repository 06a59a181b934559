# `out = a + b; out = out + a` is ONE PrimFunc: MLIR fused it in `linalg`, Relax does in `relax`.
# RUN: mlirtri emit %s --stage=tir | FileCheck %s --check-prefixes=CHECK,LINALG
# RUN: mlirtri emit %s --stage=tir --pipeline=relax | FileCheck %s --check-prefixes=CHECK,RELAX

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: @T.prim_func
# CHECK-NEXT: def [[KERNEL:[a-z_0-9]+]](
# LINALG: T.sblock_attr({"mlirtri.lines": ["add_chain.py:10:11", "add_chain.py:11:11"], "mlirtri.loc": "add_chain.py:11:11"})
# RELAX: T.sblock_attr({"mlirtri.loc": "add_chain.py:10:11"})
# RELAX: T.sblock_attr({"mlirtri.loc": "add_chain.py:11:11"})
# CHECK-NOT: @T.prim_func
# CHECK: @R.function
# CHECK: def add_chain(
# CHECK: R.call_tir(cls.[[KERNEL]], (a, b),
# CHECK-NOT: R.call_tir
# CHECK: return
