# Helpers, plain ones and kernels, are inlined; locations say the line in the helper.
# RUN: mlirtri emit %s::caller --stage=tri | FileCheck %s
# RUN: mlirtri emit %s::caller --stage=tri --complete | FileCheck %s --check-prefix=WHERE

import mlirtri as mt


@mt.jit
def scaled(x, by):
    return x * by


def sum_and_difference(x, y):
    return x + y, x - y


@mt.jit
def caller(a: mt.Tensor[[4], mt.float32], b: mt.Tensor[[4], mt.float32]):
    s, d = sum_and_difference(a, b)
    return scaled(s, by=d)


# CHECK-LABEL: func.func @caller
# CHECK-DAG: %[[SUM:.*]] = "tri.add"(%a, %b)
# CHECK-DAG: %[[DIFFERENCE:.*]] = "tri.subtract"(%a, %b)
# CHECK: %[[OUT:.*]] = "tri.multiply"(%[[SUM]], %[[DIFFERENCE]])
# CHECK: return %[[OUT]]
# CHECK-NOT: func.func

# WHERE: helpers.py":10:12
