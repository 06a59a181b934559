"""The kernels of the table, in torch's words: mlirtri, eager torch and ``torch.compile`` all get these functions."""

from __future__ import annotations

import torch
import torch.nn.functional as functional


def product(a, b):
    return torch.matmul(a, b)


def product_by_transposed(a, b):
    return torch.matmul(a, b.T)


def product_of_transposed(a, b):
    return torch.matmul(a.T, b)


def product_in_int32(a, b):
    return torch.matmul(a.to(torch.int32), b.to(torch.int32))


def linear_relu(x, weight, bias):
    return torch.relu(functional.linear(x, weight, bias))


def linear_gelu(x, weight, bias):
    return functional.gelu(functional.linear(x, weight, bias))


def gelu_of_sum(a, b, c):
    return functional.gelu(a * b + c)


def swish_gate(a, b):
    return a * torch.sigmoid(a) * b


def tanh_of_sum(a, b):
    return torch.tanh(a + b)


def bell(a):
    return torch.exp(-0.5 * a * a)


def add(a, b):
    return a + b


def softmax(a):
    return torch.softmax(a, -1)


def layer_norm(a, weight, bias):
    return functional.layer_norm(a, (a.shape[-1],), weight, bias)


def rms_norm(a, weight):
    return a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-6) * weight


def log_sum_exp(a):
    return torch.logsumexp(a, -1)


def row_sums(a):
    return a.sum(1)


def column_sums(a):
    return a.sum(0)


def total(a):
    return a.sum()


def row_maxima(a):
    return a.amax(1)


def row_arguments(a):
    return a.argmax(1)


def running_sums(a):
    return torch.cumsum(a, 1)


def transpose(a):
    return a.T.contiguous()


def channels_last(a):
    return a.permute(0, 2, 3, 1).contiguous()


def concatenate(a, b):
    return torch.cat((a, b), 1)


def pad(a):
    return functional.pad(a, (1, 1, 1, 1))


def gather_rows(table, rows):
    return table[rows]


def convolution(x, weight):
    return functional.conv2d(x, weight, padding=1)


def convolution_1x1(x, weight):
    return functional.conv2d(x, weight)


def convolution_by_two(x, weight):
    return functional.conv2d(x, weight, stride=2, padding=1)


def convolution_in_groups(x, weight):
    return functional.conv2d(x, weight, padding=1, groups=32)


def convolution_by_channel(x, weight):
    return functional.conv2d(x, weight, padding=1, groups=128)


def convolution_channels_last(x, weight):
    return functional.conv2d(x.permute(0, 3, 1, 2), weight, padding=1).permute(0, 2, 3, 1)


def max_pool(x):
    return functional.max_pool2d(x, 3, 2, 1)


def average_pool(x):
    return functional.avg_pool2d(x, 2)


def attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v)


def causal_attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def masked_attention(q, k, v, mask):
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
