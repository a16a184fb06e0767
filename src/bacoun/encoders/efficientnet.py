"""EfficientNet-Lite0, a network for photos that was pretrained on ImageNet.

It is built of inverted bottlenecks without squeeze-and-excitation, and ReLU6 is its only
nonlinearity (Tan and Le, 2019: EfficientNet; Liu, 2020: EfficientNet-Lite).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

# Of each stage: blocks, kernel size, stride of the first block, expansion, channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD = 32, 1280


def efficientnet_lite0(weights: Mapping[str, Tensor]) -> nn.Module:
    """The network without its classifier: images (N, 3, H, W) -> features (N, 1280).

    H and W are multiples of 32. The tensors of `weights` come in the order of the layers; those of
    the classifier are last, and left out.
    """
    with torch.device("meta"):  # no memory and no randomness for weights that are replaced
        blocks, channels = [_layer(3, _STEM, kernel=3, stride=2)], _STEM
        for repeats, kernel, stride, expansion, outputs in _STAGES:
            for i in range(repeats):
                blocks.append(_Block(channels, outputs, kernel, 1 if i else stride, expansion))
                channels = outputs
        head = _layer(channels, _HEAD), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        network = nn.Sequential(*blocks, *head)
    state = dict(zip(network.state_dict(), weights.values(), strict=False))
    network.load_state_dict(state, assign=True)
    return network.eval()


class _Block(nn.Module):
    """Inverted bottleneck: more channels, a convolution of each, fewer channels; plus the input."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        layers = [_layer(inputs, inner)] if expansion > 1 else []
        layers.append(_layer(inner, inner, kernel, stride, groups=inner))
        layers.append(_layer(inner, outputs, is_linear=True))
        self.layers = nn.Sequential(*layers)
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds_input else self.layers(x)


def _layer(
    inputs: int,
    outputs: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    is_linear: bool = False,
) -> nn.Module:
    # As in TensorFlow, an odd pixel of padding is at the bottom and on the right.
    padding, before = kernel - stride, (kernel - stride) // 2
    after = padding - before
    layers: list[nn.Module] = [
        nn.ZeroPad2d((before, after, before, after)),
        nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
    ]
    return nn.Sequential(*layers) if is_linear else nn.Sequential(*layers, nn.ReLU6())
