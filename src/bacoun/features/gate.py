"""The gate: features that change hands where the network says "out of distribution"."""

from __future__ import annotations

import torch
from torch import Tensor


def as_if_rare(ood_probability: Tensor, trained_odds: float, share: float) -> Tensor:
    """What p(OOD) (N,) would be if such points were rarer than in training.

    Step 2 sees about as many edge points as data, so its p(OOD) speaks of a world in which every
    other point is unknown. Bayes' rule brings it to one in which their share is `share`.

    Parameters
    ----------
    trained_odds : float
        Edge points for each data point in training.

    Examples
    --------
    >>> as_if_rare(torch.tensor([0.5, 1.0]), trained_odds=1.0, share=0.01)
    tensor([0.0100, 1.0000])
    """
    change = share / (1 - share) / trained_odds
    return ood_probability * change / (1 - ood_probability + ood_probability * change)


def gated(features: Tensor, ood_probability: Tensor, unknown_scale: float = 1.0) -> Tensor:
    """Turn phi (N, L) and g (N,) into [(1-g) phi, 1-g, s g phi, s g] of shape (N, 2L + 2).

    A training point is known to be in distribution, so step 3 is fitted with g = 0: the weights of
    the second half keep their prior exactly, and wherever the network says out of distribution
    (g near 1) posterior draws disagree as much as the prior does. The two bias columns are
    included, so the last layer on top has no intercept of its own.

    How far the weights of known classes may stray, and how far draws disagree about the unknown,
    are two questions: the scale s turns the prior of the second half into another one.
    """
    g = ood_probability[:, None]
    with_bias = torch.cat([features, torch.ones_like(g)], dim=1)
    return torch.cat([(1 - g) * with_bias, unknown_scale * g * with_bias], dim=1)
