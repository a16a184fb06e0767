"""The sections of the page, in order: a new one is a template and a line in `SECTIONS`.

The template `templates/sections/ID.html.j2` begins with a heading whose id is "ID-title". It knows
`data`, a `ReportData`, and by name what the function of its line computes.
"""

from __future__ import annotations

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
    """A title, and what its template shows beside `data`."""

    title: str
    values: Callable[[ReportData], Values] = lambda data: {}


def _outcomes(data: ReportData) -> Values:
    ood = None if data.ood is None else outcomes(data.ood)
    return {"outcomes": outcomes(data.test), "ood_outcomes": ood}


def _max_total(data: ReportData) -> Values:
    return {"max_total": math.log(len(data.classes))}


def _accuracy(data: ReportData) -> Values:
    bins = measures.reliability(data.test)
    return {
        **_outcomes(data),
        **_max_total(data),
        "accuracy": measures.accuracy(data.test),
        "confidence_bins": bins,
        "reliability_plot": figures.reliability_plot(bins) if bins else None,
    }


def _uncertainty(data: ReportData) -> Values:
    thresholds = Thresholds.of(data.rule)
    return {
        **_outcomes(data),
        "thresholds": thresholds,
        "uncertainty_plot": figures.uncertainty_plot(data, thresholds),
        "max_drawn": figures.DRAWN,
    }


def _detection(data: ReportData) -> Values:
    thresholds = Thresholds.of(data.rule)
    return {
        "thresholds": thresholds,
        "ood_score_plot": figures.ood_score_plot(data, thresholds),
        "total_plot": figures.total_plot(data, thresholds),
        "detection": measures.detection(data.test, data.ood),
    }


def _risk(data: ReportData) -> Values:
    return {
        **_outcomes(data),
        "risk": measures.risk(data.test),
        "risk_plot": figures.risk_plot(data.test),
        "risk_at_coverage": measures.risk_at_coverage(data.test),
    }


def _deferral(data: ReportData) -> Values:
    classes, test = range(len(data.classes)), data.test
    return {
        **_outcomes(data),
        "thresholds": Thresholds.of(data.rule),
        "outcomes_by_class": [outcomes(test, test.predicted == k) for k in classes],
    }


SECTIONS = {
    "summary": Section("Summary", _outcomes),
    "model": Section("Model", _max_total),
    "accuracy": Section("Accuracy", _accuracy),
    "uncertainty": Section("Uncertainty", _uncertainty),
    "detection": Section("OOD detection", _detection),
    "risk": Section("Risk and coverage", _risk),
    "deferral": Section("Deferral", _deferral),
    "rows": Section(
        "Uncertain rows", lambda data: {"reasons": partial(reasons, columns=data.columns)}
    ),
    "map": Section("Map", lambda data: {"map": figures.row_map(data), "max_drawn": figures.DRAWN}),
}
