"""Write `ctc_loss` in Python with a loop over time; torch's C++ reads the lengths, and has no shape function for them.

The recursion over prefixes of a target is that of A. Graves et al., Connectionist temporal classification, 2006,
section 4.1, on logarithms. Each target is used with blanks before, between and after its labels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop

aten = torch.ops.aten
Tensor = torch.Tensor


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: object,
    target_lengths: object,
    blank: int = 0,
    reduction: object = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Return `F.ctc_loss` of logarithms with axes time, batch, classes; NotImplemented for what eager refuses."""
    is_batched = log_probs.dim() == 3
    probabilities = log_probs if is_batched else log_probs.unsqueeze(1)
    steps, batch, classes = probabilities.shape
    inputs, lengths = (_as_lengths(each, batch, log_probs.device) for each in (input_lengths, target_lengths))
    fits = all(type(size) is int for size in (*probabilities.shape, *targets.shape))
    kinds = (torch.float32, torch.float64)
    if not fits or inputs is None or lengths is None or not 0 <= blank < classes or log_probs.dtype not in kinds:
        return NotImplemented
    labels = _labels(targets.long(), lengths, batch)
    _assert(((inputs >= 0) & (inputs <= steps)).all(), f"input_lengths are from 0 to {steps}")
    _assert(((labels >= 0) & (labels < classes)).all(), f"targets are from 0 to {classes - 1}")
    loss = _negative_logarithms(probabilities, labels, inputs, lengths, blank)
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction in ("mean", 1):
        return (loss / torch.clamp(lengths, min=1)).mean()
    return loss.sum() if reduction in ("sum", 2) else loss if is_batched else loss.squeeze(0)


def _as_lengths(lengths: Any, batch: int, device: Any) -> Tensor | None:
    numbers = lengths if isinstance(lengths, Tensor) else torch.tensor(lengths, dtype=torch.int64, device=device)
    if numbers.is_floating_point() or numbers.is_complex() or numbers.numel() != batch:
        return None
    return numbers.reshape(-1).long()


def _labels(targets: Tensor, lengths: Tensor, batch: int) -> Tensor:
    """Return the labels of each target in a row; those past its length are arbitrary ones of `targets`."""
    if targets.dim() == 2:
        message = f"target_lengths are from 0 to {targets.shape[1]}"
        _assert(((lengths >= 0) & (lengths <= targets.shape[1])).all(), message)
        return targets.expand(batch, -1)
    size = targets.shape[0]
    _assert((lengths >= 0).all() & (lengths.sum() == size), f"target_lengths add up to {size}, none negative")
    starts = lengths.cumsum(0) - lengths
    positions = starts.unsqueeze(1) + torch.arange(size, device=targets.device)
    return targets[torch.clamp(positions, max=size - 1)] if size else targets.new_zeros((batch, 0))


def _negative_logarithms(x: Tensor, labels: Tensor, inputs: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """Return minus the logarithms of the probabilities of the targets."""
    batch, count = labels.shape
    blanks = torch.full((batch, count, 1), blank, dtype=torch.int64, device=x.device)
    extended = torch.cat([torch.cat([blanks, labels.unsqueeze(2)], 2).flatten(1), blanks[:, :1, 0]], 1)
    if not count:
        extended = torch.full((batch, 1), blank, dtype=torch.int64, device=x.device)
    iota = torch.arange(2 * count + 1, device=x.device)
    # A label follows the one before it without a blank, unless they are equal.
    is_new = (iota % 2 == 1) & (iota >= 3) & (extended != extended.roll(2, 1))
    emitted = x.gather(2, extended.expand(x.shape[0], batch, 2 * count + 1))
    prefixes = torch.where(iota < 2, emitted[0], -math.inf) if x.shape[0] else emitted.sum(0)
    if x.shape[0] > 1:
        prefixes = _after_all_steps(prefixes, emitted, is_new, inputs)
    ends = torch.stack([2 * lengths, torch.clamp(2 * lengths - 1, min=0)], 1)
    last = prefixes.gather(1, ends)
    last = torch.stack([last[:, 0], torch.where(lengths > 0, last[:, 1], -math.inf)], 0)
    of_nothing = torch.where(lengths == 0, 0.0, math.inf).to(x.dtype)
    return torch.where(inputs == 0, of_nothing, -_log_of_sum(last))


def _after_all_steps(prefixes: Tensor, emitted: Tensor, is_new: Tensor, inputs: Tensor) -> Tensor:
    steps = emitted.shape[0]

    def condition(k: Tensor, *_: Tensor) -> Tensor:
        return k < steps

    def body(k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        before = torch.nn.functional.pad(x, (2, 0), value=-math.inf)
        skipped = torch.where(is_new, before[:, :-2], -math.inf)
        following = _log_of_sum(torch.stack([x, before[:, 1:-1], skipped], 0))
        following = following + emitted.index_select(0, k.reshape(1)).squeeze(0)
        return k + 1, torch.where((k < inputs).unsqueeze(1), following, x)

    start = torch.ones((), dtype=torch.int64, device=emitted.device)
    return while_loop(condition, body, (start, prefixes.contiguous()))[1]


def _log_of_sum(x: Tensor) -> Tensor:
    largest = x.amax(0)
    largest = torch.where(largest == -math.inf, 0.0, largest)
    return (x - largest).exp().sum(0).log() + largest


def _assert(condition: Tensor, message: str) -> None:
    aten._assert_async.msg(condition, f"ctc_loss: {message}")
