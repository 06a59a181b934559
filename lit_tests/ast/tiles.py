# A tile kernel is a `with` in the syntax tree, whose copies and loops are calls.
# RUN: mlirtri emit %s --stage=ast | FileCheck %s

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


# CHECK: FunctionDef(
# CHECK-NEXT: name='shares'
# CHECK: With(
# CHECK-NEXT: items=[
# CHECK-NEXT: withitem(
# CHECK-NEXT: context_expr=Call(
# CHECK: attr='Kernel'
# CHECK: optional_vars=Name(id='bx', ctx=Store())
# CHECK: attr='alloc_shared'
# CHECK: For(
# CHECK: attr='Parallel'
