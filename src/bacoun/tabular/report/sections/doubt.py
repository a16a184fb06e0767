"""The two kinds of doubt on a plane, what the rule looks at, and how well OOD rows are found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bacoun.deferral import DeferralRule
from bacoun.tabular.report.charts import (
    Axis,
    Figure,
    Html,
    Plot,
    boxes,
    bullets,
    chart,
    folded,
    joined,
    percent,
    rows,
    small,
    swatch,
    table,
    tag,
)
from bacoun.tabular.report.data import ReportData, Scored
from bacoun.tabular.report.sections.shared import no_labels, sample, thinned
from bacoun.uncertainty import aupr, auroc, fpr_at_tpr

_TOLD_APART = 6  # fine lines in a chart

_READING = "Bars are shares within each set; what lies beyond the ends is drawn there."


def plane(data: ReportData) -> Html:
    """Epistemic against aleatoric uncertainty of each row."""
    test, top = data.test, math.log(len(data.classes))
    x = Axis.nats("aleatoric uncertainty, nats", [test.aleatoric], top)
    y = Axis.nats("epistemic uncertainty, nats", [test.epistemic], top)
    plot = Plot("Epistemic against aleatoric uncertainty", x, y, height=340)
    drawn, right = sample(len(test)), test.correct
    legend = []
    if data.ood is not None:
        some = sample(len(data.ood))
        plot.dots(data.ood.aleatoric[some], data.ood.epistemic[some], "outside")
        legend = [(swatch("outside"), data.names["ood"])]
    if right is None:
        plot.dots(test.aleatoric[drawn], test.epistemic[drawn], "right")
        legend.insert(0, (swatch("right"), "test rows"))
    else:
        good, bad = drawn[right[drawn]], drawn[~right[drawn]]
        plot.dots(test.aleatoric[good], test.epistemic[good], "right")
        names = [_named(data, row) for row in bad.tolist()]
        plot.crosses(test.aleatoric[bad], test.epistemic[bad], "wrong", names)
        legend = [(swatch("right"), "right"), (swatch("wrong", "cross"), "wrong"), *legend]
    caption = "Rows are deferred as unfamiliar for their ood_score, which is shown below."
    if _draw_limit(plot, data.rule):
        legend.append((swatch("limit", "line"), "limit of total uncertainty"))
        caption = f"Rows beyond the broken line are deferred as ambiguous. {caption}"
    caption += (
        " Both axes are logarithmic; what lies below their first mark is drawn at the edge."
        f"{thinned(len(test))}"
    )
    return chart(plot, caption, legend, aside=_reading_the_plane(test))


def _reading_the_plane(test: Scored) -> Html:
    """What the corners mean, and how many confident mistakes there are."""
    lines = [
        "Bottom left: the model is sure, and has reason to be.",
        "Right: the classes overlap. More rows of the same kind would not help; better features "
        "might.",
        "Top: the data does not decide, or the row is unlike what was seen. More such rows in "
        "training would help.",
    ]
    if test.correct is None:
        return joined([bullets(lines), no_labels("right is not told from wrong")])
    wrong = ~test.correct
    if not wrong.any():
        return bullets([*lines, "There is no mistake among these rows."])
    missed = int((wrong & (test.reason == "")).sum())
    lines.append(
        f"A mistake at the bottom left is one that nobody would look at: {missed:,} of "
        f"{rows(int(wrong.sum()), 'mistake')} {'was' if missed == 1 else 'were'} accepted. "
        "Point at a cross to see its row."
    )
    return bullets(lines)


def _named(data: ReportData, row: int) -> str:
    test = data.test
    text = f"row {row + 1:,}: predicted {data.classes[test.predicted[row]]}"
    return text if test.labels is None else f"{text}, is {data.classes[test.labels[row]]}"


def _total_limit(rule: DeferralRule) -> float:
    """Largest total uncertainty that is accepted; infinite if the rule has no such limit."""
    acceptance = rule.acceptance
    if acceptance is None or acceptance.threshold is None:
        return math.inf
    return acceptance.threshold


def _own_limits(rule: DeferralRule) -> list[float]:
    """Limits of single classes, if they are few enough to be told apart in a chart."""
    limits = sorted((rule.class_thresholds or {}).values())
    return limits if len(limits) <= _TOLD_APART else []


def _draw_limit(plot: Plot, rule: DeferralRule) -> bool:
    """Where total uncertainty reaches its limit on the plane; False if there is nothing to see."""
    total = _total_limit(rule)
    seen = plot.x.low < total < math.inf
    if seen:
        aleatoric = np.geomspace(plot.x.low, min(total, plot.x.high), 200)
        plot.line(aleatoric, total - aleatoric, "limit")
    return seen


def familiar(data: ReportData) -> Html:
    """Distributions of both scores of the rule, and how well OOD rows are told apart."""
    charts = (_ood_scores(data), _total_uncertainties(data))
    if data.ood is None:
        words = (
            "No rows from elsewhere were given (--ood), so how well such rows are found was not "
            "measured."
        )
        detection = tag("p", words, class_="note")
    else:
        detection = _detection(data, data.ood)
    return joined([tag("div", *charts, class_="pair"), detection])


def _ood_scores(data: ReportData) -> Html:
    """Histograms of how unfamiliar rows are."""
    rule, bands = data.rule, _bands(data, "ood_score")
    limit = rule.ood_threshold
    bend = limit if 0 < limit < math.inf else 1.0
    axis = Axis.scores("ood_score", bands.values(), bend)
    own = sorted((rule.class_thresholds or {}).values())
    plot, caption = _histograms("Distribution of ood_score", axis, bands, limit, _own_limits(rule))
    if own:
        caption += (
            f" Single classes have limits of their own, {small(own[0])} to {small(own[-1])}, which "
            "go first."
        )
    caption += f" The axis is about linear up to {small(bend)}, and logarithmic beyond."
    return chart(plot, f"{caption} {_READING}")


def _total_uncertainties(data: ReportData) -> Html:
    """Histograms of total uncertainty."""
    bands, limit = _bands(data, "total"), _total_limit(data.rule)
    axis = Axis.nats("total uncertainty, nats", bands.values(), math.log(len(data.classes)))
    title = "Distribution of total uncertainty"
    plot, caption = _histograms(title, axis, bands, limit)
    return chart(plot, f"{caption} The axis is logarithmic. {_READING}")


def _bands(data: ReportData, score: str) -> dict[str, np.ndarray]:
    """One score of each set of rows."""
    bands = {"calibration": data.calibration[score], "test": getattr(data.test, score)}
    return bands if data.ood is None else bands | {"OOD": getattr(data.ood, score)}


def _histograms(
    title: str,
    axis: Axis,
    bands: Mapping[str, np.ndarray],
    limit: float,
    own_limits: Sequence[float] = (),
) -> tuple[Plot, str]:
    """A histogram for each set of rows, one above the other, and what their limit is."""
    n, limited = len(bands), limit < math.inf
    plot = Plot(title, axis, Axis("", 0.0, float(n), blank=True), height=66 + 78 * n)
    edges = axis.bins(40)
    for threshold in own_limits:
        plot.vertical(threshold, "faint")
    labels = []
    for floor, (name, values) in zip(range(n - 1, -1, -1), bands.items(), strict=True):
        counts, _ = np.histogram(np.clip(values, axis.low, axis.high), edges)
        plot.bars(edges, 0.68 * counts / counts.max(), floor, name.lower())
        words = f"{name}: {rows(len(values))}"
        if limited:
            words += f", {percent(float((values > limit).mean()))} above the limit"
        labels.append((floor + 0.8, words))
    if limited:
        plot.vertical(limit, "limit")
    for height, words in labels:
        plot.text(edges[1], height, words)
    if not limited:
        return plot, "The rule sets no limit here."
    return plot, f"The broken line is the limit of the rule, {small(limit)}."


def _detection(data: ReportData, ood: Scored) -> Html:
    """How well OOD rows are told from test rows, by each score there is."""
    inside, outside = data.test.ood_score, ood.ood_score
    area, precision = auroc(inside, outside), aupr(inside, outside)
    alarms = fpr_at_tpr(inside, outside)
    why_area = (
        f"Of a test row and an OOD row, the OOD row has the higher ood_score in {percent(area)} of "
        "pairs; 50 % is chance."
    )
    why_alarms = (
        f"To flag 95 of 100 OOD rows, {percent(alarms)} of the test rows would be flagged as well."
    )
    why_precision = (
        "Mean share of OOD rows among the rows flagged, from the strictest limit on; "
        f"{percent(len(ood) / (len(ood) + len(data.test)))} is chance here."
    )
    figures = boxes(
        Figure("auroc", "AUROC", area, f"{area:.3f}", why_area),
        Figure("fpr95", "False alarms at 95 % found", alarms, percent(alarms), why_alarms),
        Figure("aupr", "AUPR", precision, f"{precision:.3f}", why_precision),
    )
    scores = {
        "ood_score": (inside, outside),
        "epistemic": (data.test.epistemic, ood.epistemic),
        "total": (data.test.total, ood.total),
    }
    for name, others in data.test.others.items():
        if name in ood.others:
            scores[name] = (others, ood.others[name])
    lines = [
        [name, f"{auroc(a, b):.3f}", percent(fpr_at_tpr(a, b)), f"{aupr(a, b):.3f}"]
        for name, (a, b) in scores.items()
    ]
    heads = ["score", "AUROC", "false alarms at 95 % found", "AUPR"]
    by_others = folded("The same by other scores", table(heads, lines, numeric=[1, 2, 3]))
    return joined([tag("h3", f"Test rows against {data.names['ood']}"), figures, by_others])
