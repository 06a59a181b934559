# A chain of element operations is one kernel: in the gpu dialect, and as a SPIR-V module for Vulkan.
# RUN: mlirtri emit %s --target=spirv --stage=gpu | FileCheck %s --check-prefix=GPU
# RUN: mlirtri emit %s --target=spirv --stage=spirv | FileCheck %s --check-prefix=SPIRV
# RUN: not mlirtri emit %s --target=spirv --pipeline=linalg 2>&1 | FileCheck %s --check-prefix=PIPELINE

import numpy as np

import mlirtri as mt


@mt.jit
def chain(a: mt.Tensor[[37, 100], mt.float32], b: mt.Tensor[[100], mt.float32]):
    return np.exp(a) * b + a


# Two blocks of 64 threads along the innermost axis, for each of 37 rows.
# GPU: %[[BLOCKS:.*]] = arith.constant 2 : index
# GPU: gpu.launch_func @chain_kernel::@chain_kernel blocks in (%[[BLOCKS]], %{{.*}}, %{{.*}}) threads in (%{{.*}}, %{{.*}}, %{{.*}})
# GPU: gpu.func @chain_kernel
# GPU-SAME: known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 2, 37, 1>
# GPU-NOT: gpu.module

# SPIRV: spirv.module {{.*}} requires #spirv.vce<v1.0, [Shader
# SPIRV: spirv.GlobalVariable @chain_kernel_arg_2 bind(0, 2)
# SPIRV: spirv.GL.Exp
# SPIRV-NEXT: spirv.FMul
# SPIRV-NEXT: spirv.FAdd
# SPIRV: spirv.EntryPoint "GLCompute" @chain_kernel
# SPIRV-NEXT: spirv.ExecutionMode @chain_kernel "LocalSize", 64, 1, 1

# PIPELINE: pipeline 'linalg' makes no SPIR-V
