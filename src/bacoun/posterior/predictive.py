"""From logits against the last class to probabilities, or straight to what uncertainty needs."""

from __future__ import annotations

import torch
from torch import Tensor

# Points are taken in slices whose logits stay in the processor's cache.
_SLICE_ELEMENTS = 1 << 19

# Up to here exp stays finite, also summed over a thousand classes, in single precision.
_SAFE = 60.0


def softmax_against_last(logits: Tensor) -> Tensor:
    """Probabilities (S, N, K) from logits against the last class (N, K-1, S)."""
    padded = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)
    return padded.softmax(dim=1).permute(2, 0, 1)


def moments_of_product(points: Tensor, weights: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws, both float64.

    The same as averaging `softmax_against_last(points @ weights)` and its entropy, but the logits
    are made, used and forgotten slice by slice.

    Parameters
    ----------
    points : Tensor of shape (N, r)
    weights : Tensor of shape (r, (K-1) S)
    n_columns : int
        K-1.
    """
    rows = max(16, _SLICE_ELEMENTS // weights.shape[1])
    buffer = points.new_empty(min(rows, len(points)), weights.shape[1])
    means, entropies = [], []
    for part in points.split(rows):
        logits = torch.mm(part, weights, out=buffer[: len(part)])
        mean, entropy = moments_against_last(logits.unflatten(1, (n_columns, -1)))
        means.append(mean)
        entropies.append(entropy)
    return torch.cat(means).double(), torch.cat(entropies).double()


def moments_against_last(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws of logits (N, K-1, S).

    Overwrites the logits. The last class has logit 0, so that it costs no exp of its own.
    """
    n_draws = logits.shape[2]
    low, high = logits.aminmax()
    shift = None
    if max(-float(low), float(high)) > _SAFE:
        shift = logits.amax(dim=1).clamp_(min=0)  # (N, S)
        logits.sub_(shift[:, None])
    weights = logits.exp()
    total = weights.sum(dim=1)
    last = torch.ones_like(total) if shift is None else shift.neg().exp_()
    total.add_(last)
    scale = total.reciprocal()
    weights.mul_(scale[:, None])
    last.mul_(scale)
    # H = log total - sum_k p_k z_k; after a shift the last class has z = -shift.
    entropy = total.log_() if shift is None else total.log_().addcmul_(last, shift)
    energy = torch.linalg.vecdot(weights.flatten(1), logits.flatten(1))
    mean = torch.cat([weights.mean(dim=2), last.mean(dim=1, keepdim=True)], dim=1)
    return mean, entropy.mean(dim=1) - energy / n_draws
