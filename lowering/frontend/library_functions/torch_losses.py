"""Losses and normalisations of `torch.nn.functional` in the kernel language, as the documentation defines them.

Python never runs them. Like `torch_functions.py` they are written with NumPy's spellings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlirtri.lowering.frontend.library_functions.linear_algebra import refuse, size_of
from mlirtri.lowering.frontend.library_functions.torch_functions import cosine_similarity, is_half, pairwise_distance


def reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction != "none":
        refuse("reduction= is 'none', 'mean' or 'sum'")
    return loss


def refuse_old(size_average, reduce):
    if size_average is not None or reduce is not None:
        refuse("size_average= and reduce= are deprecated: give reduction=")


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    refuse_old(size_average, reduce)
    return _weighted((input - target) ** 2, weight, reduction)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    refuse_old(size_average, reduce)
    return _weighted(np.abs(input - target), weight, reduction)


def _weighted(loss, weight, reduction):
    if weight is None:
        return reduced(loss, reduction)
    if reduction == "mean":
        return np.sum(loss * weight) / np.sum(weight)
    return reduced(loss * weight, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    refuse_old(size_average, reduce)
    distance = np.abs(input - target)
    if beta == 0:
        return reduced(distance, reduction)
    return reduced(np.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta), reduction)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    distance = np.abs(input - target)
    dtype = distance.dtype
    if is_half(distance):
        distance = np.abs(input.astype(np.float32) - target.astype(np.float32))
    loss = np.where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    return _weighted(loss.astype(dtype), weight, reduction)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    # Logarithms end at -100, as torch says.
    loss = -(target * np.maximum(np.log(input), -100) + (1 - target) * np.maximum(np.log1p(-input), -100))
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    refuse_old(size_average, reduce)
    log_sigmoid = np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))
    scale = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input - scale * log_sigmoid
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    refuse_old(size_average, reduce)
    if log_target:
        loss = np.exp(target) * (target - input)
    else:
        loss = np.where(target == 0, 0, target * np.log(np.where(target == 0, 1, target))) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return reduced(loss, reduction)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    refuse_old(size_average, reduce)
    loss = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    if full:
        safe = np.where(target > 1, target, 1)
        stirling = safe * np.log(safe) - safe + 0.5 * np.log(2 * np.pi * safe)
        loss = loss + np.where(target > 1, stirling, 0)
    return reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    clamped = np.maximum(var, eps)
    loss = 0.5 * (np.log(clamped) + (input - target) ** 2 / clamped)
    return reduced(loss + 0.5 * np.log(2 * np.pi) if full else loss, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    return reduced(np.log1p(np.exp(-target * input)), reduction)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    far = np.where(target == 1, 0, np.maximum(margin - input, 0))
    return reduced(far + np.where(target == -1, 0, input), reduction)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    return reduced(np.maximum(-target * (input1 - input2) + margin, 0), reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    similarity = cosine_similarity(input1, input2, input1.ndim - 1, 1e-12)
    loss = np.where(target == 1, 1 - similarity, np.where(target == -1, np.maximum(similarity - margin, 0), 0))
    return reduced(loss, reduction)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    refuse_old(size_average, reduce)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(np.maximum(near - far + margin, 0), reduction)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    refuse_old(size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    is_used = target != ignore_index
    classes = np.where(is_used, target, 0)
    chosen = np.squeeze(np.take_along_axis(input, np.expand_dims(classes, axis), axis=axis), axis=axis)
    scale = is_used.astype(input.dtype) if weight is None else np.where(is_used, weight[classes], 0)
    loss = np.where(is_used, -chosen * scale, 0)
    return loss.sum() / scale.sum() if reduction == "mean" else reduced(loss, reduction)


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    refuse_old(size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    shifted = input - np.max(input, axis=axis, keepdims=True)
    logarithms = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    count = input.shape[axis]
    by_class = [-1 if k == axis else 1 for k in range(input.ndim)]
    weighted = logarithms if weight is None else logarithms * weight.reshape(by_class)
    if target.dtype.is_float:
        smooth = target * (1 - label_smoothing) + label_smoothing / count
        loss = -np.sum(smooth * weighted, axis=axis)
        return loss.mean() if reduction == "mean" else reduced(loss, reduction)
    if label_smoothing == 0:
        return nll_loss(logarithms, target, weight, None, ignore_index, None, reduction)
    is_used = target != ignore_index
    scale = (
        is_used.astype(input.dtype) if weight is None else np.where(is_used, weight[np.where(is_used, target, 0)], 0)
    )
    exact = nll_loss(logarithms, target, weight, None, ignore_index, None, "none")
    spread = np.where(is_used, -np.sum(weighted, axis=axis), 0)
    loss = (1 - label_smoothing) * exact + label_smoothing / count * spread
    return loss.sum() / scale.sum() if reduction == "mean" else reduced(loss, reduction)


def _of_channels(values, rank):
    return values.reshape([1, -1] + [1] * (rank - 2))


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    _require_both(running_mean, running_var)
    x = input.astype(np.float32) if is_half(input) else input
    if not training:
        if running_mean is None:
            refuse("running_mean and running_var are tensors where training is False")
        mean, variance = running_mean.astype(x.dtype), running_var.astype(x.dtype)
        return _normalized(x, mean, np.sqrt(_of_channels(variance, input.ndim) + eps), weight, bias).astype(input.dtype)
    axes = tuple([axis for axis in range(input.ndim) if axis != 1])
    mean, variance = np.mean(x, axis=axes), np.var(x, axis=axes)
    count = size_of([input.shape[axis] for axis in axes])
    if count < 2:
        refuse("training needs more than one value for each channel")
    if running_mean is not None:
        _keep(running_mean, mean, momentum)
        # What is kept is the unbiased variance.
        _keep(running_var, variance * (count / (count - 1)), momentum)
    deviation = np.sqrt(_of_channels(variance, input.ndim) + eps)
    if is_half(input) and not _is_mixed(weight, bias, running_mean):
        # torch keeps the mean and the inverse deviation in halves for the backward pass, and reads those.
        mean = mean.astype(input.dtype).astype(np.float32)
        deviation = 1 / (1 / deviation).astype(input.dtype).astype(np.float32)
    return _normalized(x, mean, deviation, weight, bias).astype(input.dtype)


def _require_both(running_mean, running_var):
    if (running_mean is None) != (running_var is None):
        refuse("running_mean and running_var are both tensors, or both None")


def _keep(running, value, momentum):
    running[...] = (1 - momentum) * running.astype(value.dtype) + momentum * value


def _is_mixed(weight, bias, running_mean):
    """Return whether one of the parameters of a norm of halves is float32."""
    for parameter in (weight, bias, running_mean):
        if parameter is not None and not is_half(parameter):
            return True
    return False


def _normalized(x, mean, deviation, weight, bias):
    return _affine((x - _of_channels(mean, x.ndim)) / deviation, weight, bias)


def _affine(x, weight, bias):
    scaled = x if weight is None else x * _of_channels(weight, x.ndim)
    return scaled if bias is None else scaled + _of_channels(bias, x.ndim)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if input.shape[1] % num_groups:
        refuse("the number of channels is a multiple of the number of groups")
    groups = input.reshape([input.shape[0], num_groups, -1])
    mean, variance = np.mean(groups, axis=2, keepdims=True), np.var(groups, axis=2, keepdims=True)
    return _affine(((groups - mean) / np.sqrt(variance + eps)).reshape(input.shape), weight, bias)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _require_both(running_mean, running_var)
    if running_mean is not None:
        x = input.astype(np.float32) if is_half(input) else input
        axes = tuple(range(2, input.ndim))
        count = size_of(input.shape[2:])
        if count < 2:
            refuse("training needs more than one value in each channel of an instance")
        _keep(running_mean, np.mean(x, axis=(0, *axes)), momentum)
        _keep(running_var, np.mean(np.var(x, axis=axes), axis=0) * (count / (count - 1)), momentum)
    return group_norm(input, input.shape[1], weight, bias, eps)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    before = size // 2
    pads = [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (input.ndim - 2)
    squares = np.pad(input * input, pads)
    count = input.shape[1]
    total = squares[:, 0:count]
    for offset in range(1, size):
        total = total + squares[:, offset : offset + count]
    if input.dtype.is_integer:
        # Eager averages integers in integers: of squares, the quotient rounded down.
        return input / (k + alpha * (total // size)) ** beta
    return input / (k + alpha * total / size) ** beta


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Return the loss by the forward recursion of A. Graves et al., Connectionist Temporal Classification (2006)."""
    if log_probs.ndim != 3 or targets.ndim != 2:
        refuse("it takes log_probs of shape (time, batch, classes), and targets padded to (batch, length)")
    steps, count, _ = log_probs.shape
    length = targets.shape[1]
    labels = np.full((count, 2 * length + 1), blank, np.int64)
    labels[:, 1::2] = targets
    ends, lengths = _lengths(input_lengths), _lengths(target_lengths)
    # A label may follow the one before the last blank, unless both are the same.
    skips = np.zeros(labels.shape, np.bool_)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    position = np.arange(2 * length + 1)
    alpha = np.where(position < 2, np.take_along_axis(log_probs[0], labels, axis=1), -np.inf)
    alpha = np.where((position == 1) & (lengths[:, None] == 0), -np.inf, alpha)
    for t in range(1, steps):
        padded = np.pad(alpha, ((0, 0), (2, 0)), constant_values=-np.inf)
        before, skipped = padded[:, 1:-1], np.where(skips, padded[:, :-2], -np.inf)
        reached = np.logaddexp(np.logaddexp(alpha, before), skipped)
        reached = reached + np.take_along_axis(log_probs[t], labels, axis=1)
        alpha = np.where(t < ends[:, None], reached, alpha)
    last = np.take_along_axis(alpha, 2 * lengths[:, None], axis=1)[:, 0]
    previous = np.take_along_axis(alpha, np.maximum(2 * lengths[:, None] - 1, 0), axis=1)[:, 0]
    loss = -np.logaddexp(last, np.where(lengths > 0, previous, -np.inf))
    if zero_infinity:
        loss = np.where(np.isinf(loss), 0.0, loss)
    if reduction == "mean":
        return np.mean(loss / np.maximum(lengths, 1))
    return np.sum(loss) if reduction == "sum" else loss


def _lengths(values):
    return np.array(values, np.int64) if isinstance(values, (tuple, list)) else values.astype(np.int64)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None:
        refuse("max_norm= writes into the weight")
    return weight[input]


def dropout(input, p=0.5, training=True, inplace=False):
    if training and p != 0:
        refuse("it draws random numbers: pass training=False, or give the mask as an argument")
    return input


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    return refuse("it draws random numbers: pass them as an argument")


_NAMED: tuple[Callable[..., Any], ...] = (
    mse_loss, l1_loss, smooth_l1_loss, huber_loss, binary_cross_entropy, binary_cross_entropy_with_logits, kl_div,
    poisson_nll_loss, gaussian_nll_loss, soft_margin_loss, hinge_embedding_loss, margin_ranking_loss,
    cosine_embedding_loss, triplet_margin_loss, nll_loss, cross_entropy, batch_norm, group_norm, instance_norm,
    local_response_norm, ctc_loss, embedding, dropout, gumbel_softmax,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {f"torch.nn.functional.{function.__name__}": function for function in _NAMED}
"""Inlined functions of torch by qualified name."""
