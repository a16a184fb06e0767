"""The sections of the page, each a function: `ReportData` in, markup out."""

from __future__ import annotations

from collections.abc import Callable

from bacoun.tabular.report.charts import Html
from bacoun.tabular.report.data import ReportData
from bacoun.tabular.report.sections.accuracy import accuracy
from bacoun.tabular.report.sections.decisions import deferral, promised
from bacoun.tabular.report.sections.doubt import familiar, plane
from bacoun.tabular.report.sections.model import about, summary
from bacoun.tabular.report.sections.risk import risk
from bacoun.tabular.report.sections.rows import map_of_rows, most_uncertain

SECTIONS: dict[str, Callable[[ReportData], Html]] = {
    "summary": summary,
    "about": about,
    "accuracy": accuracy,
    "plane": plane,
    "familiar": familiar,
    "risk": risk,
    "deferral": deferral,
    "promised": promised,
    "rows": most_uncertain,
    "map": map_of_rows,
}
"""By the name that `page.html` has for each."""
