"""A typical row of a model, written as in a table: to start from, and as an example."""

from typing import Any

import numpy as np

from bacoun.classifier import BaCOUnClassifier
from bacoun.columns.column import Column
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.neighbors import Neighborhood

_N_LOOKED_AT = 512
_N_TYPICAL = 25


def typical_row(
    classifier: BaCOUnClassifier, encoder: TableEncoder, known: Neighborhood
) -> dict[str, Any]:
    """A row in the middle of the densest known ones; it is not any single one of them.

    The median, or the most frequent category, of each column over the 25 most familiar rows.
    """
    rows = known.rows[:_N_LOOKED_AT] * known.scale + known.mean
    score = classifier.evaluate(rows).ood_score
    nearest = rows[np.argsort(score, kind="stable")[:_N_TYPICAL]]
    pairs = zip(encoder.columns_, encoder.places, strict=True)
    return {c.name: c.as_cell(_middle(c, nearest[:, where])) for c, where in pairs}


def _middle(column: Column, features: np.ndarray) -> Any:
    gap = features[:, -1] == (len(column.levels) or 1)
    if (column.levels or column.gaps) and gap.mean() > 0.5:
        return None
    if column.levels:
        codes, counts = np.unique(features[:, 0].astype(int), return_counts=True)
        return column.decode(np.array([codes[counts.argmax()]]))
    middle = float(np.median(features[:, 0]))
    if column.whole or column.kind == "date":
        return round(middle)
    # As few digits as tell neighbors apart: 14.13, not 14.127291740.
    digits = 4 - int(np.ceil(np.log10(max(abs(middle), 1e-300))))
    return round(middle, min(max(digits, 0), 12))
