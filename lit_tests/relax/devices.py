# A device region is copies to and from its device: calls in MLIR, `to_vdevice` between typed devices in Relax.
# RUN: mlirtri emit "%s::split" --stage=fused --pipeline=linalg | FileCheck %s --check-prefix=FUSED
# RUN: mlirtri emit "%s::split" --stage=relax --pipeline=linalg | FileCheck %s --check-prefix=RELAX
# RUN: mlirtri emit "%s::split" --stage=tir --pipeline=relax | FileCheck %s --check-prefix=RELAX
# RUN: mlirtri emit "%s::split" --stage=cuda --pipeline=linalg | FileCheck %s --check-prefix=CUDA

import mlirtri as mt

Matrix = mt.Tensor[[4, 8], mt.float32]


@mt.jit
def split(x: Matrix):
    with mt.device("gpu"):
        y = x * 2
    return y + 1


# FUSED: [[X:%.*]] = call @device.cuda.0(%x)
# FUSED: [[Y:%.*]] = linalg.generic {{.*}} ins([[X]] :
# FUSED: [[HOME:%.*]] = call @device.cpu.0([[Y]])
# FUSED: linalg.generic {{.*}} ins([[HOME]] :
# FUSED: func.func private @device.cuda.0(tensor<4x8xf32>) -> tensor<4x8xf32> attributes

# RELAX: I.module_global_infos({"vdevice": [I.vdevice({{.*}}"kind": "llvm"{{.*}}, 0, "global"), I.vdevice({{.*}}"kind": "cuda"
# RELAX-LABEL: def split(x: R.Tensor((4, 8), dtype="float32", vdevice="llvm:0:global"))
# RELAX: [[X:copy[_0-9]*]]: {{.*}} = R.to_vdevice(x, dst_vdevice="cuda:0:global")
# RELAX: [[Y:[a-z]+[_0-9]*]] = R.call_tir({{.*}}([[X]],
# RELAX-SAME: vdevice="cuda:0:global"
# RELAX: R.to_vdevice([[Y]], dst_vdevice="llvm:0:global")

# CUDA: __global__ void {{.*}}mul_kernel(
# CUDA-NOT: add_kernel
