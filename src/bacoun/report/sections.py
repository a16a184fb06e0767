"""The sections of the page, in order: a new one is a template and a line in `SECTIONS`.

The template `templates/sections/ID.html.j2` begins with a heading whose id is "ID-title". It knows
`data`, a `ReportData`, and by name the values that are `shared`, and those of its line.
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
    """A title, and what its template alone shows."""

    title: str
    values: Callable[[ReportData], Values] = lambda data: {}


def shared(data: ReportData) -> Values:
    """What several sections show."""
    return {
        "data": data,
        "thresholds": Thresholds.of(data.rule),
        "outcomes": outcomes(data.test),
        "ood_outcomes": None if data.ood is None else outcomes(data.ood),
        "max_total": math.log(len(data.classes)),
        "max_drawn": figures.DRAWN,
    }


def _accuracy(data: ReportData) -> Values:
    bins = measures.reliability(data.test)
    return {
        "accuracy": measures.accuracy(data.test),
        "confidence_bins": bins,
        "reliability_plot": figures.reliability_plot(bins) if bins else None,
    }


def _uncertainty(data: ReportData) -> Values:
    return {"uncertainty_plot": figures.uncertainty_plot(data, Thresholds.of(data.rule))}


def _detection(data: ReportData) -> Values:
    thresholds = Thresholds.of(data.rule)
    return {
        "ood_score_plot": figures.ood_score_plot(data, thresholds),
        "total_plot": figures.total_plot(data, thresholds),
        "detection": measures.detection(data.test, data.ood),
    }


def _risk(data: ReportData) -> Values:
    return {
        "risk": measures.risk(data.test),
        "risk_plot": figures.risk_plot(data.test),
        "risk_at_coverage": measures.risk_at_coverage(data.test),
    }


def _deferral(data: ReportData) -> Values:
    by_class = (data.test.predicted == k for k in range(len(data.classes)))
    return {"outcomes_by_class": [outcomes(data.test, rows) for rows in by_class]}


def _rows(data: ReportData) -> Values:
    return {"reasons": partial(reasons, columns=data.columns)}


def _map(data: ReportData) -> Values:
    return {"map": figures.row_map(data)}


SECTIONS = {
    "summary": Section("Summary"),
    "model": Section("Model"),
    "accuracy": Section("Accuracy", _accuracy),
    "uncertainty": Section("Uncertainty", _uncertainty),
    "detection": Section("OOD detection", _detection),
    "risk": Section("Risk and coverage", _risk),
    "deferral": Section("Deferral", _deferral),
    "rows": Section("Uncertain rows", _rows),
    "map": Section("Map", _map),
}
