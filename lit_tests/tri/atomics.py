# RUN: mlirtri emit %s::count --stage=tri --arg 'k=i64[100]' --arg 'h=i64[8]' | FileCheck %s
# RUN: mlirtri emit %s::count --pipeline=mlir --stage=bufferized --arg 'k=i64[100]' --arg 'h=i64[8]' | FileCheck %s --check-prefix=MEMORY
import mlirtri as mt


@mt.jit
def count(k, h):
    for i in mt.prange(k.shape[0]):
        mt.atomic_add(h[k[i] % 8], 1)


# The read and the write are marked: any two iterations may do them.
# CHECK: "tri.extract_slice"{{.*}}mlirtri.atomic
# CHECK: tri.add
# CHECK: "tri.insert_slice"{{.*}}mlirtri.atomic
# CHECK: {mlirtri.parallel = ["h"]}

# MEMORY: scf.for
# MEMORY: memref.load %h
# MEMORY: memref.store %{{.*}}, %h
