# Python arithmetic on compile-time values is folded; a function without a result compiles to one without results.
# RUN: mlirtri emit "%s::*" --stage=tri | FileCheck %s

import mlirtri as mt

WIDTH = 3


@mt.jit
def two():
    out = 1 + 1
    return out


# CHECK-LABEL: func.func @two() -> tensor<i64>
# CHECK-NEXT: %[[TWO:.*]] = "tri.constant"() {{.*}}value = 2 : i64
# CHECK-NEXT: return %[[TWO]] : tensor<i64>


@mt.jit
def narrow():
    return mt.int32(1)


# CHECK-LABEL: func.func @narrow() -> tensor<i32>


@mt.jit
def nothing(a: mt.Tensor[[2, 3], mt.float32]):
    pass


# CHECK-LABEL: func.func @nothing
# CHECK-SAME: (%a: tensor<2x3xf32>) {
# CHECK-NEXT: return
# CHECK-NEXT: }


@mt.jit
def from_outside(a: mt.Tensor[[2, 3], mt.float32], scale: float = 0.5):
    rows, columns = a.shape
    if columns == WIDTH and scale < 1:
        a = a * (rows * WIDTH)
    return a


# CHECK-LABEL: func.func @from_outside
# CHECK-SAME: (%a: tensor<2x3xf32>)
# CHECK: "tri.constant"() {{.*}}value = 6.000000e+00
# CHECK: "tri.multiply"
