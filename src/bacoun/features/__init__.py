"""Step 2: points (N, D), labels (N,), boundary points (n, D) -> frozen features (N, L)."""

from bacoun.features.learned import LearnedFeatures
from bacoun.features.linear import LinearFeatures
from bacoun.features.tabular import TabularFeatures

# For images, "auto" is "learned".
KINDS = {"auto": TabularFeatures, "learned": LearnedFeatures, "linear": LinearFeatures, "tabular": TabularFeatures}

__all__ = ["KINDS", "LearnedFeatures", "LinearFeatures", "TabularFeatures"]
