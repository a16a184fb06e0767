"""What the report shows: a model's answers about a table, as plain values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bacoun.columns.column import Column
from bacoun.deferral import DeferralRule
from bacoun.tabular.explanation import Explanation

if TYPE_CHECKING:
    from bacoun.tabular import TableModel

_LISTED = 10  # rows in a list of uncertain ones


@dataclass(frozen=True)
class Scored:
    """What the model says about N rows.

    Attributes
    ----------
    probabilities : ndarray of shape (N, K)
    total, aleatoric, epistemic : ndarray of shape (N,)
        Uncertainties in nats.
    ood_score : ndarray of shape (N,)
        Unbounded; infinite where the flow overflows.
    reason : ndarray of shape (N,)
        "" if accepted, else "unfamiliar" or "ambiguous".
    projection : ndarray of shape (N, 2)
        Along the two principal components of the test rows.
    log_density : ndarray of shape (N,), or None if the model has none
    labels : ndarray of shape (N,), or None if unknown
        Index of the true class.
    """

    probabilities: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    ood_score: np.ndarray
    reason: np.ndarray
    projection: np.ndarray
    log_density: np.ndarray | None = None
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.total)

    @cached_property
    def predicted(self) -> np.ndarray:
        """Index (N,) of the most likely class."""
        return self.probabilities.argmax(axis=1)

    @cached_property
    def correct(self) -> np.ndarray | None:
        """Whether each prediction (N,) is right; None without labels."""
        return None if self.labels is None else self.predicted == self.labels

    def most_likely(self, row: int, number: int = 3) -> list[tuple[int, float]]:
        """Indices and probabilities of the most likely classes of a row."""
        order = np.argsort(-self.probabilities[row], kind="stable")[:number]
        return [(int(k), float(self.probabilities[row, k])) for k in order]


@dataclass(frozen=True)
class ReportData:
    """All that the page shows, as plain values.

    Attributes
    ----------
    names : dict
        What the "model", the "test" rows and the "ood" rows are called.
    classes : tuple of str
    about, settings, health : dict of str
    warning : str
        Why the posterior should not be trusted; "" if it has converged.
    rule : DeferralRule
    test : Scored
    ood : Scored or None
    calibration : dict of ndarray
        "ood_score" and "total" of the calibration rows.
    unfamiliar, ambiguous : dict of Explanation
        The test rows of the highest `ood_score`, those that are unfamiliar first, and those of the
        highest aleatoric uncertainty, by their index: what makes them unfamiliar or ambiguous, even
        if they are accepted.
    columns : dict of Column
        The columns that explanations name, in training.
    unseen : ndarray of bool of shape (N,)
        Test rows with something that training did not have, which are unfamiliar for that alone.
    explained_variance : tuple of float
        Shares of the two principal components.
    written : str
        When.
    """

    names: dict[str, str]
    classes: tuple[str, ...]
    about: dict[str, str]
    settings: dict[str, str]
    health: dict[str, str]
    warning: str
    rule: DeferralRule
    test: Scored
    ood: Scored | None
    calibration: dict[str, np.ndarray]
    unfamiliar: dict[int, Explanation]
    ambiguous: dict[int, Explanation]
    columns: dict[str, Column]
    unseen: np.ndarray
    explained_variance: tuple[float, float]
    written: str


def report_data(
    model: TableModel,
    test: pd.DataFrame,
    ood: pd.DataFrame | None = None,
    *,
    target: str | None = None,
    names: Mapping[str, str] | None = None,
) -> ReportData:
    """Score tables with a model, and collect all that its report shows.

    Parameters
    ----------
    model : TableModel
    test : DataFrame
        In-distribution rows, with or without labels.
    ood : DataFrame, optional
        Out-of-distribution rows.
    target : str, optional
        Column of the labels. None: the model's own, if the table has it.
    names : dict, optional
        What to call the "model", the "test" rows and the "ood" rows.
    """
    classes = tuple(str(label) for label in model.classifier.classes_)
    labels = _labels(test, target or model.target, classes, required=target is not None)
    rows = _features(test, model.target, target)
    encoded, unseen = model.encoder.transform_with_unseen(rows)
    points = model.neighborhood.coordinates(encoded)
    components, explained_variance = _principal_components(points)
    scored = _score(model, rows, points @ components.T, labels)
    scored_ood = None
    if ood is not None:
        strange = _features(ood, model.target, target)
        points = model.neighborhood.coordinates(model.encoder.transform(strange))
        scored_ood = _score(model, strange, points @ components.T)
    health, settings = model.classifier.health_, model.classifier.get_params(deep=False)
    return ReportData(
        names={"model": "model", "test": "test rows", "ood": "OOD rows", **(names or {})},
        classes=classes,
        about=_as_text({**model.made, **model.facts, "classes": None}),
        settings=_as_text({**settings, "n_jobs": None, "verbose": None}),
        health=_as_text(vars(health)),
        warning=_convergence_warning(health),
        rule=model.rule,
        test=scored,
        ood=scored_ood,
        calibration={name: model.calibration[name] for name in ("ood_score", "total")},
        unfamiliar=_explain_unfamiliar(model, rows, _least_familiar(scored)),
        ambiguous=_explain_ambiguous(model, rows, _highest(scored.aleatoric), scored.probabilities),
        columns={column.name: column for column in model.profile.used},
        unseen=unseen,
        explained_variance=explained_variance,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _labels(
    frame: pd.DataFrame, target: str, classes: Sequence[str], *, required: bool
) -> np.ndarray | None:
    """Index (N,) of the true class; None if the table has no labels and none are required."""
    if target not in frame.columns:
        if required:
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


def _features(frame: pd.DataFrame, *targets: str | None) -> pd.DataFrame:
    """The table without its labels."""
    if len(frame) == 0:
        raise ValueError("a table must have at least 1 row to report on; got 0.")
    return frame.drop(columns=[name for name in targets if name in frame.columns])


def _principal_components(points: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Two directions (2, D) and their shares of the variance; 0 where there is no variance."""
    from sklearn.decomposition import PCA

    components, shares = np.zeros((2, points.shape[1])), np.zeros(2)
    if np.ptp(points, axis=0).any():
        pca = PCA(n_components=min(2, *points.shape), random_state=0).fit(points)
        components[: pca.n_components_] = pca.components_
        shares[: pca.n_components_] = pca.explained_variance_ratio_
    return components, (float(shares[0]), float(shares[1]))


def _score(
    model: TableModel, frame: pd.DataFrame, projection: np.ndarray, labels: np.ndarray | None = None
) -> Scored:
    table = model.score(frame)
    names = ("total", "aleatoric", "epistemic", "ood_score", "log_density")
    columns = {name: table[name].to_numpy(dtype=np.float64) for name in names}
    density = columns.pop("log_density")
    return Scored(
        probabilities=table[[f"p_{name}" for name in model.classifier.classes_]].to_numpy(float),
        reason=table["reason"].fillna("").astype(str).to_numpy(),
        projection=projection,
        log_density=None if np.isnan(density).any() else density,
        labels=labels,
        **columns,
    )


def _highest(scores: np.ndarray) -> list[int]:
    """Rows of the highest scores, highest first; of equal ones the earlier."""
    return np.argsort(-scores, kind="stable")[:_LISTED].tolist()


def _least_familiar(scored: Scored) -> list[int]:
    """Rows to list as unfamiliar: those that are first, then by their score."""
    order = np.lexsort([-scored.ood_score, scored.reason != "unfamiliar"])
    return order[:_LISTED].tolist()


def _explain_unfamiliar(
    model: TableModel, frame: pd.DataFrame, rows: list[int]
) -> dict[int, Explanation]:
    """Why some rows of a table are unfamiliar, or what is least likely in those that are not."""
    listed = frame.iloc[rows]
    deferring = replace(model.rule, ood_threshold=-math.inf, class_thresholds=None)
    all_unfamiliar = replace(model, rule=deferring).explain(listed)
    pairs = zip(model.explain(listed), all_unfamiliar, strict=True)
    told = [own if own.reason == "unfamiliar" else other for own, other in pairs]
    return dict(zip(rows, told, strict=True))


def _explain_ambiguous(
    model: TableModel, frame: pd.DataFrame, rows: list[int], probabilities: np.ndarray
) -> dict[int, Explanation]:
    """The two most likely classes of some rows of a table, and the columns between them."""
    listed, encoder = frame.iloc[rows], model.encoder
    points, values = encoder.transform(listed), encoder.read(listed)
    told = model.explainer.ambiguous(points, values, probabilities[rows])
    return dict(zip(rows, told, strict=True))


def _convergence_warning(health: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        health.warn_if_not_converged()
    return " ".join(str(warning.message) for warning in caught)


def _as_text(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings and facts as text: nested ones side by side; long lists and None are left out."""
    found: dict[str, str] = {}
    for key, value in values.items():
        name = prefix + str(key).replace("_", " ")
        if isinstance(value, Mapping):
            found |= _as_text(value, f"{name}: ")
        elif isinstance(value, list | tuple | set):
            if 0 < len(value) <= 50:
                found[name] = ", ".join(map(str, value))
        elif isinstance(value, float | np.floating):
            if math.isfinite(value):
                found[name] = f"{value:.4g}"
        elif value is not None and value != "":
            found[name] = str(value)
    return found
