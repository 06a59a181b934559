# RUN: mlirtri emit %s --target cuda:sm_80 --stage=scheduled,cuda --arg 'a=f32[64,100]' --arg 'out=f32[64,100]' | FileCheck %s
import mlirtri as mt


@mt.jit
def doubled(a, out):
    for step in mt.serial(3):
        for i, j in mt.ndrange(a.shape[0], a.shape[1]):
            out[i, j] = a[i, j] * 2
        out[0, 0] = step


# The host runs the serial loop; both axes of the parallel one are one grid, and the store is one thread's.
# CHECK: for i in range(T.int64(3))
# CHECK-NEXT: T.thread_binding(T.int64(25), thread="blockIdx.x")
# CHECK-NEXT: T.thread_binding(T.int64(256), thread="threadIdx.x")
# CHECK: T.thread_binding(T.int64(1), thread="blockIdx.x")
# CHECK: __global__ void __launch_bounds__(256) doubled_loops_kernel(
# CHECK: __global__ void doubled_loops_kernel_1(
