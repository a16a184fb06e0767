"""Plot the figure at the top of the README: bacoun with default settings on the GMM data."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from bacoun import BaCOUnClassifier, UncertaintyDisplay
from reproduction.datasets import gaussian_mixture

X, y = gaussian_mixture(500, random_state=0)
model = BaCOUnClassifier(random_state=0).fit(X, y)
display = UncertaintyDisplay.from_estimator(model, X, y, grid_resolution=200)
out = Path(__file__).parents[1] / "docs" / "images" / "gmm.png"
display.figure_.savefig(out, dpi=90)
