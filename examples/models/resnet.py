"""ResNet-18 as in He et al., Deep Residual Learning for Image Recognition (2015), section 3.3 and table 1."""

from __future__ import annotations

import torch
from torch import nn


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution that keeps the image's size (divided by the stride), normalised."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Block(nn.Module):
    """Two convolutions around which the input goes unchanged, or by a projection where sizes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3)
        self.shortcut = nn.Identity() if inputs == outputs else _convolution(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x).relu())
        return (y + self.shortcut(x)).relu()


class ResNet18(nn.Module):
    """Images ``(batch, 3, height, width)`` to ``(batch, classes)``; `width` is 64 in the paper."""

    def __init__(self, width: int = 64, classes: int = 1000):
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks: list[nn.Module] = []
        channels = width
        for stage in range(4):
            outputs = width * 2**stage
            blocks += [Block(channels, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
            channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.blocks(self.stem(x))
        return self.classify(y.mean((2, 3)))
