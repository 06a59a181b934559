# The last block is clipped: what a copy does not reach keeps the zeros of its tile. Tiles of one number are filled.
# RUN: mlirtri emit %s --stage=fused | FileCheck %s

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


# CHECK: scf.for %[[BX:.*]] = %c0 to %c4 {{.*}} iter_args(%[[Y:.*]] = %y)
# CHECK: %[[ZERO:.*]] = linalg.generic
# CHECK: %[[LEFT:.*]] = arith.subi %c30_i64
# CHECK: arith.minsi %[[LEFT]], %c8_i64
# CHECK: %[[PART:.*]] = tensor.extract_slice %x[{{.*}}] : tensor<30x32xf32> to tensor<?x32xf32>
# CHECK: %[[TILE:.*]] = tensor.insert_slice %[[PART]] into %[[ZERO]][0, 0] {{.*}}mlirtri.memory_space = #gpu.address_space<workgroup>} : {{.*}} into tensor<8x32xf32>
# CHECK: %[[SUMS:.*]] = tensor.empty() {mlirtri.memory_space = #gpu.address_space<private>} : tensor<8xf32>
# CHECK: iterator_types = ["parallel", "reduction"]} ins(%[[TILE]] : tensor<8x32xf32>)
# CHECK: {mlirtri.parallel = ["rows"]}
# CHECK: tensor.insert_slice {{.*}} into %[[Y]][{{.*}}] : tensor<?x32xf32> into tensor<30x32xf32>
# CHECK: {mlirtri.blocks}
