"""Random weights that keep numbers of an ordinary size through a deep network, so that a comparison sees all layers."""

from __future__ import annotations

from torch import nn


def randomise(module: nn.Module) -> nn.Module:
    """He's weights for convolutions, and statistics for normalisations as if they had seen data; to eval mode."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.8, 1.2)
            nn.init.normal_(layer.bias, std=0.1)
            layer.running_mean.normal_(std=0.1)
            layer.running_var.uniform_(0.8, 1.2)
    return module.eval()
