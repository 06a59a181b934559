# Any Python function gives a valid symbol: nested ones, lambdas, and names with letters beyond ASCII.
# RUN: mlirtri emit %s::nested,unnamed,größe --stage=tri | FileCheck %s

import mlirtri as mt


def outer():
    @mt.jit
    def inner(a: mt.Tensor[[4], mt.float32]):
        return a * 2

    return inner


nested = outer()
unnamed = mt.jit(lambda a=mt.Tensor((4,), mt.float32): a)


@mt.jit
def größe(länge: mt.Tensor[[4], mt.float32]):
    return länge + 1


# CHECK-LABEL: ===== inner: tri =====
# CHECK: func.func @inner(
# CHECK-LABEL: ===== lambda_: tri =====
# CHECK: func.func @lambda_(
# CHECK: func.func @gr{{[a-z0-9_]*}}e(
# CHECK-SAME: tensor<4xf32>
