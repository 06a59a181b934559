# The emitted CUDA source runs on an emulated device; without its barriers the threads race.
# RUN: rm -rf %t && mkdir %t
# RUN: mlirtri run %s --emulate | FileCheck %s --check-prefix=RUNS
# RUN: mlirtri emit %s --stage=cuda --target=cuda:emulated | sed 's/__syncthreads();//' > %t/cuda.cu
# RUN: env MLIRTRI_OVERRIDE_DIR=%t not mlirtri run %s --emulate 2>&1 | FileCheck %s
# RUN: not mlirtri run %s --emulate --target=cpu 2>&1 | FileCheck %s --check-prefix=CPU

import numpy as np

import mlirtri as mt


@mt.jit
def normed(x: mt.Tensor[[4, 200], mt.float32]):
    return x / np.sum(x, axis=1, keepdims=True)


# RUNS: result: float32[4, 200]
# CHECK: emulation.py:15:{{[0-9]+}}: error: racecheck: kernel {{.*}} shared memory {{.*}} with no barrier between
# CHECK-NEXT: return x / np.sum(x, axis=1, keepdims=True)
# CHECK: help: put a barrier between the two
# CHECK: note: CUDA source, line {{[0-9]+}} of stage cuda:
# CPU: the CPU is not emulated
