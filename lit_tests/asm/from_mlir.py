# REQUIRES: x86, objdump
# The `mlir` pipeline ends in machine code too, which objdump reads back. MLIR alone made it: one
# function, and no jump between the two additions.
# RUN: mlirtri emit %s --stage=asm --pipeline=mlir > %t
# RUN: FileCheck %s --input-file %t

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: <mlirtri_add_chain>:
# CHECK-NOT: >:
# CHECK: addps
# CHECK-NOT: {{ j[a-z]+ }}
# CHECK: addps
