# REQUIRES: x86, objdump
# The `mlir` pipeline ends in machine code too, which objdump reads back. MLIR alone made it.
# RUN: mlirtri emit %s --stage=asm --pipeline=mlir > %t
# RUN: FileCheck %s --input-file %t

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: add_chain{{.*}}:
# CHECK: addps
# CHECK: addps
