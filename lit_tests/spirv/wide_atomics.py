# wide-atomics: a module that adds 64-bit integers atomically says what it requires of the device.
# RUN: mlirtri emit %s --target=spirv --stage=spirv | FileCheck %s
import mlirtri as mt


# CHECK: spirv.module {{.*}} requires #spirv.vce<v1.0, [Int64Atomics,
# CHECK: spirv.AtomicIAdd
@mt.jit
def counts(i: mt.Tensor[[100], mt.int64], out: mt.Tensor[[8], mt.int64]):
    for k in mt.prange(100):
        out[i[k] % 8] += 1
