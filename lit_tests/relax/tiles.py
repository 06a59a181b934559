# A tile kernel is one TIR function that writes its last argument; tiles are buffers of its loop over blocks.
# RUN: mlirtri emit %s --stage=relax | FileCheck %s

import mlirtri as mt
import mlirtri.tile as T


@mt.jit
def shares(x: mt.Tensor[[30, 32], mt.float32], y: mt.Tensor[[30, 32], mt.float32]):
    with T.Kernel(T.ceildiv(x.shape[0], 8), threads=64) as bx:
        rows, sums = T.alloc_shared((8, 32)), T.alloc_fragment((8,))
        T.copy(x[bx * 8, 0], rows)
        T.reduce_sum(rows, sums, dim=1)
        for i, j in T.Parallel(8, 32):
            rows[i, j] = rows[i, j] / sums[i]
        T.copy(rows, y[bx * 8, 0])


# CHECK: def shares_loops(x: T.Buffer(
# CHECK: T.func_attr({"mlirtri.imperative": True, "mlirtri.tile_kernel": 64
# CHECK: for [[BX:.+]] in T.serial(T.int64(4), annotations={"mlirtri.blocks": 1
# CHECK-NEXT: [[ROWS:[a-z_0-9]+]] = T.alloc_buffer((T.int64(8), T.int64(32)))
# CHECK: [[ROWS]][{{.*}}] = x[
# CHECK: y[{{.*}}] = [[ROWS]][
# CHECK: R.call_tir_inplace(cls.shares_loops, (x, y), {{.*}}inplace_indices=[1])
