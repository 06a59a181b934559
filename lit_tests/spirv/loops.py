# A parallel loop is one kernel; loops and branches inside of it stay in order, and numbers are read in the kernel.
# RUN: mlirtri emit %s --target=spirv --stage=gpu | FileCheck %s --check-prefix=GPU
# RUN: mlirtri emit %s --target=spirv --stage=spirv | FileCheck %s --check-prefix=SPIRV

import numpy as np

import mlirtri as mt


@mt.jit
def steps(a: mt.Tensor[[30, 20], mt.float32], most: mt.int32, out: mt.Tensor[[30, 20], mt.int32]):
    for i, j in mt.ndrange(30, 20):
        x, count = np.float32(0), np.int32(0)
        while x < 4 and count < most:
            x = x * x + a[i, j]
            count += np.int32(1)
        out[i, j] = count


# GPU: gpu.launch_func @steps_kernel::@steps_kernel
# GPU-NOT: memref.load
# GPU: gpu.func @steps_kernel
# GPU-SAME: known_grid_size = array<i32: 1, 30, 1>
# GPU: memref.load %{{.*}}[] : memref<i32
# GPU: scf.while
# GPU: scf.condition
# GPU: memref.store %{{.*}}, %{{.*}}[%block_id_y, %thread_id_x]

# SPIRV: spirv.mlir.loop
# SPIRV: spirv.FOrdLessThan
# SPIRV: spirv.SLessThan
