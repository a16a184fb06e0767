"""Fit a method on a case and judge it; collect the numbers of many such runs in tables."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from bacoun.comparison.cases import Case, Rows, difficulty
from bacoun.comparison.methods import METHODS, Answer, Scored, one_thread
from bacoun.comparison.record import Record
from bacoun.uncertainty import metrics

DIFFICULTY = "difficulty"
SMALLEST_PROBABILITY = 1e-12  # a forest gives 0, of which no logarithm exists
_DIGITS = 4


def measure(case: Case, method: str | Callable[[Case, int], Answer], seed: int) -> dict[str, Any]:
    """Fit one method, by its name or by a function that fits it, and judge each of its scores.

    The result has "fit seconds" and, for a thousand rows, "predict seconds", both of processor
    time, so that other jobs on the machine hardly matter; and "scores": for each, the "test"
    quality and for each of the "shifts" its detection, and its quality if it has labels.
    """
    fit = METHODS[method].fit if isinstance(method, str) else method
    with one_thread():
        started = time.process_time()
        answer = fit(case, seed)
        fitted = time.process_time()
        inside = answer(case.test)
        predicted = time.process_time()
        outside = {name: answer(rows) for name, rows in case.shifts.items()}
    scores = {}
    for score, said in inside.items():
        shifts = {}
        for name, rows in case.shifts.items():
            numbers = detection(said, case.test, outside[name][score])
            if rows.labels is not None:
                numbers |= quality(outside[name][score].probabilities, rows.labels)
            shifts[name] = _rounded(numbers)
        on_test = quality(said.probabilities, case.test.truth)
        scores[score] = {"test": _rounded(on_test), "shifts": shifts}
    return {
        "fit seconds": round(fitted - started, 3),
        "predict seconds": round(1000 * (predicted - fitted) / len(case.test), 4),
        "scores": scores,
    }


def measure_difficulty(case: Case, seed: int) -> dict[str, Any]:
    """Sizes of the case, and for each shift how well it could be told from test rows at best."""
    with one_thread():
        shifts = {name: difficulty(case.test, rows, seed) for name, rows in case.shifts.items()}
    return {
        "training rows": len(case.train),
        "test rows": len(case.test),
        "columns": case.train.points.shape[1],
        "classes": case.n_classes,
        "shifts": _rounded(shifts),
    }


def _rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {name: round(number, _DIGITS) for name, number in numbers.items()}


def quality(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and expected calibration error of probabilities (N, K), labels 0..K-1."""
    shares = probabilities.astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    return {
        "accuracy": float((shares.argmax(axis=1) == labels).mean()),
        "log loss": metrics.negative_log_likelihood(shares.clip(SMALLEST_PROBABILITY), labels),
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


# --- tables ---------------------------------------------------------------------------------------


def shift_table(record: Record, metric: str) -> pd.DataFrame:
    """Means over seeds: a row for each case and shift, a column for each score.

    Only what all methods of the record were run on is in it, so that means are over the same rows.
    The `metric` is of `detection`, or of `quality` under the shift. Runs are named
    "case/seed/method".
    """
    return _pivot(
        (case, shift, score, numbers[metric])
        for case, score, judged, _ in _scores(record)
        for shift, numbers in judged["shifts"].items()
        if metric in numbers
    )


def quality_table(record: Record, metric: str) -> pd.DataFrame:
    """Means over seeds: a row for each case, a column for each score.

    `metric` is of `quality` on test rows, or "fit seconds" or "predict seconds".
    """
    return _pivot(
        (case, "test", score, run[metric] if metric in run else judged["test"][metric])
        for case, score, judged, run in _scores(record)
    )


def difficulty_table(record: Record) -> pd.Series:
    """Mean over seeds of the difficulty of each case and shift."""
    rows = [
        (name.split("/")[0], shift, value)
        for name, run in record["runs"].items()
        if name.endswith(f"/{DIFFICULTY}")
        for shift, value in run["shifts"].items()
    ]
    frame = pd.DataFrame(rows, columns=["case", "shift", "value"])
    return frame.groupby(["case", "shift"])["value"].mean().rename(None)


def failures(record: Record) -> dict[str, str]:
    """The message of each run that failed, by its name."""
    return {name: run["failed"] for name, run in record["runs"].items() if "failed" in run}


def _scores(record: Record) -> Iterable[tuple[str, str, Any, Any]]:
    """Case, score, what was judged of it, and its run."""
    for name, run in record["runs"].items():
        for score, judged in run.get("scores", {}).items():
            yield name.split("/")[0], score, judged, run


def _pivot(rows: Iterable[tuple[str, str, str, float]]) -> pd.DataFrame:
    """Means by case, shift and score; a shift that some score lacks is left out."""
    frame = pd.DataFrame(list(rows), columns=["case", "shift", "score", "value"])
    if frame.empty:
        return pd.DataFrame()
    table = frame.pivot_table(index=["case", "shift"], columns="score", values="value", sort=False)
    known = [score for method in METHODS.values() for score in method.scores if score in table]
    return table[[*dict.fromkeys([*known, *table])]].dropna()
