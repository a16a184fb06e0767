"""Step 4: probabilities (S, N, K) -> total = aleatoric + epistemic, each (N,), in nats."""

from bacoun.uncertainty.decomposition import Uncertainty, decompose

__all__ = ["Uncertainty", "decompose"]
