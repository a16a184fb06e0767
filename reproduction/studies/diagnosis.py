"""A diagnosis under a natural shift: who is deferred, what is wrong, and what it costs.

A model learns from patients up to an age and is asked about others like them and about older ones.
Each patient is answered or deferred to a physician; a wrong answer costs more than a deferral.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bacoun.tabular import TableModel
from reproduction.datasets.frames import load_frame
from reproduction.results import Measured
from reproduction.schema import Experiment

COST_OF_ERROR = 10.0  # deferrals
_TEST_SHARE = 0.3
_N_EXPLAINED = 50


class Decided(NamedTuple):
    """What a method makes of N patients: answers, and which are unfamiliar, (N,) each."""

    winners: np.ndarray
    probabilities: np.ndarray  # (N, K)
    unfamiliar: np.ndarray


def diagnosis(experiment: Experiment, method: str, seed: int) -> Measured:
    """Numbers of each group, "known" and "older".

    A patient is deferred if unfamiliar, or if the expected cost of the answer exceeds that of a
    deferral. `answered` is the share of others, `error` that of wrong answers among them, `cost`
    the mean cost of a patient in units of a deferral, `unfamiliar` the share of these, and
    `explained` that of unfamiliar ones of whom the shifted column is named first.
    """
    settings = experiment.dataset
    target, column = settings["target"], settings["column"]
    train, groups = _split(settings, seed)
    numbers: dict[str, Any] = {}
    if experiment.methods[method]["kind"] == "forest":
        decide = _by_forest(train, target, seed)
    else:
        model = TableModel.fit(train, target, random_state=seed, max_error=None)
        decide = _by_model(model)
        numbers["explained"] = {"older": _named_first(model, groups["older"], column)}
    for name, rows in groups.items():
        decided = decide(rows.drop(columns=target))
        risky = COST_OF_ERROR * (1 - decided.probabilities.max(axis=1)) > 1
        deferred = decided.unfamiliar | risky
        wrong = (decided.winners != rows[target].to_numpy()) & ~deferred
        measured = {
            "answered": 1 - deferred.mean(),
            "error": wrong.sum() / max(1, (~deferred).sum()),
            "cost": deferred.mean() + COST_OF_ERROR * wrong.mean(),
            "unfamiliar": decided.unfamiliar.mean(),
        }
        for measure, value in measured.items():
            numbers.setdefault(measure, {})[name] = float(value)
    return numbers, {}


def _split(settings: dict[str, Any], seed: int) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Rows to learn from, and the two groups that are asked about."""
    frame, target = load_frame(settings["table"])
    is_known = frame[settings["column"]] <= settings["oldest"]
    known = frame[is_known]
    train, test = train_test_split(
        known, test_size=_TEST_SHARE, stratify=known[target], random_state=seed
    )
    return train, {"known": test, "older": frame[~is_known]}


def _by_model(model: TableModel) -> Callable[[pd.DataFrame], Decided]:
    def decide(rows: pd.DataFrame) -> Decided:
        scored = model.score(rows)
        names = [f"p_{label}" for label in model.classifier.classes_]
        unfamiliar = (scored["reason"] == "unfamiliar").to_numpy()
        return Decided(scored["prediction"].to_numpy(), scored[names].to_numpy(), unfamiliar)

    return decide


def _by_forest(train: pd.DataFrame, target: str, seed: int) -> Callable[[pd.DataFrame], Decided]:
    one_hot = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer(
        (one_hot, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    forest = make_pipeline(columns, RandomForestClassifier(n_estimators=500, random_state=seed))
    forest.fit(train.drop(columns=target), train[target])

    def decide(rows: pd.DataFrame) -> Decided:
        probabilities = forest.predict_proba(rows)
        winners = forest.classes_[probabilities.argmax(axis=1)]
        return Decided(winners, probabilities, np.zeros(len(rows), dtype=bool))

    return decide


def _named_first(model: TableModel, rows: pd.DataFrame, column: str) -> float | None:
    """Share of unfamiliar rows, at most 50 of them, whose explanation names the column first."""
    unfamiliar = rows[(model.score(rows)["reason"] == "unfamiliar").to_numpy()]
    if len(unfamiliar) == 0:
        return None
    first = [why.surprises[:1] for why in model.explain(unfamiliar.head(_N_EXPLAINED))]
    return float(np.mean([bool(named) and named[0].column == column for named in first]))
