"""torch's quantised tensors, and products of narrow numbers: name, function, arguments."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from torch_cases.makers import f, i, p

Q = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)
UINT8 = (0, 255, torch.uint8)


def _there_and_back(low, high, dtype, choose):
    def run(x):
        scale, zero_point = choose(x, low, high, 1e-8, dtype)
        small = Q.quantize_per_tensor.tensor(x, scale, zero_point, low, high, dtype)
        return small, Q.dequantize_per_tensor.tensor(small, scale, zero_point, low, high, dtype)

    return run


def _rows(choose):
    def run(x):
        scale, zero_point = choose(x, torch.int8)
        small = Q.quantize_per_token(x, scale, zero_point, *INT8)
        return small, Q.dequantize_per_token(small, scale, zero_point, *INT8, torch.float32)

    return run


def _groups(x, scales, zero_points):
    small = Q.quantize_per_channel_group(x, scales, zero_points, *INT8, 4)
    return small, Q.dequantize_per_channel_group(small, scales, zero_points, *INT8, 4, torch.float32)


def _limits(x, scale, zero_point, low, high):
    small = Q.quantize_per_tensor.tensor2(x, scale, zero_point, low, high, torch.int8)
    return Q.dequantize_per_tensor.tensor2(small, scale, zero_point, low, high, torch.int8)


def _channels(limits, axis):
    def run(x, scales, zero_points):
        small = Q.quantize_per_channel(x, scales, zero_points, axis, *limits)
        return small.int(), Q.dequantize_per_channel(small, scales, zero_points, axis, *limits)

    return run


def _scalar(value, dtype):
    return torch.tensor(value, dtype=dtype)


def _scaled(dtype, result):
    return lambda x, y, a, b: torch._scaled_mm(x.to(dtype), y.to(dtype), a, b, out_dtype=result)


CASES = [
    ("int8", _there_and_back(*INT8, Q.choose_qparams.tensor), lambda: (f(4, 8),)),
    ("uint8", _there_and_back(*UINT8, Q.choose_qparams.tensor), lambda: (f(4, 8),)),
    ("int8 symmetric", _there_and_back(*INT8, Q.choose_qparams_symmetric.tensor), lambda: (f(4, 8),)),
    ("uint8 symmetric", _there_and_back(*UINT8, Q.choose_qparams_symmetric.tensor), lambda: (f(4, 8),)),
    ("limits", _limits, lambda: (f(4, 8), _scalar(0.03, torch.float32), *[_scalar(each, torch.int32) for each in (-10, -100, 90)])),
    ("channels", _channels(INT8, 1), lambda: (f(4, 8) * 9, p(8), i(8, low=-128, high=127))),
    ("channels in front", _channels(INT8, 0), lambda: (f(4, 8) * 9, p(4), i(4, low=-128, high=127))),
    ("channels of bytes", _channels(UINT8, 1), lambda: (p(4, 8), p(8), i(8, low=128, high=250, dtype=torch.uint8))),
    ("rows", _rows(Q.choose_qparams_per_token_asymmetric), lambda: (f(4, 16),)),
    ("rows symmetric", _rows(Q.choose_qparams_per_token), lambda: (f(2, 3, 16),)),
    ("groups", _groups, lambda: (f(4, 16) * 9, p(4, 4), i(4, 4, low=-10, high=10))),
    ("one group", _groups, lambda: (f(4, 3) * 9, p(4, 1), i(4, 1, low=-10, high=10))),
    ("mm of bytes", torch.mm, lambda: (i(3, 4, low=-99, high=99, dtype=torch.int8), i(4, 5, low=-99, high=99, dtype=torch.int8))),
    ("bmm of bytes", torch.bmm, lambda: (i(2, 3, 4, dtype=torch.uint8), i(2, 4, 5, dtype=torch.uint8))),
    ("mm of nothing", torch.mm, lambda: (i(3, 0, dtype=torch.int8), i(0, 5, dtype=torch.int8))),
    ("scaled mm", _scaled(torch.float8_e4m3fn, torch.bfloat16), lambda: (f(16, 16), f(16, 16), p(), p())),
    ("scaled mm wide", _scaled(torch.float8_e5m2, torch.float32), lambda: (f(16, 16), f(16, 16), p(), p())),
]  # fmt: skip
