# Loops around kernels are the host's; statements between kernels are a kernel of one thread, whose results it reads.
# RUN: mlirtri emit %s --target=spirv --stage=gpu | FileCheck %s

import numpy as np

import mlirtri as mt


@mt.jit
def halved(a: mt.Tensor[[100], mt.float32], least: mt.float32):
    steps = 0
    while a[0] > least:
        for i in mt.prange(100):
            a[i] *= np.float32(0.5)
        a[99] = np.exp(a[0])
        steps += 1
    return steps


# CHECK-LABEL: func.func @halved
# CHECK: scf.while
# CHECK: memref.load %a[%c0]
# CHECK: scf.condition
# CHECK: gpu.launch_func @halved_kernel::
# CHECK: gpu.launch_func @halved_kernel_0::
# CHECK: scf.yield
# The number of steps is an argument of a kernel that stores it.
# CHECK: gpu.launch_func @halved_kernel_1::{{.*}}args(%{{.*}} : i64,
# CHECK: gpu.module @halved_kernel_0
# CHECK: arith.cmpi ult, %thread_id_x, %c1
# CHECK: math.exp
