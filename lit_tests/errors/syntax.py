# Python that kernels do not have is refused at its place, with a caret and what to do instead.
# RUN: not mlirtri emit %s::guarded --stage=tri 2>&1 | FileCheck %s --check-prefix=TRY
# RUN: not mlirtri emit %s::listed --stage=tri 2>&1 | FileCheck %s --check-prefix=LIST
# RUN: not mlirtri emit %s::yielding --stage=tri 2>&1 | FileCheck %s --check-prefix=YIELD
# RUN: not mlirtri emit %s::choosing --stage=tri 2>&1 | FileCheck %s --check-prefix=IF

import mlirtri as mt

Vector = mt.Tensor[[4], mt.float32]


@mt.jit
def guarded(a: Vector):
    try:
        return a
    except ValueError:
        return a


# TRY: {{.*}}syntax.py:14:5: error: a kernel cannot contain `try`
# TRY-NEXT: {{^}}        try:
# TRY-NEXT: {{^}}        ^
# TRY-NEXT: help:


@mt.jit
def listed(a: Vector):
    return {each for each in a}


# LIST: {{.*}}syntax.py:28:12: error: a key is known at compile time, and a tensor float32[] is not
# LIST-NEXT: return {each for each in a}
# LIST-NEXT: {{^}}               ^~~~~~~~~~~~~~~~~~~~


@mt.jit
def yielding(a: Vector):
    yield a


# YIELD: {{.*}}syntax.py:38:5: error: a kernel cannot contain `yield`


@mt.jit
def choosing(a: Vector):
    if a > 0:
        a = a + 1
    return a


# IF: {{.*}}syntax.py:46:8: error: the truth of a tensor bool[4] is not one of true and false
# IF-NEXT: if a > 0:
# IF-NEXT: {{^}}           ^~~~~
# IF-NEXT: help: use .any() or .all(), or where(
