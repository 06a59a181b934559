# The complete text of a stage is a file to go on from; what follows is the same as without the detour.
# RUN: mlirtri emit %s --stage=linalg --complete > %t.mlir
# RUN: mlirtri emit %t.mlir --from=linalg --stage=fused --complete > %t.resumed
# RUN: mlirtri emit %s --stage=fused --complete > %t.straight
# RUN: diff %t.straight %t.resumed
# RUN: mlirtri emit - --from=linalg --stage=fused < %t.mlir | FileCheck %s
# RUN: not mlirtri emit %t.mlir --from=fused --stage=linalg 2>&1 | FileCheck %s --check-prefix=EARLIER
# RUN: cp %t.mlir %t.txt
# RUN: not mlirtri emit %t.txt 2>&1 | FileCheck %s --check-prefix=WHAT
# RUN: mlirtri-opt --canonicalize --cse %t.mlir | FileCheck %s --check-prefix=OPT

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: func.func @add_chain
# CHECK: arith.addf
# CHECK-NEXT: arith.addf

# EARLIER: stage 'linalg' does not come after 'fused'

# WHAT: is not Python
# WHAT-NEXT: help: say with --from STAGE

# OPT: func.func @add_chain
# OPT-COUNT-2: linalg.generic
