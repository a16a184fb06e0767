"""What the page shows: a model asked once about a table, its answers as plain values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from bacoun.deferral import DeferralRule

if TYPE_CHECKING:
    from bacoun.tabular import TableModel

_LISTED = 10  # rows in a list of uncertain ones

_TELLING = 3  # features named for each of them

_FAR = 1e6  # deviations beyond are all equally far, as for the classifier


@dataclass(frozen=True)
class Scored:
    """What the model said of N rows, and where they lie.

    Attributes
    ----------
    probabilities : ndarray of shape (N, K)
    total, aleatoric, epistemic : ndarray of shape (N,)
        In nats.
    ood_score : ndarray of shape (N,)
        How unfamiliar each row is; unbounded, and infinite where the flow overflows.
    reason : ndarray of shape (N,)
        "" if accepted, else "unfamiliar" or "ambiguous".
    places : ndarray of shape (N, 2)
        On the map.
    others : dict of ndarray of shape (N,)
        Further scores by what they are called on the page; higher is less familiar.
    labels : ndarray of shape (N,), or None if unknown
        Column of the true class.
    """

    probabilities: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    ood_score: np.ndarray
    reason: np.ndarray
    places: np.ndarray
    others: dict[str, np.ndarray] = field(default_factory=dict)
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.total)

    @property
    def predicted(self) -> np.ndarray:
        """Column (N,) of the most likely class."""
        winners: np.ndarray = self.probabilities.argmax(axis=1)
        return winners

    @property
    def correct(self) -> np.ndarray | None:
        """Whether each prediction (N,) is right; None without labels."""
        return None if self.labels is None else self.predicted == self.labels


class Telling(NamedTuple):
    """A feature of a row, and how many standard deviations it is from the training mean."""

    name: str
    value: float
    deviation: float


@dataclass(frozen=True)
class ReportData:
    """Everything on the page, as plain values.

    Attributes
    ----------
    names : dict
        What the "model", the "test" rows and the "ood" rows are called.
    classes : tuple of str
    about, settings, health : dict of str
    complaint : str
        Why the posterior should not be trusted; "" if it settled.
    rule : DeferralRule
    test : Scored
    ood : Scored or None
    calibration : dict of ndarray
        "ood_score" and "total" of the calibration rows.
    telling : dict of tuples of Telling
        By row of the test table: its most unusual features; for the most uncertain rows.
    unseen : ndarray of bool of shape (N,)
        Test rows with a category that training did not have; they are unfamiliar for that alone.
    spread : tuple of float
        Share of the variance along the two directions of the map.
    standardized : bool
        Whether deviations are from the training mean; else from 0 in the column's own units.
    written : str
        When.
    """

    names: dict[str, str]
    classes: tuple[str, ...]
    about: dict[str, str]
    settings: dict[str, str]
    health: dict[str, str]
    complaint: str
    rule: DeferralRule
    test: Scored
    ood: Scored | None
    calibration: dict[str, np.ndarray]
    telling: dict[int, tuple[Telling, ...]]
    unseen: np.ndarray
    spread: tuple[float, float]
    standardized: bool
    written: str


def report_data(
    model: TableModel,
    test: pd.DataFrame,
    ood: pd.DataFrame | None = None,
    *,
    target: str | None = None,
    names: Mapping[str, str] | None = None,
) -> ReportData:
    """Ask a model all that its report shows.

    Parameters
    ----------
    model : TableModel
    test : DataFrame
        Rows as the model was fitted on, with or without labels.
    ood : DataFrame, optional
        Rows that come from elsewhere.
    target : str, optional
        Column of the labels. None: the model's own, if the table has it.
    names : dict, optional
        What to call the "model", the "test" rows and the "ood" rows.
    """
    classes = tuple(str(label) for label in model.classifier.classes_)
    labels = _labels(test, target or model.target, classes, wanted=target is not None)
    inside, outside = (_features(frame, model.target, target) for frame in (test, ood))
    assert inside is not None  # for mypy: only ood may be None
    encoded, unseen = _standardised(model, inside)
    encoded_ood = None if outside is None else _standardised(model, outside)[0]
    places, places_ood, spread = _places(encoded, encoded_ood)
    scored = _scored(model.score(inside), classes, places, labels)
    scored_ood = None
    if outside is not None and places_ood is not None:
        scored_ood = _scored(model.score(outside), classes, places_ood, None)
    listed = {*highest(scored.ood_score).tolist(), *highest(scored.aleatoric).tolist()}
    health = model.classifier.health_
    return ReportData(
        names={"model": "model", "test": "test rows", "ood": "OOD rows", **(names or {})},
        classes=classes,
        about=_words({**model.made, **_without(model.facts, "classes")}),
        settings=_words(_settings(model.classifier)),
        health={k: text for k, v in vars(health).items() for text in _words({k: v}).values()},
        complaint=_complaint(health),
        rule=model.rule,
        test=scored,
        ood=scored_ood,
        calibration={name: model.calibration[name] for name in ("ood_score", "total")},
        telling={row: _telling(model, encoded[row]) for row in listed},
        unseen=unseen,
        spread=spread,
        standardized=bool(model.classifier.standardize),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _labels(
    frame: pd.DataFrame, target: str, classes: Sequence[str], *, wanted: bool
) -> np.ndarray | None:
    """Column (N,) of the true class; None if the table has no labels and none were asked for."""
    if target not in frame.columns:
        if wanted:
            raise ValueError(
                f"target must be a column of the test table; it has no {target!r}. "
                f"Its columns are {', '.join(map(repr, list(frame.columns)[:10]))}."
            )
        return None
    column = frame[target]
    if column.isna().any():
        row = int(np.argmax(column.isna())) + 1
        raise ValueError(
            f"each row must have a label in {target!r}, or none; row {row} has none. Drop such "
            "rows, or the whole column."
        )
    for spelled in (str, _as_number):
        known = [spelled(name) for name in classes]
        given = [spelled(value) for value in column.tolist()]
        if len(set(known)) == len(known) and set(given) <= set(known):
            return np.asarray(pd.Index(known).get_indexer(pd.Index(given)), dtype=np.int64)
    strange = sorted(set(given) - set(known))
    raise ValueError(
        f"labels in {target!r} must be classes of the model, {', '.join(classes[:10])}; got "
        f"{', '.join(strange[:5])}. Rows of other classes are out of distribution: pass them as "
        "ood."
    )


def _as_number(value: object) -> str:
    """A label as text, however the file spelled it: 1, 1.0 and "1" are one class."""
    whole = str(value).removesuffix(".0")
    return whole if whole.lstrip("-").isdigit() else str(value)


def _features(frame: pd.DataFrame | None, *targets: str | None) -> pd.DataFrame | None:
    """The table without its labels, if it has any rows."""
    if frame is None:
        return None
    if len(frame) == 0:
        raise ValueError("a table must have at least 1 row to report on; got 0.")
    return frame.drop(columns=[name for name in targets if name in frame.columns])


def _standardised(model: TableModel, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Encoded features (N, D) as deviations from the training mean; rows (N,) of new categories."""
    encoded, unseen = model.encoder.transform_with_unseen(frame)
    with np.errstate(over="ignore"):
        deviations = (encoded - model.classifier.mean_) / model.classifier.scale_
    return np.nan_to_num(np.clip(deviations, -_FAR, _FAR)), unseen


def _places(
    test: np.ndarray, ood: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, tuple[float, float]]:
    """Places of all rows in the two directions in which the test rows differ most."""
    from sklearn.decomposition import PCA

    if np.ptp(test, axis=0).max() == 0:  # one row, or the same again and again
        empty = None if ood is None else np.zeros((len(ood), 2))
        return np.zeros((len(test), 2)), empty, (0.0, 0.0)
    pca = PCA(n_components=min(2, *test.shape), random_state=0).fit(test)
    missing = 2 - pca.n_components_
    shares = np.pad(pca.explained_variance_ratio_, (0, missing))
    both = [
        None if each is None else np.pad(pca.transform(each), ((0, 0), (0, missing)))
        for each in (test, ood)
    ]
    return np.asarray(both[0]), both[1], (float(shares[0]), float(shares[1]))


def _scored(
    table: pd.DataFrame, classes: Sequence[str], places: np.ndarray, labels: np.ndarray | None
) -> Scored:
    names = ("total", "aleatoric", "epistemic", "ood_score", "log_density")
    columns = {name: table[name].to_numpy(dtype=np.float64) for name in names}
    density = columns.pop("log_density")
    others = {} if np.isnan(density).any() else {"low density": -density}
    return Scored(
        probabilities=table[[f"p_{name}" for name in classes]].to_numpy(dtype=np.float64),
        reason=table["reason"].fillna("").astype(str).to_numpy(),
        places=places,
        others=others,
        labels=labels,
        **columns,
    )


def highest(scores: np.ndarray) -> np.ndarray:
    """Rows of the highest scores, highest first; the earlier of equals."""
    return np.argsort(-scores, kind="stable")[:_LISTED]


def _telling(model: TableModel, deviations: np.ndarray) -> tuple[Telling, ...]:
    """The features that are furthest from the training mean."""
    first = np.argsort(-np.abs(deviations), kind="stable")[:_TELLING]
    names, classifier = model.encoder.feature_names_, model.classifier
    values = classifier.mean_ + classifier.scale_ * deviations
    return tuple(Telling(str(names[i]), float(values[i]), float(deviations[i])) for i in first)


def _settings(classifier: Any) -> dict[str, Any]:
    """Those that change what the model is, not how it was watched."""
    return _without(classifier.get_params(deep=False), "n_jobs", "verbose")


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _complaint(health: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        health.warn_if_unsettled()
    return " ".join(str(warning.message) for warning in caught)


def _words(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Settings and facts as text: nested ones side by side, long lists and unknowns left out."""
    found: dict[str, str] = {}
    for key, value in values.items():
        name = before + str(key).replace("_", " ")
        if isinstance(value, Mapping):
            found |= _words(value, f"{name}: ")
        elif isinstance(value, list | tuple | set):
            if 0 < len(value) <= 50:
                found[name] = ", ".join(map(str, value))
        elif isinstance(value, float | np.floating):
            if math.isfinite(value):
                found[name] = f"{value:.4g}"
        elif value is not None and value != "":
            found[name] = str(value)
    return found
