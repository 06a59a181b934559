# Sizes of run time are arguments of kernels; arrays of several axes have one, of their elements in order.
# RUN: mlirtri emit %s --target=spirv --stage=gpu | FileCheck %s --check-prefix=GPU
# RUN: mlirtri emit %s --target=spirv --stage=spirv | FileCheck %s --check-prefix=SPIRV

import mlirtri as mt

N, M = mt.dyn["N"], mt.dyn["M"]


@mt.jit
def transposed(a: mt.Tensor[[N, M], mt.float32], out: mt.Tensor[[M, N], mt.float32]):
    for i, j in mt.ndrange(a.shape[0], a.shape[1]):
        out[j, i] = a[i, j] * 2


# GPU: mlirtri.sizes = array<i64: 0, 0, 0, 1, 1, 0, 1, 1>
# GPU-LABEL: func.func @transposed
# GPU-SAME: %a: memref<?xf32>, %out: memref<?xf32> {{.*}}%arg2: index, %arg3: index
# GPU: gpu.launch_func @transposed_kernel::@transposed_kernel
# GPU-SAME: args(%arg3 : index, %arg2 : index, %a : memref<?xf32>
# GPU: gpu.func @transposed_kernel(%[[COLUMNS:arg0]]: index, %{{.*}}: memref<?xf32
# GPU: %[[COLUMN:.*]] = arith.addi %thread_id_x
# GPU: %[[ROW:.*]] = arith.muli %block_id_y, %[[COLUMNS]]
# GPU: %[[OFFSET:.*]] = arith.addi %[[ROW]], %[[COLUMN]]
# GPU: memref.load %{{.*}}[%[[OFFSET]]] : memref<?xf32

# SPIRV: spirv.GlobalVariable {{.*}}!spirv.rtarray<f32, stride=4>
