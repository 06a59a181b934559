# bf16 is its bits in memory, and is computed in fp32.
# RUN: mlirtri emit %s --target=spirv --stage=gpu | FileCheck %s

import mlirtri as mt


@mt.jit
def doubled(a: mt.Tensor[[64], mt.bfloat16]):
    return a * 2


# CHECK-LABEL: gpu.func @doubled_kernel
# CHECK-NOT: bf16
# CHECK: %[[BITS:.*]] = memref.load %{{.*}} : memref<64xi16>
# CHECK: %[[WIDE:.*]] = arith.extui %[[BITS]] : i16 to i32
# CHECK: arith.mulf %{{.*}} : f32
# CHECK: memref.store %{{.*}} : memref<64xi16>
# CHECK-NOT: bf16
