"""Row kernels with torch's results, and the PrimFuncs that a kernel launches."""

from __future__ import annotations

import torch

import mlirtri as mt
from mlirtri.lowering.toolchain.tvm_names import SCRIPT_NAMES, PrimFunc, from_source


@mt.jit
def softmax(x):
    e = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
    return e / torch.sum(e, dim=-1, keepdim=True)


@mt.jit
def log_softmax(x):
    shifted = x - torch.amax(x, dim=-1, keepdim=True)
    return shifted - torch.log(torch.sum(torch.exp(shifted), dim=-1, keepdim=True))


@mt.jit
def logsumexp(x):
    m = torch.amax(x, dim=-1, keepdim=True)
    return m + torch.log(torch.sum(torch.exp(x - m), dim=-1, keepdim=True))


@mt.jit
def layernorm(x, w, b):
    c = x - torch.mean(x, dim=-1, keepdim=True)
    return c / torch.sqrt(torch.mean(c * c, dim=-1, keepdim=True) + 1e-5) * w + b


@mt.jit
def rmsnorm(x, w):
    return x / torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-6) * w


@mt.jit
def unit_rows(x):
    return x / torch.sqrt(torch.sum(x * x, dim=-1, keepdim=True))


def reference_layernorm(x, w, b):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b)


def reference_rmsnorm(x, w):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-6)


KERNELS = {
    "softmax": (softmax, lambda x: torch.softmax(x, -1), 0),
    "log_softmax": (log_softmax, lambda x: torch.log_softmax(x, -1), 0),
    "logsumexp": (logsumexp, lambda x: torch.logsumexp(x, -1, keepdim=True), 0),
    "layernorm": (layernorm, reference_layernorm, 2),
    "rmsnorm": (rmsnorm, reference_rmsnorm, 1),
    "unit_rows": (unit_rows, lambda x: torch.nn.functional.normalize(x, dim=-1), 0),
}


def arguments(name, shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(len(shape))
    vectors = [torch.randn(shape[-1:], generator=generator).to(dtype) for _ in range(KERNELS[name][2])]
    return [torch.randn(shape, generator=generator).to(dtype), *vectors]


def scheduled(kernel) -> list:
    """The PrimFuncs that a kernel launches."""
    module = from_source(kernel.ir["scheduled"], SCRIPT_NAMES)
    return [function for _, function in module.functions_items() if isinstance(function, PrimFunc)]


def rules(kernel) -> list[str]:
    return sorted(str(function.attrs["mlirtri.schedule"]) for function in scheduled(kernel))
