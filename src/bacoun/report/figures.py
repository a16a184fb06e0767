"""The charts of the page: scored rows in, plots out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bacoun.report.data import ReportData
from bacoun.report.formats import percent, rows
from bacoun.report.measures import ConfidenceBin, Thresholds
from bacoun.report.plots import Axis, Plot, log_axis, percent_axis, symlog_axis
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.uncertainty import risk_coverage

DRAWN = 2000  # points in a chart; more hide each other
_LEVELS = 5  # shades of the map
_TOLD_APART = 6  # thin lines in a chart


def reliability_plot(bins: Sequence[ConfidenceBin]) -> Plot:
    """Accuracy against confidence."""
    plot = Plot(percent_axis(), percent_axis())
    plot.line([0, 1], [0, 1], "other")
    counts, confidence, accuracy = np.transpose(bins)
    plot.circles(confidence, accuracy, counts / counts.max(), "bubble")
    return plot


def uncertainty_plot(data: ReportData, thresholds: Thresholds) -> Plot:
    """Epistemic against aleatoric uncertainty of each row; errors are crosses."""
    test, said, top = data.test, data.test.evaluation, math.log(len(data.classes))
    plot = Plot(log_axis([said.aleatoric], top), log_axis([said.epistemic], top), height=340)
    if data.ood is not None:
        some, other = _sample(len(data.ood)), data.ood.evaluation
        plot.dots(other.aleatoric[some], other.epistemic[some], "outside")
    some = _sample(len(test))
    predicted = test.predicted
    truth = predicted if test.truth is None else test.truth
    right = predicted == truth
    good, bad = some[right[some]], some[~right[some]]
    plot.dots(said.aleatoric[good], said.epistemic[good], "right")
    names = [
        f"row {row + 1:,}: predicted {data.classes[k]}, label {data.classes[label]}"
        for row, k, label in zip(bad.tolist(), predicted[bad], truth[bad], strict=True)
    ]
    plot.crosses(said.aleatoric[bad], said.epistemic[bad], "wrong", names)
    if thresholds.total is not None and thresholds.total > plot.x.low:
        aleatoric = np.geomspace(plot.x.low, min(thresholds.total, plot.x.high), 200)
        plot.line(aleatoric, thresholds.total - aleatoric, "limit")
    return plot


def ood_score_plot(data: ReportData, thresholds: Thresholds) -> Plot:
    """Histograms of `ood_score`, with the thresholds of the rule."""
    sets, threshold = _sets(data, "ood_score"), thresholds.ood_score
    axis = symlog_axis(sets.values(), max(threshold or 0.0, 0.0) or 1.0)
    by_class = thresholds.by_class if len(thresholds.by_class) <= _TOLD_APART else []
    return _histograms(axis, sets, threshold, by_class)


def total_plot(data: ReportData, thresholds: Thresholds) -> Plot:
    """Histograms of total uncertainty, with the threshold of the rule."""
    sets = _sets(data, "total")
    axis = log_axis(sets.values(), math.log(len(data.classes)))
    return _histograms(axis, sets, thresholds.total)


def _sets(data: ReportData, score: str) -> dict[str, np.ndarray]:
    """One score of each set of rows."""
    sets = {"calibration": data.calibration[score], "test": vars(data.test.evaluation)[score]}
    return sets if data.ood is None else sets | {"OOD": vars(data.ood.evaluation)[score]}


def _histograms(
    axis: Axis, sets: dict[str, np.ndarray], threshold: float | None, by_class: Sequence[float] = ()
) -> Plot:
    """A histogram for each set of rows, one above the other."""
    n = len(sets)
    plot = Plot(axis, Axis(0.0, float(n)), height=66 + 78 * n)
    edges = axis.bins(40)
    for each in by_class:
        plot.vertical(each, "faint")
    for base, (name, values) in zip(reversed(range(n)), sets.items(), strict=True):
        counts, _ = np.histogram(np.clip(values, axis.low, axis.high), edges)
        plot.bars(edges, 0.68 * counts / counts.max(), base, name.lower())
    if threshold is not None:
        plot.vertical(threshold, "limit")
    for base, (name, values) in zip(reversed(range(n)), sets.items(), strict=True):
        label = f"{name}: {rows(len(values))}"
        if threshold is not None:
            label += f", {percent(float((values > threshold).mean()))} above the threshold"
        plot.text(edges[1], base + 0.8, label)
    return plot


def risk_plot(test: ScoredRows) -> Plot | None:
    """Share of errors against coverage, for this model, an oracle and chance; None unlabeled."""
    right, accepted = test.correct, test.reason == ""
    if right is None:
        return None
    coverages, risks = risk_coverage(test.evaluation.total, right)
    error = 1 - float(right.mean())
    # An error among the very first rows would set the scale for all others.
    top = min(1.0, 1.15 * max(risks[coverages >= 0.1].max(), 1.5 * error, 0.02))
    plot = Plot(percent_axis(), percent_axis(top))
    plot.line([0, 1], [error, error], "other")
    reach = np.linspace(max(1 - error, 1e-6), 1, 50)
    plot.line([0, *reach], [0, *(1 - (1 - error) / reach)], "ideal")
    kept = np.unique(np.linspace(0, len(risks) - 1, 600).astype(int))
    plot.steps(np.append(coverages[kept], 1.0), np.append(risks[kept], risks[-1]), "main")
    if accepted.any():
        plot.circles([accepted.mean()], [1 - right[accepted].mean()], [0.2], "ring")
    return plot


def row_map(data: ReportData) -> dict[str, Any]:
    """All rows along two principal components, shaded by epistemic uncertainty.

    A "plot", the upper ends of its "shades", and "n_outside", the number of rows beyond its frame.
    """
    sets = [(data.test, data.on_map[0], "")]
    sets += [] if data.ood is None else [(data.ood, data.on_map[1], " square")]
    plot = Plot(_map_axis(data, 0), _map_axis(data, 1), height=360)
    highest = max(1e-4, *(float(scored.evaluation.epistemic.max()) for scored, *_ in sets))
    shades = log_axis([data.test.evaluation.epistemic], highest)
    n_outside = 0
    for level in range(_LEVELS):
        for scored, places, shape in sets:
            some = _sample(len(scored))
            lengths = shades.position(scored.evaluation.epistemic[some])
            levels = np.minimum(lengths * _LEVELS, _LEVELS - 1).astype(int)
            x, y = places[some[levels == level]].T
            plot.dots(x, y, f"level{level}{shape}")
            n_outside += int((plot.x.outside(x) | plot.y.outside(y)).sum())
    edges = np.geomspace(shades.low, shades.high, _LEVELS + 1)
    return {"plot": plot, "shades": edges[1:].tolist(), "n_outside": n_outside}


def _map_axis(data: ReportData, component: int) -> Axis:
    """Wide enough for the test rows and what is near them; a few far rows must not shrink it."""
    test, everything = data.on_map[0][:, component], np.concatenate(data.on_map)[:, component]
    low, high = np.quantile(test, [0.01, 0.99])
    reach = (high - low) or 1.0
    low = max(everything.min(), low - reach) - 0.05 * reach
    high = min(everything.max(), high + reach) + 0.05 * reach
    return Axis(float(low), float(high))


def _sample(n_rows: int) -> np.ndarray:
    """Rows to draw, in random order, so that none lies on top for its place in the file."""
    return np.random.default_rng(0).permutation(n_rows)[:DRAWN]
