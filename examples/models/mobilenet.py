"""MobileNet as in Howard et al., MobileNets: Efficient Convolutional Neural Networks (2017), table 1."""

from __future__ import annotations

import torch
from torch import nn

BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
"""Channels and stride of each depthwise separable convolution."""


def _normalised(convolution: nn.Conv2d) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()]


class MobileNet(nn.Module):
    """Images ``(batch, 3, height, width)`` to ``(batch, classes)``; `width` multiplies the channels."""

    def __init__(self, width: float = 1.0, classes: int = 1000):
        super().__init__()
        channels = int(32 * width)
        layers = _normalised(nn.Conv2d(3, channels, 3, 2, padding=1, bias=False))
        for wanted, stride in BLOCKS:
            outputs = int(wanted * width)
            depthwise = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=channels, bias=False)
            pointwise = nn.Conv2d(channels, outputs, 1, bias=False)
            layers += [*_normalised(depthwise), *_normalised(pointwise)]
            channels = outputs
        self.layers = nn.Sequential(*layers)
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.layers(x).mean((2, 3)))
