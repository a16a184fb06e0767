"""The gate: features that change hands where the network says "out of distribution"."""

from __future__ import annotations

import torch
from torch import Tensor


def gated(features: Tensor, ood_probability: Tensor) -> Tensor:
    """Turn phi (N, L) and g (N,) into [(1-g) phi, 1-g, g phi, g] of shape (N, 2L + 2).

    A training point is known to be in distribution, so step 3 is fitted with g = 0: the weights of
    the second half keep their prior exactly, and wherever the network says out of distribution
    (g near 1) posterior draws disagree as much as the prior does. The two bias columns are
    included, so the last layer on top has no intercept of its own.
    """
    g = ood_probability[:, None]
    with_bias = torch.cat([features, torch.ones_like(g)], dim=1)
    return torch.cat([(1 - g) * with_bias, g * with_bias], dim=1)
