"""What the report shows: a model's answers about a table, as plain values."""

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from bacoun.columns.column import Column
from bacoun.columns.photo_files import data_uri
from bacoun.deferral import DeferralRule
from bacoun.encoders import PhotoError, thumbnail
from bacoun.tabular.explanation import Explanation
from bacoun.tabular.model import TableModel
from bacoun.tabular.scored_rows import ScoredRows

_LISTED = 10  # rows in a list of uncertain ones


@dataclass(frozen=True)
class ReportData:
    """All that the page shows, as plain values."""

    names: dict[str, str]  # what the "model", the "test" rows and the "ood" rows are called
    classes: tuple[str, ...]
    about: dict[str, str]
    settings: dict[str, str]
    health: dict[str, str]
    warning: str  # why the posterior should not be trusted; "" if it has converged
    rule: DeferralRule
    test: ScoredRows
    ood: ScoredRows | None
    calibration: dict[str, np.ndarray]  # "ood_score" and "total" of the calibration rows
    unfamiliar: dict[int, Explanation]  # by index, of the highest ood_score, unfamiliar ones first
    ambiguous: dict[int, Explanation]  # of the highest aleatoric uncertainty; both even if accepted
    columns: dict[str, Column]  # as in training, those that explanations name
    on_map: list[np.ndarray]  # test rows, then OOD rows, along two principal components (N, 2)
    explained_variance: tuple[float, float]  # shares of these components
    written: str  # when
    # Of these rows, by index and column: texts, and small photos as data URIs.
    items: dict[int, dict[str, str]] = field(default_factory=dict)


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
        Asked once about each table.
    test, ood : DataFrame
        In-distribution rows, with or without labels, and out-of-distribution rows, if any.
    target : str, optional
        Column of the labels. None: the model's own, if the table has it.
    names : dict, optional
        What to call the "model", the "test" rows and the "ood" rows.
    """
    classes = tuple(str(label) for label in model.classes)
    truth = _labels(test, target or model.target, classes, required=target is not None)
    inputs = [_features(table, model.target, target) for table in (test, ood) if table is not None]
    scored, *others = [model.score_rows([table])[0] for table in inputs]
    points = [model.coordinates(rows) for rows in (scored, *others)]
    settings = model.classifier.get_params(deep=False)
    components, explained_variance = _principal_components(points[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.health.warn_if_not_converged()
    unfamiliar, ambiguous = _explain_unfamiliar(model, scored), _explain_ambiguous(model, scored)
    return ReportData(
        names={"model": "model", "test": "test rows", "ood": "OOD rows", **(names or {})},
        classes=classes,
        about=_as_text({**model.made, **model.facts, "classes": None}),
        settings=_as_text({**settings, "n_jobs": None, "verbose": None}),
        health=_as_text(vars(model.health)),
        warning=" ".join(str(warning.message) for warning in caught),
        rule=model.rule,
        test=replace(scored, truth=truth),
        ood=others[0] if others else None,
        calibration={name: model.calibration[name] for name in ("ood_score", "total")},
        unfamiliar=unfamiliar,
        ambiguous=ambiguous,
        columns={column.name: column for column in model.profile.used},
        on_map=[rows @ components.T for rows in points],
        explained_variance=explained_variance,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        items=_items(model, scored, sorted({*unfamiliar, *ambiguous})),
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
    if len(frame) == 0:
        raise ValueError("a table must have at least 1 row to report on; got 0.")
    return frame.drop(columns=[name for name in targets if name in frame.columns])


def _principal_components(points: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Two directions (2, D) and their shares of the variance; 0 where there is no variance."""
    components, shares = np.zeros((2, points.shape[1])), np.zeros(2)
    if np.ptp(points, axis=0).any():
        pca = PCA(n_components=min(2, *points.shape), random_state=0).fit(points)
        components[: pca.n_components_] = pca.components_
        shares[: pca.n_components_] = pca.explained_variance_ratio_
    return components, (float(shares[0]), float(shares[1]))


def _explain_unfamiliar(model: TableModel, scored: ScoredRows) -> dict[int, Explanation]:
    """Why rows are unfamiliar; then, by score, what is least likely in those that are not."""
    order = np.lexsort([-scored.evaluation.ood_score, scored.reason != "unfamiliar"])
    rows = order[:_LISTED]
    listed = scored.take(rows)
    # By a rule that finds nothing familiar, no repairs suffice and all columns are ranked.
    strict = replace(model.rule, ood_threshold=-math.inf, class_thresholds=None)
    ranked = replace(model, rule=strict).explain_rows(listed.decided(strict))
    pairs = zip(model.explain_rows(listed), ranked, strict=True)
    explained = [own if own.reason == "unfamiliar" else other for own, other in pairs]
    return dict(zip(rows.tolist(), explained, strict=True))


def _explain_ambiguous(model: TableModel, scored: ScoredRows) -> dict[int, Explanation]:
    """The two most likely classes of the most ambiguous rows, and the columns between them."""
    rows = np.argsort(-scored.evaluation.aleatoric, kind="stable")[:_LISTED]
    explained = model.explainer.ambiguous(scored.take(rows))
    return dict(zip(rows.tolist(), explained, strict=True))


def _items(model: TableModel, scored: ScoredRows, rows: list[int]) -> dict[int, dict[str, str]]:
    """Texts, and small photos as data URIs, of some rows; a gap or a bad photo has none."""
    found: dict[int, dict[str, str]] = {row: {} for row in rows}
    values = model.encoder.read(scored.frame.iloc[rows]) if model.known else {}
    for name in model.known:
        is_photo = next(c.kind for c in model.columns if c.name == name) == "photo"
        for row, item in zip(rows, values[name], strict=True):
            with suppress(PhotoError):
                if item is not None:
                    found[row][name] = data_uri(thumbnail(item)) if is_photo else item
    return found


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
