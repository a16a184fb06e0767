"""What is gained by answering fewer rows: the risk-coverage curve."""

from __future__ import annotations

import numpy as np

from bacoun.tabular.report.charts import (
    Axis,
    Figure,
    Html,
    Plot,
    boxes,
    chart,
    joined,
    of,
    percent,
    small,
    swatch,
    table,
    tag,
)
from bacoun.tabular.report.data import ReportData, Scored
from bacoun.tabular.report.sections.shared import no_labels
from bacoun.uncertainty import augrc, aurc, coverage_at_risk, risk_at_coverage, risk_coverage


def risk(data: ReportData) -> Html:
    """Mistakes against the share of rows that is answered, the surest first."""
    if data.test.correct is None:
        return no_labels("the risk of a mistake cannot be measured")
    scores, right, n = data.test.total, data.test.correct, len(data.test)
    error = 1 - float(right.mean())
    at_80, at_5 = risk_at_coverage(scores, right, 0.8), coverage_at_risk(scores, right, 0.05)
    area, general, best = aurc(scores, right), augrc(scores, right), aurc(~right, right)
    why_80 = (
        f"Answering the surest 80 of 100 rows, {percent(at_80)} of the answers would be wrong; "
        f"answering all, {percent(error)}."
    )
    why_5 = f"{of(round(at_5 * n), n)} can be answered with at most 5 of 100 answers wrong."
    why_area = (
        "Mean share of mistakes over answering 1, 2, ... rows, the surest first. In perfect order "
        f"{small(best)}, in random order {small(error)}."
    )
    why_general = (
        "Chance that a row is a mistake and still answered, the limit being random. In perfect "
        f"order {small(error**2 / 2)}, in random order {small(error / 2)}."
    )
    figures = boxes(
        Figure("risk-80", "Mistakes at 80 % coverage", at_80, percent(at_80), why_80),
        Figure("coverage-5", "Coverage at 5 % mistakes", at_5, percent(at_5), why_5),
        Figure("aurc", "AURC", area, small(area), why_area),
        Figure("augrc", "AUGRC", general, small(general), why_general),
    )
    words = (
        "Here rows are answered in the order of their total uncertainty, the surest first. These "
        "are measurements on the test rows, not promises for others."
    )
    return joined([tag("p", words), figures, _risk_chart(data.test, right, error)])


def _risk_chart(test: Scored, right: np.ndarray, error: float) -> Html:
    coverages, risks = risk_coverage(test.total, right)
    kept = np.unique(np.linspace(0, len(risks) - 1, 600).astype(int))
    # A mistake among the very first rows would set the scale for all others.
    top = min(1.0, 1.15 * max(risks[coverages >= 0.1].max(), 1.5 * error, 0.02))
    plot = Plot(
        "Share of mistakes against share of rows answered",
        Axis("share of rows answered", 0.0, 1.0, percent=True),
        Axis("share of mistakes", 0.0, top, percent=True),
    )
    reach = np.linspace(max(1 - error, 1e-6), 1, 50)
    plot.line([0, 1], [error, error], "other")
    plot.line([0, *reach], [0, *(1 - (1 - error) / reach)], "ideal")
    plot.steps(np.append(coverages[kept], 1.0), np.append(risks[kept], risks[-1]), "main")
    legend = [
        (swatch("main", "line"), "this model"),
        (swatch("ideal", "line"), "perfect order"),
        (swatch("other", "line"), "random order"),
    ]
    accepted = test.reason == ""
    if accepted.any():
        wrong = 1 - float(right[accepted].mean())
        plot.bubbles(np.array([accepted.mean()]), np.array([wrong]), np.array([0.2]), "ring")
        legend.append((swatch("ring", "ring"), "the deferral rule"))
    lines = [
        [f"{share:.0%}".replace("%", " %"), percent(risk_at_coverage(test.total, right, share))]
        for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
    ]
    numbers = table(["rows answered", "mistakes among them"], lines, numeric=[0, 1])
    caption = "Further left, fewer rows are answered and more are handed on."
    return chart(plot, caption, legend, aside=numbers)
