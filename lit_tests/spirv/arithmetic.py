# Quotients and products in SPIR-V: each kernel is refused, or another, if its pass is dropped.
# RUN: mlirtri emit %s::quotient --target=spirv --stage=gpu | FileCheck %s --check-prefix=QUOTIENT
# RUN: mlirtri emit %s::product --target=spirv --stage=gpu | FileCheck %s --check-prefix=PRODUCT

import mlirtri as mt


# canonicalize: the host has the constants of the launch alone. cse: the index is computed once.
# arith-expand: SPIR-V has no quotient that rounds down.
# QUOTIENT-LABEL: func.func @quotient
# QUOTIENT-COUNT-4: arith.constant
# QUOTIENT-NOT: arith.constant
# QUOTIENT: gpu.launch_func
# QUOTIENT-LABEL: gpu.func @quotient_kernel
# QUOTIENT-COUNT-1: arith.addi
# QUOTIENT-NOT: arith.addi
# QUOTIENT: memref.load
# QUOTIENT-NOT: arith.floordivsi
# QUOTIENT: arith.divsi
@mt.jit
def quotient(a: mt.Tensor[[37, 100], mt.int32]):
    return a // 3


# linalg-generalize-named-ops: threads go along the rows of the result, which are the innermost axis.
# PRODUCT: gpu.func @product_kernel
# PRODUCT: gpu.func @product_kernel
# PRODUCT-SAME: known_grid_size = array<i32: 1, 8, 1>
# PRODUCT: memref.load %{{.*}}[%block_id_y, %{{.*}}] : memref<8x16xf32>
# PRODUCT: memref.load %{{.*}}[%{{.*}}, %thread_id_x] : memref<16x4xf32>
@mt.jit
def product(a: mt.Tensor[[8, 16], mt.float32], b: mt.Tensor[[16, 4], mt.float32]):
    return a @ b
