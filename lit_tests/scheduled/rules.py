# Each rule for CPUs takes a kernel: without it another one would.
# RUN: mlirtri emit "%s::*" --stage=scheduled > %t
# RUN: FileCheck %s --input-file %t
import torch
import torch.nn.functional as F

import mlirtri as mt

Images = mt.Tensor[[1, 16, 32, 32], mt.float32]
Heads = mt.Tensor[[2, 64, 32], mt.float32]


@mt.jit
def flat(a: mt.Tensor[[4, 8], mt.float32]):
    return a.reshape(32)


# CHECK-LABEL: ===== flat: scheduled =====
# CHECK: "mlirtri.schedule": "View"


@mt.jit
def convolution(a: Images, w: mt.Tensor[[32, 16, 3, 3], mt.float32]):
    return F.conv2d(a, w, padding=1)


# CHECK-LABEL: ===== convolution: scheduled =====
# CHECK: "mlirtri.schedule": "Convolution"


@mt.jit
def depthwise(a: Images, w: mt.Tensor[[16, 1, 3, 3], mt.float32]):
    return F.conv2d(a, w, padding=1, groups=16)


# CHECK-LABEL: ===== depthwise: scheduled =====
# CHECK: "mlirtri.schedule": "Depthwise"


@mt.jit
def pooled(a: Images):
    return F.max_pool2d(a, 2)


# CHECK-LABEL: ===== pooled: scheduled =====
# CHECK: "mlirtri.schedule": "Window"


@mt.jit
def attention(q: Heads, k: Heads, v: Heads):
    return torch.softmax(q @ k.transpose(1, 2), -1) @ v


# CHECK-LABEL: ===== attention: scheduled =====
# CHECK-COUNT-1: @T.prim_func
# CHECK: "mlirtri.schedule": "Attention"
# CHECK-NOT: @T.prim_func


@mt.jit
def softmax(a: mt.Tensor[[64, 256], mt.float32]):
    return torch.softmax(a, 1)


# CHECK-LABEL: ===== softmax: scheduled =====
# CHECK-COUNT-1: @T.prim_func
# CHECK: "mlirtri.schedule": "Rows"
# CHECK-NOT: @T.prim_func


@mt.jit
def total(a: mt.Tensor[[512, 2048], mt.float32]):
    return a.sum(1)


# CHECK-LABEL: ===== total: scheduled =====
# CHECK: "mlirtri.schedule": "Mixed"


@mt.jit
def small_total(a: mt.Tensor[[8], mt.float32]):
    return a.sum()


# CHECK-LABEL: ===== small_total: scheduled =====
# CHECK: "mlirtri.schedule": "Reduction"


@mt.jit
def small(a: mt.Tensor[[3], mt.float32]):
    return a + 1


# CHECK-LABEL: ===== small: scheduled =====
# CHECK: "mlirtri.schedule": "PlainElementwise"


@mt.jit
def channels_last(a: mt.Tensor[[2, 40, 6], mt.float32], w: mt.Tensor[[8, 6, 3], mt.float32]):
    return F.conv1d(a.permute(0, 2, 1), w, padding=1).permute(0, 2, 1)


# CHECK-LABEL: ===== channels_last: scheduled =====
# CHECK: "mlirtri.schedule": "ChannelsLast"


@mt.jit
def gate(a: mt.Tensor[[16, 32], mt.float32], w: mt.Tensor[[32, 48], mt.float32], v: mt.Tensor[[32, 48], mt.float32]):
    return F.silu(a @ w) * (a @ v)


# Each chunk of the gate follows the same chunk of the other product.
# CHECK-LABEL: ===== gate: scheduled =====
# CHECK: "mlirtri.schedule": "ProductChain"
# CHECK: for {{task|task_1}}
# CHECK: T.exp
# CHECK: def gate(


@mt.jit
def sparse_rows(
    starts: mt.Tensor[[9], mt.int64], columns: mt.Tensor[[50], mt.int64], values: mt.Tensor[[50], mt.float64],
    x: mt.Tensor[[20], mt.float64],
):  # fmt: skip
    y = torch.zeros(8, dtype=torch.float64)
    for i in range(8):
        total = mt.float64(0)
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


# A predicted branch past the checks of a row's start, and of each column.
# CHECK-LABEL: ===== sparse_rows: scheduled =====
# CHECK: if T.call_llvm_pure_intrin("bool", "llvm.expect", {{.*}} >= T.int64(0), T.bool(True)):
# CHECK: [[COLUMN:columns_[0-9]*]]: T.let[T.int64] = columns[
# CHECK-NEXT: if T.call_llvm_pure_intrin("bool", "llvm.expect", [[COLUMN]] < T.int64(20) and {{.*}}
# CHECK: else:
# CHECK: T.Select(
