# Indices known at run time only are checked: once before a loop where every iteration has them, else at the access.
# RUN: mlirtri emit %s::before --stage=tri --arg 'o=f32[8]' --arg 'n=i32' | FileCheck %s --check-prefix=BEFORE
# RUN: mlirtri emit %s::inside --stage=tri --arg 'o=f32[8]' --arg 'p=i64[5]' | FileCheck %s --check-prefix=INSIDE
# RUN: mlirtri emit %s::proved --stage=tri --arg 'o=f32[8]' --arg 'p=uint8[5]' | FileCheck %s --check-prefix=PROVED
import mlirtri as mt


@mt.jit
def before(o, n: mt.int32):
    for i in range(n):
        o[i] = 1.0


# A loop that would leave the array does not run.
# BEFORE: [[N:%.+]] = "tri.cast"(%n)
# BEFORE: [[PAST:%.+]] = "tri.add"([[N]]
# BEFORE: [[WRONG:%.+]] = "tri.greater"([[PAST]]
# BEFORE: [[SKIPS:%.+]] = tensor.extract [[WRONG]]
# BEFORE: [[STOP:%.+]] = arith.select [[SKIPS]], %c0
# BEFORE: scf.for {{.*}} to [[STOP]]
# BEFORE-NOT: tri.greater
# BEFORE-NOT: tri.where
# BEFORE: scf.yield


@mt.jit
def inside(o, p):
    for i in range(p.shape[0]):
        o[p[i]] = 1.0


# The loop carries whether an index was outside; element 0 is written there.
# INSIDE: scf.for {{.*}} iter_args({{.*}}, [[FAILED:%.+]] = {{.*}}) -> (tensor<8xf32>, tensor<i1>)
# INSIDE: [[WRONG:%.+]] = "tri.logical_or"
# INSIDE: [[NEXT:%.+]] = "tri.logical_or"([[FAILED]], [[WRONG]])
# INSIDE: "tri.where"([[WRONG]]
# INSIDE: scf.yield {{.*}}, [[NEXT]]


@mt.jit
def proved(o, p):
    for i in range(p.shape[0]):
        o[p[i] % 8] = 1.0


# PROVED-NOT: tri.less
# PROVED-NOT: tri.where
# PROVED: return
