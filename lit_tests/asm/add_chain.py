# REQUIRES: x86
# Machine code: both additions are vector instructions, from TVM's code generator and from MLIR's.
# RUN: mlirtri emit %s --stage=asm > %t
# RUN: FileCheck %s --input-file %t
# RUN: mlirtri emit %s --stage=asm --pipeline=mlir > %t.mlir
# RUN: FileCheck %s --check-prefix=MLIR --input-file %t.mlir

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: add_{{.*}}:
# CHECK: addps
# CHECK: addps

# MLIR: add_chain{{.*}}:
# MLIR: addps
# MLIR: addps
