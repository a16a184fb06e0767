"""The tables of docs/disentanglement.md: what each part of the uncertainty follows."""

from __future__ import annotations

import numpy as np
from reproduction.pages.claims import Results
from reproduction.pages.doubt_tables import by_method, methods, seeds, table
from reproduction.pages.tables import number
from reproduction.schema import read_experiment
from scipy import stats

_NAME = "disentanglement"
_CORRELATIONS = {
    "aleatoric, size": "r/aleatoric size/mean",
    "epistemic, size": "r/epistemic size/mean",
    "aleatoric, noise": "r/aleatoric noise/mean",
    "epistemic, noise": "r/epistemic noise/mean",
}
_TRUTH = {
    "error": "truth/error 0",
    "error, 20 % noise": "truth/error 20",
    "error, 40 % noise": "truth/error 40",
    "slope": "truth/slope",
    "rank correlation inside": "truth/rank inside",
    "mixed with far points": "truth/rank mixed",
}


def ude(r: Results) -> str:
    """UDE over all tables and on wine, with 95 % intervals, and the correlations it is made of."""
    rows = (
        [
            method,
            seeds(r, _NAME, method),
            *(_interval(r, method, f"ude/{name}") for name in ("mean", "sklearn-wine")),
            *(_interval(r, method, path) for path in _CORRELATIONS.values()),
        ]
        for method in methods(r, _NAME)
    )
    return table(["method", "splits", "all tables", "wine", *_CORRELATIONS], rows, 1)


def _interval(r: Results, method: str, path: str) -> str:
    """Mean and half the width of a 95 % confidence interval, by Student's t."""
    values = r.values(_NAME, method, path).to_numpy()
    if len(values) < 2:
        return number(float(values.mean()))
    error = values.std(ddof=1) / np.sqrt(len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1) * error)
    return f"{values.mean():.3f} ± {half:.3f}"


def ude_by_table(r: Results) -> str:
    """UDE of every method on every table."""
    known = methods(r, _NAME)
    rows = (
        [name, *(f"{r.values(_NAME, method, f'ude/{name}').mean():.3f}" for method in known)]
        for name in read_experiment(_NAME).dataset["tables"]
    )
    return table(["table", *known], rows, 1)


def known_truth(r: Results) -> str:
    """The Gaussian mixture, whose entropy is known."""
    return by_method(r, _NAME, "method", _TRUTH)


TABLES = {
    "disentanglement: UDE": ude,
    "disentanglement: tables": ude_by_table,
    "disentanglement: truth": known_truth,
}
