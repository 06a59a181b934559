# Loops and branches in `tri`: scf around tensors, with what they change as operands and results.
# RUN: mlirtri emit %s::smooth --stage=tri | FileCheck %s --check-prefix=FOR
# RUN: mlirtri emit %s::choose --stage=tri | FileCheck %s --check-prefix=IF
# RUN: mlirtri emit %s::search --stage=tri | FileCheck %s --check-prefix=WHILE
# RUN: mlirtri emit %s::unrolled --stage=tri | FileCheck %s --check-prefix=UNROLL
# RUN: mlirtri emit %s::scan --stage=bufferized --pipeline=mlir | FileCheck %s --check-prefix=PLACE

import mlirtri as mt

Vector, Scalar = mt.Tensor[[64], mt.float32], mt.Tensor[[], mt.float32]


@mt.jit
def smooth(a: Vector):
    total = 0.0
    for i in range(1, 63):
        a[i] = (a[i - 1] + a[i + 1]) / 2
        total += a[i]
    return total


# The argument is written, so its new content is a result, too.
# FOR-LABEL: func.func @smooth(%a: tensor<64xf32> {mlirtri.updated_by = 1 : i64}) -> (tensor<f32>, tensor<64xf32>)
# FOR: [[LOOP:%.+]]:2 = scf.for {{.*}} iter_args([[TOTAL:%.+]] = {{.*}}, [[A:%.+]] = %a)
# Positions are known to be inside: nothing is clamped.
# FOR-NOT: tri.minimum
# FOR: [[WRITTEN:%.+]] = "tri.insert_slice"([[A]]
# FOR: [[SUM:%.+]] = "tri.add"([[TOTAL]]
# FOR: scf.yield [[SUM]], [[WRITTEN]]
# FOR: return [[LOOP]]#0, [[LOOP]]#1


@mt.jit
def choose(a: Vector, x: Scalar):
    if x > 0:
        b = a * 2
    else:
        b = a + 1
    return b


# IF-LABEL: func.func @choose
# IF: [[CONDITION:%.+]] = "tri.greater"(%x
# IF: [[RESULT:%.+]] = scf.if
# IF: "tri.multiply"
# IF: else
# IF: "tri.add"
# IF: return [[RESULT]]


@mt.jit
def search(a: Vector, x: Scalar):
    for i in range(64):
        if a[i] == x:
            return i
    return -1


# WHILE-LABEL: func.func @search
# WHILE: scf.while
# WHILE: "tri.less"
# WHILE: scf.condition
# WHILE: scf.if
# WHILE: return {{.*}} : tensor<i64>


@mt.jit
def unrolled(a: Vector):
    for i in range(3):
        a = a * i
    return a


# UNROLL-LABEL: func.func @unrolled
# UNROLL-NOT: scf
# UNROLL-COUNT-3: tri.multiply
# UNROLL-NOT: tri.multiply


@mt.jit
def scan(a: Vector):
    for i in range(1, 64):
        a[i] += a[i - 1]


# An element update copies nothing: it is a load and a store in the caller's memory.
# PLACE-LABEL: func.func @scan(%{{.*}}: memref<64xf32>
# PLACE-NOT: memref.alloc
# PLACE-NOT: memref.copy
# PLACE: scf.for
# PLACE: memref.store {{.*}} : memref<64xf32>
# PLACE-NOT: memref.copy
# PLACE: return
