"""Step 4: probabilities (S, N, K) -> total = aleatoric + epistemic, each (N,), in nats."""

from bacoun.uncertainty.decomposition import Uncertainty, decompose, from_moments

__all__ = ["Uncertainty", "decompose", "from_moments"]
