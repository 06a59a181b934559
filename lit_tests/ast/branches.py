# The tree is shown before compile-time values choose a branch; `tri` has the chosen one only.
# RUN: mlirtri emit %s --stage=ast,tri --arg up=False | FileCheck %s

import mlirtri as mt


@mt.jit
def step(a: mt.Tensor[[4], mt.float32], up: bool):
    if up:
        a = a + 1
    else:
        a = a - 1
    return a


# CHECK-LABEL: ===== step: ast =====
# CHECK: If(
# CHECK-NEXT: test=Name(id='up', ctx=Load()),
# CHECK: op=Add()
# CHECK: orelse=[
# CHECK: op=Sub()

# CHECK-LABEL: ===== step: tri =====
# CHECK-NOT: tri.add
# CHECK: "tri.subtract"
# CHECK-NOT: tri.add
