# The CPU rules: inner loops are vectors, outer loops of large tensors run on all threads; "none" changes nothing.
# RUN: mlirtri emit "%s::*" --stage=scheduled > %t
# RUN: FileCheck %s --input-file %t
# RUN: mlirtri emit %s::large --stage=scheduled --schedule=none | FileCheck %s --check-prefix=NONE
# RUN: mlirtri emit %s::large --stage=scheduled --pipeline=relax | FileCheck %s --check-prefix=RELAX

import mlirtri as mt


@mt.jit
def large(a: mt.Tensor[[1024, 1024], mt.float32], b: mt.Tensor[[1024, 1024], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: ===== large: scheduled =====
# CHECK: T.parallel(
# CHECK: T.vectorized(
# CHECK: T.sblock_attr({"mlirtri.loc": "{{.*}}cpu.py:13:11"})
# CHECK: def large(

# NONE-NOT: T.vectorized
# NONE: def large(

# Both additions are in one loop nest, whoever fused them.
# RELAX: T.parallel(
# RELAX: T.vectorized(
# RELAX-NOT: T.vectorized(
# RELAX: def large(


@mt.jit
def product(a: mt.Tensor[[64, 64], mt.float32], b: mt.Tensor[[64, 64], mt.float32]):
    return a @ b


# CHECK-LABEL: ===== product: scheduled =====
# CHECK: T.func_attr({{.*}}"mlirtri.schedule": "Matmul"{{.*}}"tirx.is_scheduled": True
# The tile lies in a buffer of its own: its rows and vectors are unrolled inside the loop over the summed axis.
# CHECK: out_global = T.sblock_alloc_buffer(
# CHECK: T.parallel(
# CHECK: T.sblock("matmul_init")
# CHECK: for k{{.*}} in range(T.int64(64)):
# CHECK-NEXT: T.unroll(
# CHECK-NEXT: T.unroll(
# CHECK-NEXT: T.vectorized(
# CHECK-NEXT: T.sblock("matmul_update")
# CHECK: T.sblock("out_global")
# CHECK: def product(
