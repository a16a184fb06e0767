"""For the page of `benchmarks.ood`: the picture of mean ranks, and intervals of means."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
from scipy import stats

from bacoun.comparison.ranking import Ranking

LEVEL = 0.05


def draw_ranks(rankings: dict[str, Ranking], path: str | os.PathLike[str]) -> None:
    """Draw mean ranks, one panel for each ranking, without a display.

    A method whose difference from the reference is not significant has an open circle.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = 1.0 + 0.22 * max(len(each.ranks) for each in rankings.values())
    figure = Figure(figsize=(4.2 * len(rankings), height), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (title, each) in zip(
        np.atleast_1d(figure.subplots(1, len(rankings))), rankings.items(), strict=True
    ):
        names, ranks = list(each.ranks.index), each.ranks.to_numpy()
        places = np.arange(len(names))
        axis.hlines(places, 1, ranks, color="#c9d3da", linewidth=1)
        for place, (name, value) in enumerate(zip(names, ranks, strict=True)):
            ours = name == each.reference
            apart = ours or each.wilcoxon[name] < LEVEL
            color = "#c8553d" if ours else "#2a6f97"
            face = color if apart else "white"
            axis.plot(value, place, "o", markersize=6, color=color, markerfacecolor=face)
        axis.set_yticks(places, names, fontsize=8)
        axis.invert_yaxis()
        for label in axis.get_yticklabels():
            if label.get_text() == each.reference:
                label.set_fontweight("bold")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(f"mean rank over {each.n_cases} cases, 1 is best", fontsize=8)
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    figure.savefig(path, dpi=130)


def friedman(table: pd.DataFrame) -> float:
    """p-value of Friedman's test that all methods, the columns, are alike over cases.

    NaN with fewer than three, or if all their values are equal.
    """
    if table.shape[1] < 3 or len(table) < 2 or table.nunique(axis=1).max() == 1:
        return float("nan")
    return float(stats.friedmanchisquare(*(table[name] for name in table)).pvalue)


def interval(values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean over cases."""
    rng = np.random.default_rng(seed)
    draws = rng.choice(np.asarray(values), size=(2000, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)
