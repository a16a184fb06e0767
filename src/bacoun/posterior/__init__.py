"""Step 3: features (N, L), labels (N,) -> class probabilities (S, N, K) under posterior draws."""

from bacoun.posterior.diagnostics import Health
from bacoun.posterior.gaussian import Laplace, MeanField
from bacoun.posterior.hmc import HMC
from bacoun.posterior.nuts import NUTS

KINDS = {"hmc": HMC, "nuts": NUTS, "mean-field": MeanField, "laplace": Laplace}

__all__ = ["HMC", "KINDS", "NUTS", "Health", "Laplace", "MeanField"]
