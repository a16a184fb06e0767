"""A typical row of a model, written as in a table: to start from, and as an example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.tabular.encoding import Column
from bacoun.tabular.model import TableModel

_N_LOOKED_AT = 512
_N_TYPICAL = 25


def shown(column: Column, value: Any) -> Any:
    """A value of a column as it is written in a table; None is a gap."""
    if pd.isna(value):
        return None
    if column.kind == "boolean":
        return bool(value)
    if column.kind == "date":
        if column.date_format in (None, dates.ISO):
            return dates.as_text(float(value))
        moment = pd.Timestamp(0) + pd.Timedelta(days=float(value))
        return moment.strftime(str(column.date_format))
    if column.kind == "number" and float(value).is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def typical_row(model: TableModel) -> dict[str, Any]:
    """A row in the middle of the densest known ones; it is not any single one of them.

    The median, or the most frequent category, of each column over the 25 most familiar rows.
    """
    known = model.neighborhood
    rows = known.rows[:_N_LOOKED_AT] * known.scale + known.mean
    score = model.classifier.evaluate(rows).ood_score
    nearest = rows[np.argsort(score, kind="stable")[:_N_TYPICAL]]
    found, start = {}, 0
    for column in model.columns:
        end = start + len(column.features)
        found[column.name] = shown(column, _middle(column, nearest[:, start:end]))
        start = end
    return found


def _middle(column: Column, features: np.ndarray) -> Any:
    if column.levels or column.gaps:
        gap = features[:, -1] == (len(column.levels) if column.levels else 1)
        if gap.mean() > 0.5:
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
