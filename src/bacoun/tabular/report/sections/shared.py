"""What several sections say or draw alike."""

from __future__ import annotations

import numpy as np

from bacoun.tabular.report.charts import Html, tag

OUTCOMES = {
    "": ("accepted", "the prediction is used as it is"),
    "unfamiliar": ("unfamiliar", "nothing like it was seen in training"),
    "ambiguous": ("ambiguous", "it looks familiar, but the classes overlap here"),
}

UNFOLDED = 12  # classes in a table that is not folded away

NONE = "\N{EN DASH}"

_DRAWN = 2000  # points in a chart; more hide each other


def no_labels(so: str) -> Html:
    """Why something is not there."""
    return tag("p", f"The test rows have no labels, so {so}.", class_="note")


def sample(n_rows: int) -> np.ndarray:
    """Rows to draw, in a random order, so that none lies on top by its place in the file."""
    return np.random.default_rng(0).permutation(n_rows)[:_DRAWN]


def thinned(n_rows: int) -> str:
    """That not all rows are drawn, if so."""
    return f" {_DRAWN:,} of {n_rows:,} rows are drawn, chosen at random." if n_rows > _DRAWN else ""
