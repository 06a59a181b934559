# The loops that upstream's polyhedral passes leave become branches, and no cast between types stays behind.
# RUN: mlirtri emit %s --stage=llvmdialect --pipeline=poly | FileCheck %s --implicit-check-not=unrealized_conversion_cast

import mlirtri as mt

Square = mt.Tensor[[8, 8], mt.float32]


# lower-affine: before structured loops become branches.
# CHECK-LABEL: llvm.func @mlirtri_product(
# CHECK: llvm.cond_br
# CHECK: llvm.fadd
# CHECK: llvm.return
@mt.jit
def product(a: Square, b: Square):
    return a @ b
