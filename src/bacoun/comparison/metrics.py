"""Metrics of one method on one case: what it says of test rows and of each shift."""

import numpy as np

from bacoun.comparison.cases import Rows
from bacoun.comparison.methods import Scored
from bacoun.uncertainty import metrics

SMALLEST_PROBABILITY = 1e-12  # a forest gives 0, of which no logarithm exists


def quality(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and expected calibration error of probabilities (N, K), labels 0..K-1."""
    shares = probabilities.astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    likely = shares[np.arange(len(shares)), labels].clip(SMALLEST_PROBABILITY)
    return {
        "accuracy": float((shares.argmax(axis=1) == labels).mean()),
        "log loss": float(-np.log(likely).mean()),
        "ece": metrics.expected_calibration_error(shares, labels),
    }


def detection(inside: Scored, test: Rows, outside: Scored) -> dict[str, float]:
    """How well a shift is told from test rows, and what is answered wrongly in a mix of both.

    In the mix, rows of the shift count as errors when they are answered; there are at most as many
    of them as test rows.
    """
    right = inside.probabilities.argmax(axis=1) == test.truth
    n_outside = min(len(outside.ood), len(right))
    deferral = np.concatenate([inside.deferral, outside.deferral[:n_outside]])
    correct = np.concatenate([right, np.zeros(n_outside, dtype=bool)])
    return {
        "auroc": metrics.auroc(inside.ood, outside.ood),
        "aupr": metrics.aupr(inside.ood, outside.ood),
        "fpr95": metrics.fpr_at_tpr(inside.ood, outside.ood),
        "aurc": metrics.aurc(deferral, correct),
        "augrc": metrics.augrc(deferral, correct),
    }
