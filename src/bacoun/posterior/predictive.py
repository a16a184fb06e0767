"""From logits against the last class to probabilities, or straight to what uncertainty needs."""

from __future__ import annotations

import torch
from torch import Tensor


def softmax_against_last(logits: Tensor) -> Tensor:
    """Probabilities (S, N, K) from logits against the last class (N, K-1, S)."""
    padded = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)
    return padded.softmax(dim=1).permute(2, 0, 1)


def moments_against_last(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws, both float64.

    The same as averaging `softmax_against_last` and its entropy, for one exp a class and one log a
    draw. Overwrites the logits (N, K-1, S).
    """
    largest = logits.amax(dim=1).clamp_(min=0)  # (N, S); the last class has logit 0
    shifted = logits.sub_(largest[:, None])
    weights = shifted.exp()
    last = (-largest).exp_()
    total = weights.sum(dim=1).add_(last)
    scale = total.reciprocal()
    weights.mul_(scale[:, None])
    last.mul_(scale)
    # H = log total - sum_k p_k (z_k - largest), and the last class has z_k = 0.
    entropy = total.log_().addcmul_(last, largest).mean(dim=1, dtype=torch.float64)
    entropy -= (weights.flatten(1) * shifted.flatten(1)).sum(1, dtype=torch.float64) / len(scale[0])
    mean = torch.cat([weights.mean(dim=2), last.mean(dim=1, keepdim=True)], dim=1)
    return mean.double(), entropy
