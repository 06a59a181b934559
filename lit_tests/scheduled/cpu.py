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
# CHECK: T.func_attr({"mlirtri.lines": ["cpu.py:12:11", "cpu.py:13:11"]{{.*}}"mlirtri.schedule": "Elementwise"
# CHECK: T.parallel(
# CHECK: T.vectorized(
# CHECK-NEXT: out[{{.*}}] = a[{{.*}}] + b[{{.*}}] + a[
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
# The sums of a tile are vectors in rows of memory that becomes registers.
# CHECK: [[SUMS:[a-z0-9]+]] = T.alloc_buffer((T.int64([[ROWS:[0-9]+]]), T.int64([[LANES:[0-9]+]])))
# CHECK: for [[K:[a-z0-9_]+]] in range(T.int64(64)):
# CHECK: for lane in T.vectorized(T.int64([[LANES]])):
# CHECK-NEXT: right0[lane] = b[[[K]], {{.*}}lane]
# CHECK: for row in T.unroll(T.int64([[ROWS]])):
# CHECK-NEXT: left[{{.*}}] = T.Broadcast(a[
# CHECK-NEXT: [[SUMS]][row, {{.*}}] = [[SUMS]][row, {{.*}}] + left[{{.*}}] * right0[
# CHECK: out[{{.*}}] = [[SUMS]][row, lane]
# CHECK: def product(
