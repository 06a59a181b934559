# A graph of kernels: its calls as stage `graph`, one function as stage `tri`, and one operation after fusion.
# RUN: mlirtri emit %s::both --stage=graph | FileCheck %s --check-prefix=GRAPH
# RUN: mlirtri emit %s::both --stage=tri | FileCheck %s --check-prefix=TRI
# RUN: mlirtri emit %s::both --stage=fused --pipeline=mlir | FileCheck %s --check-prefix=FUSED

import mlirtri as mt


@mt.jit
def add(a, b):
    return a + b


@mt.jit
def clear(a):
    a[...] = 0


with mt.graph("both") as both:
    x = both.argument("x", mt.Tensor((4, 8), mt.float32))
    y = both.argument("y", mt.Tensor((8,), mt.float32))
    total = add(add(x, y), y)
    clear(y)
    both.returns(total)

# GRAPH: graph both(%0 x: float32[4, 8], %1 y: float32[8])
# GRAPH-NEXT: %2 = add(%0, %1) : float32[4, 8]
# GRAPH-NEXT: %3 = add(%2, %1) : float32[4, 8]
# GRAPH-NEXT: clear(%1)
# GRAPH-NEXT: return %3

# TRI: func.func @both(%x: tensor<4x8xf32>, %y: tensor<8xf32> {mlirtri.updated_by = 1 : i64})
# TRI-SAME: -> (tensor<4x8xf32>, tensor<8xf32>)
# TRI: %[[FIRST:.*]] = "tri.add"(%x
# TRI: %[[SECOND:.*]] = "tri.add"(%[[FIRST]]
# TRI: return %[[SECOND]]

# FUSED: func.func @both
# FUSED: linalg.generic
# FUSED: arith.addf
# FUSED-NEXT: arith.addf
