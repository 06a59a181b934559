# Values carry the names of the user's variables; the complete text says where each operation comes from.
# RUN: mlirtri emit %s --stage=tri | FileCheck %s
# RUN: mlirtri emit %s --stage=tri --complete | FileCheck %s --check-prefix=WHERE

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[2, 3], mt.float32], b: mt.Tensor[[2, 3], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK-LABEL: func.func @add_chain
# CHECK-SAME: (%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32>
# CHECK-NEXT: %[[SUM:out[_0-9]*]] = "tri.add"(%a, %b)
# CHECK-NEXT: %[[OUT:out[_0-9]*]] = "tri.add"(%[[SUM]], %a)
# CHECK-NEXT: return %[[OUT]]

# WHERE-DAG: #[[A:loc[0-9]*]] = loc("{{.*}}add_chain.py":9:15
# WHERE-DAG: #[[FIRST:loc[0-9]*]] = loc("{{.*}}add_chain.py":10:11
# WHERE-DAG: #[[SECOND:loc[0-9]*]] = loc("{{.*}}add_chain.py":11:11
# WHERE-DAG: loc("a"(#[[A]]))
# WHERE-DAG: loc("out"(#[[FIRST]]))
# WHERE-DAG: loc("out"(#[[SECOND]]))
