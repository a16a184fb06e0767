"""The sections of the page, in order: a new one is a template and a line in `SECTIONS`.

The template `templates/sections/ID.html.j2` begins with a heading whose id is "ID-title". It knows
by name the values that are `shared`, such as `data`, a `ReportData`, and those of its line.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bacoun.report import figures, measures
from bacoun.report.data import ReportData
from bacoun.report.measures import Thresholds, outcomes
from bacoun.report.reasons import reasons

Values = dict[str, Any]


class Section(NamedTuple):
    """A title, and what its template alone shows."""

    title: str
    values: Callable[[ReportData], Values] = lambda data: {}


def shared(data: ReportData) -> Values:
    """What the sections of this package show."""
    test, thresholds, bins = data.test, Thresholds.of(data.rule), measures.reliability(data.test)
    by_class = (test.predicted == k for k in range(len(data.classes)))
    return {
        "data": data,
        "thresholds": thresholds,
        "outcomes": outcomes(test),
        "ood_outcomes": None if data.ood is None else outcomes(data.ood),
        "max_total": math.log(len(data.classes)),
        "max_drawn": figures.DRAWN,
        "accuracy": measures.accuracy(test),
        "confidence_bins": bins,
        "reliability_plot": figures.reliability_plot(bins) if bins else None,
        "uncertainty_plot": figures.uncertainty_plot(data, thresholds),
        "ood_score_plot": figures.ood_score_plot(data, thresholds),
        "total_plot": figures.total_plot(data, thresholds),
        "detection": measures.detection(test, data.ood),
        "risk": measures.risk(test),
        "risk_plot": figures.risk_plot(test),
        "risk_at_coverage": measures.risk_at_coverage(test),
        "outcomes_by_class": [outcomes(test, rows) for rows in by_class],
        "reasons": partial(reasons, columns=data.columns),
        "map": figures.row_map(data),
    }


def _kinds_of_columns(data: ReportData) -> Values:
    is_item = {column.embedding is not None for column in data.columns.values()}
    return {"has_items": True in is_item, "has_values": False in is_item}


SECTIONS = {
    "summary": Section("Summary"),
    "model": Section("Model"),
    "accuracy": Section("Accuracy"),
    "uncertainty": Section("Uncertainty"),
    "detection": Section("OOD detection"),
    "risk": Section("Risk and coverage"),
    "deferral": Section("Deferral"),
    "rows": Section("Uncertain rows", _kinds_of_columns),
    "map": Section("Map"),
}
