# For every tensor between two operations: whether both are one kernel, and why not.
# RUN: mlirtri emit %s::softmax --explain-fusion | FileCheck %s
# RUN: mlirtri emit %s::softmax --explain-fusion --json | FileCheck %s --check-prefix=JSON
# RUN: mlirtri emit %s::products --explain-fusion | FileCheck %s --check-prefix=PRODUCTS

import mlirtri as mt


@mt.jit
def softmax(x: mt.Tensor[[8, 32], mt.float32]):
    e = mt.exp(x - mt.max(x, axis=1, keepdims=True))
    return e / mt.sum(e, axis=1, keepdims=True)


# CHECK: stage producer consumer line fused kind why
# CHECK: fused max sub {{.*}} no reduction
# CHECK: fused sub exp e {{.*}} yes elementwise
# CHECK: tir max {{.*}} yes rows

# JSON: "kernel": "softmax"
# JSON: "stage": "fused"
# JSON: "is_fused": true
# JSON-NEXT: "kind": "elementwise"


@mt.jit
def products(a: mt.Tensor[[8, 8], mt.float32], b: mt.Tensor[[8, 8], mt.float32]):
    return mt.exp(a) @ b + 1


# PRODUCTS: fused exp matmul {{.*}} no expensive
# PRODUCTS: fused matmul add {{.*}} no reduction
# PRODUCTS: tir matmul {{.*}} yes epilogue
