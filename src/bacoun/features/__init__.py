"""Step 2: points and edge (N, D), labels of K+1 classes -> frozen features (N, L)."""

from bacoun.features.gate import as_if_rare, gated
from bacoun.features.learned import LearnedFeatures

KINDS = {"learned": LearnedFeatures}

__all__ = ["KINDS", "LearnedFeatures", "as_if_rare", "gated"]
