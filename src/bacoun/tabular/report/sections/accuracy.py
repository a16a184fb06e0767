"""How often the model is right, and whether it knows how often."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bacoun.tabular.report.charts import (
    Axis,
    Figure,
    Html,
    Plot,
    between,
    boxes,
    chart,
    joined,
    of,
    percent,
    small,
    table,
    tag,
)
from bacoun.tabular.report.data import ReportData, Scored
from bacoun.tabular.report.sections.shared import no_labels
from bacoun.uncertainty import auroc, expected_calibration_error, negative_log_likelihood

_BINS = 15  # of confidence, as in expected_calibration_error


def accuracy(data: ReportData) -> Html:
    """Accuracy, AUC, calibration error and log loss, with the reliability plot."""
    test = data.test
    if test.labels is None or test.correct is None:
        return no_labels("accuracy cannot be measured")
    n, right, k = len(test), int(test.correct.sum()), len(data.classes)
    ece = expected_calibration_error(test.probabilities, test.labels, _BINS)
    loss = negative_log_likelihood(test.probabilities, test.labels)
    why_accuracy = (
        f"{of(right, n)} predicted correctly; on more such rows {between(right, n)}, with 95 % "
        "confidence."
    )
    why_ece = (
        "Mean gap between the probability that the model states for its prediction and how often "
        f"it is right: {100 * ece:.1f} of 100."
    )
    why_loss = (
        f"The true class was given a probability of {math.exp(-loss):.2g} (geometric mean); a "
        f"guess among {k} classes gives {1 / k:.2g}."
    )
    figures = boxes(
        Figure("accuracy-all", "Accuracy", right / n, percent(right / n), why_accuracy),
        _auc_figure(test, test.labels, data.classes),
        Figure("ece", "Calibration error (ECE)", ece, percent(ece), why_ece),
        Figure("log-loss", "Log loss", loss, f"{small(loss)} nats", why_loss),
    )
    words = tag("p", "All rows count here, accepted or not.")
    return joined([words, figures, _reliability_chart(test, test.labels)])


def class_auc(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    """Area under the ROC curve: of the last of two classes, else the mean of each against the rest.

    Classes without a row, or without a row of another class, are passed over; None if all are.
    """
    n_classes = probabilities.shape[1]
    areas = [
        auroc(probabilities[labels != k, k], probabilities[labels == k, k])
        for k in ([1] if n_classes == 2 else range(n_classes))
        if 0 < (labels == k).sum() < len(labels)
    ]
    return float(np.mean(areas)) if areas else None


def _auc_figure(test: Scored, labels: np.ndarray, classes: Sequence[str]) -> Figure:
    area = class_auc(test.probabilities, labels)
    if area is None:
        return Figure("auc", "AUC", None, "", "It compares classes; the labels hold only one.")
    if len(classes) == 2:
        pair = f"the one of {classes[1]} gets the higher probability of it"
        pairs = f"a row of {classes[0]} and one of {classes[1]}"
    else:
        pair = "the one of the class gets the higher probability of it"
        pairs = "a row of a class and one of another"
    why = f"Of {pairs}, {pair} in {percent(area)} of pairs; 50 % is chance."
    return Figure("auc", "AUC", area, f"{area:.3f}", why)


def reliability(
    probabilities: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, mean confidence and accuracy of each bin of confidence that holds rows.

    The mean gap between the latter two, weighted by rows, is the expected calibration error.
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    filled = counts > 0
    means = (
        np.bincount(bins, weights=each, minlength=_BINS)[filled] / counts[filled]
        for each in (confidence, right)
    )
    return counts[filled], *means  # type: ignore[return-value]


def _reliability_chart(test: Scored, labels: np.ndarray) -> Html:
    counts, confidence, right = reliability(test.probabilities, labels)
    plot = Plot(
        "Stated confidence and observed accuracy",
        Axis("confidence in the prediction", 0.0, 1.0, percent=True),
        Axis("share that was right", 0.0, 1.0, percent=True),
    )
    plot.line([0, 1], [0, 1], "other")
    plot.bubbles(confidence, right, counts / counts.max(), "bubble")
    caption = (
        "Rows are grouped by confidence; a larger dot holds more rows. On the dotted line the "
        "model is right as often as it says; below it, it is too sure of itself."
    )
    lines = [
        [percent(said), percent(was), f"{count:,}"]
        for count, said, was in zip(counts, confidence, right, strict=True)
    ]
    numbers = table(["mean confidence", "right", "rows"], lines, numeric=[0, 1, 2])
    return chart(plot, caption, aside=numbers)
