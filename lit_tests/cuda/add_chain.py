# `out = a + b; out = out + a` is ONE __global__ function, and `#line` leads back to the Python file. No GPU is needed.
# RUN: mlirtri emit %s --stage=cuda --target=cuda > %t
# RUN: FileCheck %s --input-file %t
# RUN: mlirtri emit %s --stage=cuda --target=gpu --pipeline=relax > %t.relax
# RUN: FileCheck %s --input-file %t.relax

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# A declaration, then the definition.
# CHECK: extern "C" __global__ void {{.*}} [[KERNEL:[a-z_0-9]*add[a-z_0-9]*kernel]]({{.*}});
# CHECK: extern "C" __global__ void {{.*}} [[KERNEL]]({{.*}}) {
# CHECK: #line 1{{[23]}} "{{.*}}add_chain.py"{{$}}
# CHECK: blockIdx.x
# CHECK-NOT: __global__
