"""Mean ranks of methods over cases, and the tests of their differences."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats


@dataclass(frozen=True)
class Ranking:
    """Methods by mean rank, 1 is best."""

    ranks: pd.Series  # (M,), of each method over the cases, the best first
    means: pd.Series  # (M,), of the values of each method, in the same order
    # (M - 1,), p-values of each other method against the reference, by Wilcoxon's signed-rank test
    # over cases and Holm's correction.
    wilcoxon: pd.Series
    reference: str
    n_cases: int


def rank(table: pd.DataFrame, reference: str, *, higher_is_better: bool) -> Ranking:
    """Rank the columns of a table, which has a row for each case.

    Cases of one table are not independent, so p-values are a little too small.
    """
    signed = table if higher_is_better else -table
    ranks = signed.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    others = [name for name in ranks.index if name != reference]
    raw = pd.Series({name: _signed_rank(signed[reference], signed[name]) for name in others})
    return Ranking(ranks, table.mean()[ranks.index], holm(raw), reference, len(table))


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
