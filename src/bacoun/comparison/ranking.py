"""Mean ranks of methods over cases, the tests of their differences, and the picture of both."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

LEVEL = 0.05


@dataclass(frozen=True)
class Ranking:
    """Methods by mean rank, 1 is best.

    Attributes
    ----------
    ranks : Series of M
        Mean rank of each method over the cases, the best first.
    means : Series of M
        Mean value of each method, in the same order.
    friedman : float
        p-value of Friedman's test that all methods are alike; NaN with fewer than three, or if all
        their values are equal.
    wilcoxon : Series of M - 1
        p-value of each other method against `reference`, by Wilcoxon's signed-rank test over cases
        and Holm's correction.
    reference : str
        The method that the others are tested against.
    n_cases : int
    """

    ranks: pd.Series
    means: pd.Series
    friedman: float
    wilcoxon: pd.Series
    reference: str
    n_cases: int


def rank(table: pd.DataFrame, reference: str, *, higher_is_better: bool) -> Ranking:
    """Rank the columns of a table, which has a row for each case.

    Cases of one table are not independent, so p-values are a little too small.
    """
    signed = table if higher_is_better else -table
    ranks = signed.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    n_methods, n_cases = table.shape[1], len(table)
    friedman = float("nan")
    if n_methods >= 3 and n_cases >= 2 and table.nunique(axis=1).max() > 1:
        friedman = float(stats.friedmanchisquare(*(table[name] for name in table)).pvalue)
    others = [name for name in ranks.index if name != reference]
    raw = pd.Series({name: _signed_rank(signed[reference], signed[name]) for name in others})
    return Ranking(ranks, table.mean()[ranks.index], friedman, holm(raw), reference, n_cases)


def _signed_rank(ours: pd.Series, other: pd.Series) -> float:
    difference = (ours - other).to_numpy()
    if not np.any(difference):
        return 1.0
    return float(stats.wilcoxon(difference, zero_method="zsplit").pvalue)


def holm(p_values: pd.Series) -> pd.Series:
    """Holm's step-down correction of p-values, in the same order.

    Examples
    --------
    >>> holm(pd.Series({"a": 0.01, "b": 0.04, "c": 0.03})).round(4).tolist()
    [0.03, 0.06, 0.06]
    """
    ordered = p_values.sort_values()
    factors = np.arange(len(ordered), 0, -1)
    corrected = np.maximum.accumulate(np.minimum(ordered.to_numpy() * factors, 1.0))
    return pd.Series(corrected, index=ordered.index)[p_values.index]


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
