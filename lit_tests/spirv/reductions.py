# A reduction is a kernel of up to 64 threads with partial results, which one thread combines; integers are atomic.
# RUN: mlirtri emit %s::total --target=spirv --stage=gpu | FileCheck %s --check-prefix=TOTAL
# RUN: mlirtri emit %s::counted --target=spirv --stage=spirv | FileCheck %s --check-prefix=COUNTED
# RUN: mlirtri emit %s::spread --target=spirv --stage=spirv | FileCheck %s --check-prefix=SPREAD
# RUN: mlirtri emit %s::own --target=spirv --stage=gpu | FileCheck %s --check-prefix=OWN

import numpy as np

import mlirtri as mt


@mt.jit
def total(a: mt.Tensor[[9000], mt.float32]):
    s = np.float32(0)
    for i in mt.prange(9000):
        s += a[i]
    return s


# TOTAL-LABEL: func.func @total
# TOTAL: %[[PARTIAL:.*]] = memref.alloca() : memref<64xf32
# TOTAL: gpu.launch_func @total_kernel_0::
# TOTAL-SAME: args(%a : memref<9000xf32>, %[[PARTIAL]] : memref<64xf32
# One thread combines pairs.
# TOTAL: gpu.launch_func @total_kernel_1::{{.*}} blocks in (%c1, %c1, %c1)
# TOTAL-NOT: gpu.launch_func
# TOTAL: gpu.module @total_kernel_0
# TOTAL: scf.for {{.*}} iter_args


@mt.jit
def counted(a: mt.Tensor[[9000], mt.int32], h: mt.Tensor[[5000], mt.int64]):
    for i in mt.prange(9000):
        mt.atomic_add(h[a[i] % 5000], 1)


# COUNTED: requires #spirv.vce<v1.0, [Int64Atomics, {{.*}}Int64
# COUNTED: spirv.AtomicIAdd <Device> <None>


@mt.jit
def spread(a: mt.Tensor[[9000], mt.int32], h: mt.Tensor[[5000], mt.float32]):
    for i in mt.prange(9000):
        mt.atomic_add(h[a[i] % 5000], 0.5)


# Floats are updated as integers of their bits.
# SPREAD: spirv.GlobalVariable {{.*}}!spirv.array<5000 x i32
# SPREAD: %[[SEEN:.*]] = spirv.AtomicCompareExchange <Device> <None> <None>
# SPREAD: spirv.mlir.loop
# SPREAD: %[[OLD:.*]] = spirv.Bitcast %{{.*}} : i32 to f32
# SPREAD: %[[SUM:.*]] = spirv.FAdd %[[OLD]]
# SPREAD: %[[BITS:.*]] = spirv.Bitcast %[[SUM]] : f32 to i32
# SPREAD: spirv.AtomicCompareExchange <Device> <None> <None> %{{.*}}, %[[BITS]],


@mt.jit
def own(a: mt.Tensor[[90], mt.float32]):
    for i in mt.prange(90):
        t = np.zeros(3, np.float32)
        for j in range(5):
            t[(i + j) % 3] += a[i]
        a[i] = t[0]


# OWN: gpu.func @own_kernel
# OWN: memref.alloca() : memref<3xf32, #spirv.storage_class<Function>>
