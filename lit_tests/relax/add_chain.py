# From `fused` the chain comes as one PrimFunc and one binding; from `tri` as two Relax operators.
# RUN: mlirtri emit %s --stage=relax | FileCheck %s --check-prefix=LINALG
# RUN: mlirtri emit %s --stage=relax --pipeline=relax > %t
# RUN: FileCheck %s --check-prefix=RELAX --input-file %t
# RUN: mlirtri emit %s --stage=relax --pipeline=relax --complete | FileCheck %s --check-prefix=WHERE

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[64, 32], mt.float32], b: mt.Tensor[[64, 32], mt.float32]):
    out = a + b
    out = out + a
    return out


# LINALG: @T.prim_func
# LINALG-NEXT: def [[KERNEL:[a-z_0-9]+]](a: T.Buffer
# LINALG: T.sblock_attr({"mlirtri.lines": ["{{.*}}add_chain.py:12:11", "{{.*}}add_chain.py:13:11"], "mlirtri.loc": "{{.*}}add_chain.py:13:11"})
# LINALG: out[{{.*}}] = a[{{.*}}] + b[{{.*}}] + a[
# LINALG-NOT: @T.prim_func
# LINALG: @R.function
# LINALG-NEXT: def add_chain(a: R.Tensor((64, 32), dtype="float32"), b: R.Tensor((64, 32), dtype="float32"))
# LINALG: out = R.call_tir(cls.[[KERNEL]], (a, b),
# LINALG-NEXT: return out

# RELAX-NOT: @T.prim_func
# RELAX: def add_chain(
# RELAX: [[SUM:out[_0-9]*]]: R.Tensor((64, 32), dtype="float32") = R.add(a, b)
# RELAX-NEXT: [[OUT:out[_0-9]*]]: R.Tensor((64, 32), dtype="float32") = R.add([[SUM]], a)
# RELAX-NEXT: return [[OUT]]

# WHERE: "mlirtri.locations": {"out": "{{.*}}add_chain.py:12:11", "out_1": "{{.*}}add_chain.py:13:11"}
