"""The sections of the page, each a function: `ReportData` in, markup out."""

from __future__ import annotations

from collections.abc import Callable

from bacoun.report.charts import Html
from bacoun.report.data import ReportData
from bacoun.report.sections.accuracy import accuracy
from bacoun.report.sections.decisions import deferral, promised
from bacoun.report.sections.doubt import familiar, plane
from bacoun.report.sections.model import about, summary
from bacoun.report.sections.risk import risk
from bacoun.report.sections.rows import map_of_rows, most_uncertain

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
