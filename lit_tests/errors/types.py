# Operands that do not fit each other, and arguments that do not fit the signature: both sides are shown.
# RUN: not mlirtri emit %s::inner_sizes --stage=tri 2>&1 | FileCheck %s --check-prefix=MATMUL
# RUN: not mlirtri emit %s::broadcast --stage=tri 2>&1 | FileCheck %s --check-prefix=BROADCAST
# RUN: not mlirtri emit %s::axis --stage=tri 2>&1 | FileCheck %s --check-prefix=AXIS
# RUN: not mlirtri emit %s::asserted --stage=tri 2>&1 | FileCheck %s --check-prefix=ASSERT
# RUN: not mlirtri emit %s::inner_sizes --arg a=f16[4] --arg b=f32[3] 2>&1 | FileCheck %s --check-prefix=BOTH

import mlirtri as mt

Vector = mt.Tensor[[4], mt.float32]
Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def inner_sizes(a: Vector, b: Matrix):
    return a @ b.T


# MATMUL: {{.*}}types.py:16:12: error: matmul of float32[4] and float32[8, 4]: the inner sizes 4 and 8 differ
# MATMUL-NEXT: return a @ b.T
# MATMUL-NEXT: {{^}}               ^~~~~~~

# BOTH: types.py:15:1: error: inner_sizes(): arguments do not fit
# BOTH-NEXT: 'a': expected float32[4], got float16[4]
# BOTH-NEXT: 'b': expected float32[4, 8], got float32[3]


@mt.jit
def broadcast(a: Vector, b: mt.Tensor[[5], mt.float32]):
    twice = a * 2
    return twice + b


# BROADCAST: {{.*}}types.py:31:12: error: shapes (4,) and (5,) do not broadcast together
# BROADCAST-NEXT: return twice + b


@mt.jit
def axis(a: Vector):
    return a.sum(axis=3)


# AXIS: {{.*}}types.py:40:12: error: axis 3 is out of range for a tensor of rank 1


@mt.jit
def asserted(a: Vector):
    mt.static_assert(a.shape[0] == 5, "five wanted")
    return a


# ASSERT: {{.*}}types.py:48:5: error: static assertion failed: five wanted
