"""Step 2: points (N, D), labels (N,), boundary points (n, D) -> frozen features (N, L)."""

from bacoun.features.forest import Forest
from bacoun.features.learned import LearnedFeatures
from bacoun.features.linear import LinearFeatures
from bacoun.features.tabular import TabularFeatures

# For images, "auto" is "learned"; for more than 128 numbers in a table, it may be "linear".
KINDS = {
    "auto": TabularFeatures,
    "learned": LearnedFeatures,
    "linear": LinearFeatures,
    "tabular": TabularFeatures,
}

__all__ = ["KINDS", "Forest", "LearnedFeatures", "LinearFeatures", "TabularFeatures"]
