# GeneralReduction, of Dlight: a softmax along an axis that is not the last, of Relax operators for CUDA.
# RUN: mlirtri emit %s --stage=scheduled --pipeline=relax --target=cuda:sm_80 | FileCheck %s

# CHECK-LABEL: def softmax
# CHECK: "mlirtri.schedule": "GeneralReduction"
# CHECK: T.thread_binding
# CHECK-NOT: "mlirtri.schedule": "Fallback"
import torch

import mlirtri as mt


@mt.jit
def columns(a: mt.Tensor[[512, 64], mt.float32]):
    return torch.softmax(a, 0)
