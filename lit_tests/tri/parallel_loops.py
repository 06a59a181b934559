# Loops that are declared parallel have an attribute with the names of their loop-carried values.
# RUN: mlirtri emit %s --stage=tri | FileCheck %s

import mlirtri as mt


@mt.jit
def scaled(a: mt.Tensor[[20, 9], mt.float32], out: mt.Tensor[[20, 9], mt.float32]):
    total = 0.0
    for i, j in mt.ndrange((1, 20), 9):
        out[i, j] = a[i - 1, j] * 2
        total += a[i, j]
    return total


# CHECK-LABEL: func.func @scaled
# CHECK: scf.for %[[I:[^ ]+]] = %c1{{.*}} to %c20
# CHECK: scf.for
# CHECK: "tri.extract_slice"(%a,
# CHECK: "tri.insert_slice"
# CHECK: } {mlirtri.parallel = ["out", "total"]}
# CHECK: } {mlirtri.parallel = ["total", "out"]}
