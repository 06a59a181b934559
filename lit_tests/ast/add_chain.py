# The first stage is the function's own syntax tree, as Python prints it; nothing of it has run.
# RUN: mlirtri emit %s --stage=ast | FileCheck %s

import mlirtri as mt


@mt.jit
def add_chain(a: mt.Tensor[[2, 3], mt.float32], b: mt.Tensor[[2, 3], mt.float32]):
    out = a + b
    out = out + a
    return out


# CHECK: FunctionDef(
# CHECK-NEXT: name='add_chain'
# CHECK: body=[
# CHECK: Assign(
# CHECK: BinOp(
# CHECK-NEXT: left=Name(id='a', ctx=Load()),
# CHECK-NEXT: op=Add(),
# CHECK-NEXT: right=Name(id='b', ctx=Load())
# CHECK: Assign(
# CHECK: left=Name(id='out', ctx=Load()),
# CHECK: Return(
# CHECK-NEXT: value=Name(id='out', ctx=Load())
