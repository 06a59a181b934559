# A kernel runs on data that is the same each time, and `compare` has a row for every way, refusals among them.
# RUN: mlirtri run %s --arg n=2 > %t.1
# RUN: mlirtri run %s --arg n=2 --pipeline=mlir > %t.2
# RUN: diff %t.1 %t.2
# RUN: FileCheck %s --input-file %t.1
# RUN: mlirtri compare %s --arg n=2 --repeat=1 | FileCheck %s --check-prefix=TABLE
# RUN: mlirtri compare %s --arg n=2 --repeat=1 --target=cuda --pipeline=mlir --json | FileCheck %s --check-prefix=JSON

import mlirtri as mt


@mt.jit
def scaled(x: mt.Tensor[[3, 4], mt.float32], k: mt.Tensor[[4], mt.int32], n):
    return x * n, k + n


# CHECK: result[0]: float32[3, 4]
# CHECK-NEXT: {{-?[0-9.e+-]+}}, {{.*}}, ...
# CHECK-NEXT: result[1]: int32[4]
# CHECK-NEXT: {{[0-9]+, +[0-9]+, +[0-9]+, +[0-9]+$}}

# TABLE: scaled(x: float32[3, 4], k: int32[4], n: 2) on cpu
# TABLE-NEXT: kernels {{.*}}compile ms {{ *}}run
# TABLE-NEXT: linalg {{.*}} 0 {{ *}}0.0
# TABLE-NEXT: relax {{.*}} 0 {{ *}}0.0
# TABLE-NEXT: mlir {{.*}} 0 {{ *}}0.0
# TABLE-NEXT: torch
# TABLE: compile ms {{ *}}ast {{ *}}tri
# TABLE: errors against torch in float64

# JSON: "target": "cuda:sm_80"
# JSON: "name": "mlir"
# JSON: "refusal": "pipeline 'mlir' makes CPU code only
# JSON: "name": "torch"
# JSON: "refusal": null
