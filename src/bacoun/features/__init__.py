"""Step 2: points (N, D), labels (N,), edge (n, D) -> frozen features (N, L), log-odds of edge."""

from bacoun.features.learned import LearnedFeatures

KINDS = {"learned": LearnedFeatures}

__all__ = ["KINDS", "LearnedFeatures"]
