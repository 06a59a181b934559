# RUN: mlirtri emit %s --tasks --arg 'a=f32[100000]' --arg 'out=f32[100000]' | FileCheck %s
# RUN: not mlirtri emit %s --tasks --stage=tri 2>&1 | FileCheck %s --check-prefix=STAGE
import mlirtri as mt


@mt.jit
def scaled(a, out):
    total = 0.0
    for i in mt.prange(a.shape[0]):
        out[i] = a[i] * 2
        total += a[i]
    out[0] = total


# CHECK: // tasks of scaled
# CHECK-NEXT: 0: range_for; 0..100000; block 1563; reads a; writes out; reduces total  // tasks.py:9
# CHECK-NEXT: 1: serial; {{.*}}writes {{.*}}out
# STAGE: --tasks prints no stage
