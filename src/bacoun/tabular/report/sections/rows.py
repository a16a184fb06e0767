"""Single rows: the most uncertain ones with what is unusual about them, and all on a map."""

from __future__ import annotations

import numpy as np

from bacoun.tabular.report.charts import (
    Axis,
    Html,
    Plot,
    bullets,
    chart,
    joined,
    percent,
    rows,
    small,
    swatch,
    table,
    tag,
)
from bacoun.tabular.report.data import ReportData, Telling, highest
from bacoun.tabular.report.sections.shared import OUTCOMES, sample, thinned


def most_uncertain(data: ReportData) -> Html:
    """The least familiar and the most ambiguous rows, with their unusual features."""
    words = (
        "Row 1 is the first below the header. Named are the features furthest from their mean in "
        "training, in standard deviations (sd): a hint at what makes a row unusual, not a proof."
    )
    if not data.standardized:
        words = (
            "Row 1 is the first below the header. The model does not standardise its inputs: "
            "named are the features furthest from 0, in their own units."
        )
    parts = [tag("p", words)]
    parts.append(tag("h3", "Least familiar: highest ood_score"))
    parts.append(_row_table(data, data.test.ood_score, "ood_score"))
    parts.append(tag("h3", "Most ambiguous: highest aleatoric uncertainty"))
    parts.append(_row_table(data, data.test.aleatoric, "aleatoric, nats"))
    return joined(parts)


def _row_table(data: ReportData, scores: np.ndarray, head: str) -> Html:
    test, labelled = data.test, data.test.labels is not None
    heads = ["row", "prediction", *(["label"] if labelled else [])]
    heads += ["probabilities", head, "decision", "unusual features"]
    lines = []
    for row in highest(scores).tolist():
        line: list[object] = [f"{row + 1:,}", data.classes[test.predicted[row]]]
        if test.labels is not None:
            line.append(data.classes[test.labels[row]])
        order = np.argsort(-test.probabilities[row], kind="stable")[:3]
        likely = [f"{data.classes[k]} {percent(test.probabilities[row, k])}" for k in order]
        decision = OUTCOMES.get(test.reason[row], (test.reason[row], ""))[0]
        unusual = ["a category not seen in training"] if data.unseen[row] else []
        unusual += [_unusual(each, data.standardized) for each in data.telling[row]]
        lines.append([*line, bullets(likely), small(scores[row]), decision, bullets(unusual)])
    return table(heads, lines, numeric=[0, len(heads) - 3], long=len(heads) - 1, cards=True)


def _unusual(feature: Telling, standardized: bool) -> str:
    unit = "\N{NO-BREAK SPACE}sd" if standardized else ""
    deviation = f"{feature.deviation:+,.1f}".replace("-", "\N{MINUS SIGN}")
    return f"{feature.name} = {feature.value:.4g} ({deviation}{unit})"


_LEVELS = 5  # shades of the map


def map_of_rows(data: ReportData) -> Html:
    """All rows in the two directions in which they differ most."""
    sets = [(data.test, "")] if data.ood is None else [(data.test, ""), (data.ood, " square")]
    x, y = (_map_axis(data, direction) for direction in (0, 1))
    plot = Plot("Map of the rows, stronger where the model knows less", x, y, height=360)
    highest = max(1e-4, *(float(scored.epistemic.max()) for scored, _ in sets))
    shades = Axis.nats("", [data.test.epistemic], highest)
    n_beyond = 0
    for level in range(_LEVELS):
        for scored, shape in sets:
            drawn = sample(len(scored))
            levels = np.minimum(shades.place(scored.epistemic[drawn]) * _LEVELS, _LEVELS - 1)
            a, b = scored.places[drawn[levels.astype(int) == level]].T
            plot.dots(a, b, f"level{level}{shape}")
            n_beyond += int((x.beyond(a) | y.beyond(b)).sum())
    edges = np.geomspace(shades.low, shades.high, _LEVELS + 1)
    legend = [(swatch(f"level{i}"), f"up to {_plain(edges[i + 1])}") for i in range(_LEVELS)]
    words = "Shown are the test rows"
    if data.ood is not None:
        legend.append((swatch("level3 square"), data.names["ood"]))
        words += f", round, and {data.names['ood']}, square"
    words += "; a model does not keep the rows it was fitted on."
    caption = f"Shades are epistemic uncertainty in nats.{thinned(len(data.test))}"
    if n_beyond:
        caption += f" {rows(n_beyond)} beyond the frame, drawn at its edge."
    lines = [
        "The two directions are those in which the test rows differ most: principal components of "
        "the standardised features.",
        "Strong marks away from the others: rows unlike the rest, in plain sight.",
        "Strong marks among the others: rows that are unusual in directions which a map of two "
        "cannot show.",
    ]
    return joined([tag("p", words), chart(plot, caption, legend, aside=bullets(lines))])


def _plain(value: float) -> str:
    """Two digits, however small, without an exponent."""
    return np.format_float_positional(value, precision=2, fractional=False, trim="-")


def _map_axis(data: ReportData, direction: int) -> Axis:
    """Wide enough for the test rows and what is near them; a few far rows must not shrink it."""
    test = data.test.places[:, direction]
    everything = test
    if data.ood is not None:
        everything = np.append(test, data.ood.places[:, direction])
    low, high = np.quantile(test, [0.01, 0.99])
    reach = (high - low) or 1.0
    low = max(everything.min(), low - reach) - 0.05 * reach
    high = min(everything.max(), high + reach) + 0.05 * reach
    share = percent(data.spread[direction])
    label = f"direction {direction + 1}, {share} of the variance"
    return Axis(label, float(low), float(high), blank=True)
