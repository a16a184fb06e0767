"""The report of a model on a test table: one HTML page that needs nothing but itself.

`report_data` asks the model once; `render_page` turns what it said into text; `write_page` puts
that on disk, whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from bacoun.deferral import DeferralRule
from bacoun.report.charts import (
    Axis,
    Figure,
    Html,
    Plot,
    between,
    boxes,
    bullets,
    chart,
    exact,
    facts,
    folded,
    joined,
    of,
    percent,
    rows,
    small,
    swatch,
    table,
    tag,
)
from bacoun.uncertainty import (
    augrc,
    aupr,
    aurc,
    auroc,
    coverage_at_risk,
    expected_calibration_error,
    fpr_at_tpr,
    negative_log_likelihood,
    risk_at_coverage,
    risk_coverage,
)

if TYPE_CHECKING:
    from bacoun.tabular import TableModel

_DRAWN = 2000  # points in a chart; more hide each other
_LISTED = 10  # rows in a list of uncertain ones
_TELLING = 3  # features named for each of them
_BINS = 15  # of confidence, as in expected_calibration_error
_LEVELS = 5  # shades of the map
_TOLD_APART = 6  # fine lines in a chart
_FAR = 1e6  # deviations beyond are all equally far, as for the classifier
_UNFOLDED = 12  # classes in a table that is not folded away

OUTCOMES = {
    "": ("accepted", "the prediction is used as it is"),
    "unfamiliar": ("unfamiliar", "nothing like it was seen in training"),
    "ambiguous": ("ambiguous", "it looks familiar, but the classes overlap here"),
}

_HEALTH = {
    "inference": ("inference", "how the posterior over classifiers was found"),
    "n_draws": ("draws", "classifiers drawn from it, which vote on every row"),
    "dimensions": ("dimensions", "weights that were inferred"),
    "n_chains": ("chains", "run side by side"),
    "rhat": ("R-hat", "do the chains agree? 1.00 is perfect"),
    "rhat_iid": ("R-hat by chance", "what perfect draws would show"),
    "ess": ("effective draws", "independent draws the chains are worth, at the worst place seen"),
    "ess_squares": ("effective draws, spread", "the same for what epistemic uncertainty rests on"),
    "acceptance": ("acceptance", "share of proposed moves that were taken"),
    "divergences": ("divergences", "moves that went astray; a few are harmless"),
    "seconds": ("seconds", "time that the inference took"),
}

_FACTS = {
    "rows": "rows given",
    "training rows": "rows learned from",
    "calibration rows": "rows kept aside",
    "accuracy": "accuracy, rows kept aside",
    "auc": "AUC, rows kept aside",
    "ece": "ECE, rows kept aside",
    "quick": "for a first look",
    "data digest": "fingerprint of the table",
}

_OTHERS = {"ood_probability": "probability of being OOD", "log_density": "low density"}
_NONE = "\N{EN DASH}"


# --- what the page shows -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    """What the model said of N rows, and where they lie.

    Attributes
    ----------
    probabilities : ndarray of shape (N, K)
    total, aleatoric, epistemic : ndarray of shape (N,)
        In nats.
    reason : ndarray of shape (N,)
        "" if accepted, else "unfamiliar" or "ambiguous".
    places : ndarray of shape (N, 2)
        On the map.
    others : dict of ndarray of shape (N,)
        Further scores by name; higher is less familiar.
    labels : ndarray of shape (N,), or None if unknown
        Column of the true class.
    """

    probabilities: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
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
        "epistemic" and "total" of the calibration rows, if they are known.
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
    calibration: pd.DataFrame | None = None,
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
    calibration : DataFrame, optional
        With columns "epistemic" and "total": scores of the calibration rows.
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
    listed = {*_highest(scored.epistemic).tolist(), *_highest(scored.aleatoric).tolist()}
    health = model.classifier.health_
    return ReportData(
        names={"model": "model", "test": "test rows", "ood": "OOD rows", **(names or {})},
        classes=classes,
        about=_words({key: value for key, value in model.facts.items() if key != "classes"}),
        settings=_words(_settings(model.classifier)),
        health={k: text for k in _HEALTH for text in _words({k: getattr(health, k)}).values()},
        complaint=_complaint(health),
        rule=model.rule,
        test=scored,
        ood=scored_ood,
        calibration=_finite(calibration, ("epistemic", "total")),
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
    others = _finite(table, ("ood_probability", "log_density"))
    if "log_density" in others:
        others["log_density"] = -others["log_density"]
    columns = {
        name: table[name].to_numpy(dtype=np.float64) for name in ("total", "aleatoric", "epistemic")
    }
    return Scored(
        probabilities=table[[f"p_{name}" for name in classes]].to_numpy(dtype=np.float64),
        reason=table["reason"].fillna("").astype(str).to_numpy(),
        places=places,
        others=others,
        labels=labels,
        **columns,
    )


def _finite(table: pd.DataFrame | None, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Those of the columns that are there and hold nothing but numbers."""
    if table is None:
        return {}
    found = {n: table[n].to_numpy(dtype=np.float64) for n in names if n in table.columns}
    return {name: values for name, values in found.items() if np.isfinite(values).all()}


def _highest(scores: np.ndarray) -> np.ndarray:
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
    params = classifier.get_params(deep=False)
    return {key: value for key, value in params.items() if key not in ("n_jobs", "verbose")}


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


# --- the sections --------------------------------------------------------------------------------


def _summary(data: ReportData) -> Html:
    test, n = data.test, len(data.test)
    accepted = test.reason == ""
    n_accepted = int(accepted.sum())
    unfamiliar, ambiguous = (int((test.reason == key).sum()) for key in ("unfamiliar", "ambiguous"))
    share = n_accepted / n
    why = f"It accepts its own prediction for {of(n_accepted, n)}."
    figures = [Figure("accepted-share", "Answered by the model", share, percent(share), why)]
    text = f"Of {rows(n)} the model answers {n_accepted:,} by itself"
    if test.correct is not None and n_accepted:
        right = int(test.correct[accepted].sum())
        text += f", and {right:,} of these answers {'is' if right == 1 else 'are'} right"
        share = right / n_accepted
        why = (
            f"{right:,} of {n_accepted:,} accepted predictions were right; on more such rows "
            f"{between(right, n_accepted)}, with 95 % confidence."
        )
        figures.append(
            Figure("accepted-accuracy", "Right among accepted", share, percent(share), why)
        )
    text += (
        f". It hands {n - n_accepted:,} to a person: {unfamiliar:,} as unfamiliar, because nothing "
        f"like it was seen in training, and {ambiguous:,} as ambiguous, because the classes "
        "overlap there."
    )
    share, why = 1 - n_accepted / n, f"{unfamiliar:,} unfamiliar and {ambiguous:,} ambiguous rows."
    figures.append(Figure("deferred-share", "Handed to a person", share, percent(share), why))
    if data.ood is not None:
        deferred = data.ood.reason != ""
        share, why = float(deferred.mean()), f"{of(deferred.sum(), len(data.ood))} from elsewhere."
        figures.append(Figure("ood-deferred", "OOD rows deferred", share, percent(share), why))
    return joined([tag("p", text, class_="lead"), boxes(*figures)])


def _about(data: ReportData) -> Html:
    shown = ", ".join(data.classes[:_UNFOLDED])
    if len(data.classes) > _UNFOLDED:
        shown += f" and {len(data.classes) - _UNFOLDED} more"
    about = {"classes": f"{len(data.classes)}: {shown}"}
    about |= {_FACTS.get(key, key): value for key, value in data.about.items()}
    about |= {"rows kept aside": f"{data.rule.n_calibration:,}, for the deferral rule"}
    verdict = data.complaint or (
        "The posterior is in order: nothing in its diagnostics speaks against trusting it."
    )
    lines = [
        [name, data.health[key], meaning]
        for key, (name, meaning) in _HEALTH.items()
        if key in data.health
    ]
    pair = (
        tag("div", tag("h3", "What it is"), facts(about)),
        tag("div", tag("h3", "Settings"), facts(data.settings)),
    )
    return joined(
        [
            tag("div", *pair, class_="pair"),
            tag("h3", "Health"),
            tag("p", verdict, class_="warning" if data.complaint else None),
            table(["quantity", "value", "what it says"], lines, numeric=[1], long=2),
        ]
    )


def _accuracy(data: ReportData) -> Html:
    test = data.test
    if test.labels is None or test.correct is None:
        return _no_labels("accuracy cannot be measured")
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


def _plane(data: ReportData) -> Html:
    test, top = data.test, math.log(len(data.classes))
    x = Axis.nats("aleatoric uncertainty, nats", [test.aleatoric], top)
    y = Axis.nats("epistemic uncertainty, nats", [test.epistemic], top)
    plot = Plot("Epistemic against aleatoric uncertainty", x, y, height=340)
    drawn, right = _sample(len(test)), test.correct
    legend = []
    if data.ood is not None:
        some = _sample(len(data.ood))
        plot.dots(data.ood.aleatoric[some], data.ood.epistemic[some], "outside")
        legend = [(swatch("outside"), data.names["ood"])]
    if right is None:
        plot.dots(test.aleatoric[drawn], test.epistemic[drawn], "right")
        legend.insert(0, (swatch("right"), "test rows"))
    else:
        good, bad = drawn[right[drawn]], drawn[~right[drawn]]
        plot.dots(test.aleatoric[good], test.epistemic[good], "right")
        names = [_named(data, row) for row in bad.tolist()]
        plot.crosses(test.aleatoric[bad], test.epistemic[bad], "wrong", names)
        legend = [(swatch("right"), "right"), (swatch("wrong", "cross"), "wrong"), *legend]
    caption = "The rule sets no limits here."
    if _draw_limits(plot, data.rule):
        legend.append((swatch("limit", "line"), "limits of the deferral rule"))
        caption = "Rows above or to the right of the broken lines are deferred."
    caption += (
        " Both axes are logarithmic; what lies below their first mark is drawn at the edge."
        f"{_thinned(len(test))}"
    )
    return chart(plot, caption, legend, aside=_reading_the_plane(test))


def _reading_the_plane(test: Scored) -> Html:
    """What the corners mean, and how many confident mistakes there are."""
    lines = [
        "Bottom left: the model is sure, and has reason to be.",
        "Right: the classes overlap. More rows of the same kind would not help; better features "
        "might.",
        "Top: unlike what was seen. More such rows in training would help.",
    ]
    if test.correct is None:
        return joined([bullets(lines), _no_labels("right is not told from wrong")])
    wrong = ~test.correct
    if not wrong.any():
        return bullets([*lines, "There is no mistake among these rows."])
    missed = int((wrong & (test.reason == "")).sum())
    lines.append(
        f"A mistake at the bottom left is one that nobody would look at: {missed:,} of "
        f"{rows(int(wrong.sum()), 'mistake')} {'was' if missed == 1 else 'were'} accepted. "
        "Point at a cross to see its row."
    )
    return bullets(lines)


def _named(data: ReportData, row: int) -> str:
    test = data.test
    text = f"row {row + 1:,}: predicted {data.classes[test.predicted[row]]}"
    return text if test.labels is None else f"{text}, is {data.classes[test.labels[row]]}"


def _total_limit(rule: DeferralRule) -> float:
    """Largest total uncertainty that is accepted; infinite if all, negative if none is."""
    if rule.acceptance is None:
        return math.inf
    return -1.0 if rule.acceptance.threshold is None else rule.acceptance.threshold


def _own_limits(rule: DeferralRule) -> list[float]:
    """Limits of single classes, if they are few enough to be told apart in a chart."""
    limits = sorted((rule.class_thresholds or {}).values())
    return limits if len(limits) <= _TOLD_APART else []


def _draw_limits(plot: Plot, rule: DeferralRule) -> bool:
    """The edges of the accepted region on the plane; False if there are none to see."""
    limits = [rule.epistemic_threshold, *_own_limits(rule)]
    seen = [limit for limit in limits if plot.y.low < limit < plot.y.high]
    for limit in seen:
        kind = "limit" if limit == rule.epistemic_threshold else "faint"
        plot.line([plot.x.low, plot.x.high], [limit, limit], kind)
    total = _total_limit(rule)
    if plot.x.low < total < math.inf:
        aleatoric = np.geomspace(plot.x.low, min(total, plot.x.high), 200)
        plot.line(aleatoric, total - aleatoric, "limit")
    return bool(seen) or plot.x.low < total < math.inf


def _familiar(data: ReportData) -> Html:
    limits = {"epistemic": data.rule.epistemic_threshold, "total": _total_limit(data.rule)}
    charts = (_distribution(data, part, limit) for part, limit in limits.items())
    note: object = ""
    if not data.calibration:
        words = (
            "The model keeps the limits that its calibration rows gave, not their scores; they "
            "are not drawn."
        )
        note = tag("p", words, class_="note")
    if data.ood is None:
        words = (
            "No rows from elsewhere were given (--ood), so how well such rows are found was not "
            "measured."
        )
        detection = tag("p", words, class_="note")
    else:
        detection = _detection(data, data.ood)
    return joined([tag("div", *charts, class_="pair"), note, detection])


def _distribution(data: ReportData, part: str, limit: float) -> Html:
    """Histograms of one uncertainty, a band for each set of rows."""
    sets = {"calibration": data.calibration.get(part), "test": getattr(data.test, part)}
    sets["OOD"] = None if data.ood is None else getattr(data.ood, part)
    bands = {name: values for name, values in sets.items() if values is not None}
    highest, n = math.log(len(data.classes)), len(bands)
    axis = Axis.nats(f"{part} uncertainty, nats", bands.values(), highest)
    across = Axis("", 0.0, float(n), blank=True)
    plot = Plot(f"Distribution of {part} uncertainty", axis, across, height=66 + 78 * n)
    edges = np.geomspace(axis.low, axis.high, 41)
    edges[[0, -1]] = axis.low, axis.high
    limited = 0 <= limit < math.inf
    own = sorted((data.rule.class_thresholds or {}).values()) if part == "epistemic" else []
    for threshold in _own_limits(data.rule) if own else []:
        plot.vertical(threshold, "faint")
    labels = []
    for floor, (name, values) in zip(range(n - 1, -1, -1), bands.items(), strict=True):
        counts, _ = np.histogram(np.clip(values, axis.low, axis.high), edges)
        plot.bars(edges, 0.68 * counts / counts.max(), floor, name.lower())
        words = f"{name}: {rows(len(values))}"
        if limited:
            words += f", {percent(float((values > limit).mean()))} above the limit"
        labels.append((floor + 0.8, words))
    if limited:
        plot.vertical(limit, "limit")
    for height, words in labels:
        plot.text(axis.low * 1.05, height, words)
    if limited:
        caption = f"The broken line is the limit of the rule, {small(limit)} nats."
    else:
        caption = "The rule sets no limit here."
    if own:
        caption += (
            f" Single classes have limits of their own, {small(own[0])} to {small(own[-1])} nats, "
            "which go first."
        )
    return chart(plot, f"{caption} Bars are shares within each set; the axis is logarithmic.")


def _detection(data: ReportData, ood: Scored) -> Html:
    """How well OOD rows are told from test rows, by each score there is."""
    inside, outside = data.test.epistemic, ood.epistemic
    area, precision = auroc(inside, outside), aupr(inside, outside)
    alarms = fpr_at_tpr(inside, outside)
    why_area = (
        f"Of a test row and an OOD row, the OOD row has the higher epistemic uncertainty in "
        f"{percent(area)} of pairs; 50 % is chance."
    )
    why_alarms = (
        f"To flag 95 of 100 OOD rows, {percent(alarms)} of the test rows would be flagged as well."
    )
    why_precision = (
        "Mean share of OOD rows among the rows flagged, from the strictest limit on; "
        f"{percent(len(ood) / (len(ood) + len(data.test)))} is chance here."
    )
    figures = boxes(
        Figure("auroc", "AUROC", area, f"{area:.3f}", why_area),
        Figure("fpr95", "False alarms at 95 % found", alarms, percent(alarms), why_alarms),
        Figure("aupr", "AUPR", precision, f"{precision:.3f}", why_precision),
    )
    scores = {"epistemic": (inside, outside), "total": (data.test.total, ood.total)}
    for key, words in _OTHERS.items():
        if key in data.test.others and key in ood.others:
            scores[words] = (data.test.others[key], ood.others[key])
    lines = [
        [name, f"{auroc(a, b):.3f}", percent(fpr_at_tpr(a, b)), f"{aupr(a, b):.3f}"]
        for name, (a, b) in scores.items()
    ]
    heads = ["score", "AUROC", "false alarms at 95 % found", "AUPR"]
    by_others = folded("The same by other scores", table(heads, lines, numeric=[1, 2, 3]))
    return joined([tag("h3", f"Test rows against {data.names['ood']}"), figures, by_others])


def _risk(data: ReportData) -> Html:
    if data.test.correct is None:
        return _no_labels("the risk of a mistake cannot be measured")
    scores, right, n = data.test.total, data.test.correct, len(data.test)
    error = 1 - float(right.mean())
    at_80, at_5 = risk_at_coverage(scores, right, 0.8), coverage_at_risk(scores, right, 0.05)
    area, general, best = aurc(scores, right), augrc(scores, right), aurc(~right, right)
    why_80 = (
        f"Answering the surest 80 of 100 rows, {percent(at_80)} of the answers would be wrong; "
        f"answering all, {percent(error)}."
    )
    why_5 = f"{of(round(at_5 * n), n)} can be answered with at most 5 of 100 answers wrong."
    why_area = (
        "Mean share of mistakes over answering 1, 2, ... rows, the surest first. In perfect order "
        f"{small(best)}, in random order {small(error)}."
    )
    why_general = (
        "Chance that a row is a mistake and still answered, the limit being random. In perfect "
        f"order {small(error**2 / 2)}, in random order {small(error / 2)}."
    )
    figures = boxes(
        Figure("risk-80", "Mistakes at 80 % coverage", at_80, percent(at_80), why_80),
        Figure("coverage-5", "Coverage at 5 % mistakes", at_5, percent(at_5), why_5),
        Figure("aurc", "AURC", area, small(area), why_area),
        Figure("augrc", "AUGRC", general, small(general), why_general),
    )
    words = (
        "Here rows are answered in the order of their total uncertainty, the surest first. These "
        "are measurements on the test rows, not promises for others."
    )
    return joined([tag("p", words), figures, _risk_chart(data.test, right, error)])


def _risk_chart(test: Scored, right: np.ndarray, error: float) -> Html:
    coverages, risks = risk_coverage(test.total, right)
    kept = np.unique(np.linspace(0, len(risks) - 1, 600).astype(int))
    # A mistake among the very first rows would set the scale for all others.
    top = min(1.0, 1.15 * max(risks[coverages >= 0.1].max(), 1.5 * error, 0.02))
    plot = Plot(
        "Share of mistakes against share of rows answered",
        Axis("share of rows answered", 0.0, 1.0, percent=True),
        Axis("share of mistakes", 0.0, top, percent=True),
    )
    reach = np.linspace(max(1 - error, 1e-6), 1, 50)
    plot.line([0, 1], [error, error], "other")
    plot.line([0, *reach], [0, *(1 - (1 - error) / reach)], "ideal")
    plot.steps(np.append(coverages[kept], 1.0), np.append(risks[kept], risks[-1]), "main")
    legend = [
        (swatch("main", "line"), "this model"),
        (swatch("ideal", "line"), "perfect order"),
        (swatch("other", "line"), "random order"),
    ]
    accepted = test.reason == ""
    if accepted.any():
        wrong = 1 - float(right[accepted].mean())
        plot.bubbles(np.array([accepted.mean()]), np.array([wrong]), np.array([0.2]), "ring")
        legend.append((swatch("ring", "ring"), "the deferral rule"))
    lines = [
        [f"{share:.0%}".replace("%", " %"), percent(risk_at_coverage(test.total, right, share))]
        for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
    ]
    numbers = table(["rows answered", "mistakes among them"], lines, numeric=[0, 1])
    caption = "Further left, fewer rows are answered and more are handed on."
    return chart(plot, caption, legend, aside=numbers)


def _deferral(data: ReportData) -> Html:
    test = data.test
    heads = ["outcome", "rows", "share"]
    lines = [_outcome(test, key, f"rows-{name}") for key, (name, _) in OUTCOMES.items()]
    lines.append(_outcome(test, None, "rows-all"))
    caption = f"What the rule does with {data.names['test']}."
    known = heads if test.labels is None else [*heads, "right"]
    parts = [table(known, lines, numeric=[1, 2, 3], caption=caption, last_is_sum=True)]
    if test.labels is None:
        parts.append(_no_labels("how many of these answers are right cannot be told"))
    if data.ood is not None:
        lines = [_outcome(data.ood, key, f"ood-{name}") for key, (name, _) in OUTCOMES.items()]
        caption = f"The same for {data.names['ood']}: ideally none is accepted."
        parts.append(table(heads, lines, numeric=[1, 2], caption=caption))
    if data.unseen.any():
        words = (
            f"{of(data.unseen.sum(), len(test))} with a category that training did not have: "
            "unfamiliar for that alone, whatever the uncertainty."
        )
        parts.append(tag("p", words, class_="note"))
    by_class = _by_class(data)
    if len(data.classes) > _UNFOLDED:
        by_class = folded(f"By predicted class ({len(data.classes)} classes)", by_class)
    summary = data.rule.summary().splitlines()
    if data.rule.class_thresholds is not None:
        numbered = ", ".join(f"{k} is {name}" for k, name in enumerate(data.classes))
        summary.append(f"Classes by number: {numbered}.")
    own = [tag("h3", "The rule in its own words"), *(tag("p", line) for line in summary)]
    return joined([*parts, by_class, *own])


def _outcome(scored: Scored, reason: str | None, key: str) -> list[object]:
    """A line of the deferral table: how many rows, and how many of them right."""
    chosen = np.full(len(scored), True) if reason is None else scored.reason == reason
    name, meaning = ("all rows", "") if reason is None else OUTCOMES[reason]
    named = joined([name, tag("small", meaning)]) if meaning else name
    count = int(chosen.sum())
    line: list[object] = [named, exact(key, count, f"{count:,}"), percent(count / len(scored))]
    if scored.correct is None:
        return line
    n_right = int(scored.correct[chosen].sum())
    return [*line, f"{n_right:,} ({percent(n_right / count)})" if count else _NONE]


def _by_class(data: ReportData) -> Html:
    test = data.test
    lines = []
    for k, name in enumerate(data.classes):
        mine = test.predicted == k
        counts = [int((mine & (test.reason == key)).sum()) for key in OUTCOMES]
        accepted, right = mine & (test.reason == ""), _NONE
        if test.correct is not None and accepted.any():
            right = percent(float(test.correct[accepted].mean()))
        lines.append([name, *(f"{count:,}" for count in (mine.sum(), *counts)), right])
    outcomes = (name for name, _ in OUTCOMES.values())
    heads = ["predicted class", "rows", *outcomes, "right among accepted"]
    return table(heads, lines, numeric=range(1, 6), caption="By predicted class.")


def _promised(data: ReportData) -> Html:
    rule, n = data.rule, len(data.test)
    flagged = int((data.test.reason == "unfamiliar").sum())
    found = f"Here {of(flagged, n)} ({percent(flagged / n)}) were flagged as unfamiliar"
    promised = [
        "What the rule says above, for rows drawn like its calibration rows, which the model was "
        "not fitted on.",
        f"{found}; the rule allows {100 * rule.false_alarm:.3g} % on average over many tables.",
    ]
    if math.isinf(rule.epistemic_threshold):
        promised[1] = f"{found}: there were too few calibration rows to set a limit."
    if rule.acceptance is None:
        promised.append(
            "Nothing about mistakes among accepted rows: the rule has no bound on them."
        )
    elif rule.acceptance.threshold is None:
        promised.append(
            "The calibration rows cannot support the bound on mistakes that was asked for, so "
            "nothing is accepted."
        )
    elif data.test.correct is not None and (data.test.reason == "").any():
        wrong = ~data.test.correct[data.test.reason == ""]
        bound = f"{100 * rule.acceptance.max_error:.3g} %"
        promised.append(
            f"Here {wrong.sum():,} of {len(wrong):,} accepted rows were wrong "
            f"({percent(float(wrong.mean()))}); the bound is {bound}."
        )
    return bullets(promised)


def _rows(data: ReportData) -> Html:
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
    for title, part in (("Least familiar", "epistemic"), ("Most ambiguous", "aleatoric")):
        scores = getattr(data.test, part)
        parts.append(tag("h3", f"{title}: highest {part} uncertainty"))
        parts.append(_row_table(data, scores, part))
    return joined(parts)


def _row_table(data: ReportData, scores: np.ndarray, part: str) -> Html:
    test, labelled = data.test, data.test.labels is not None
    heads = ["row", "prediction", *(["label"] if labelled else [])]
    heads += ["probabilities", f"{part}, nats", "decision", "unusual features"]
    lines = []
    for row in _highest(scores).tolist():
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


def _map(data: ReportData) -> Html:
    sets = [(data.test, "")] if data.ood is None else [(data.test, ""), (data.ood, " square")]
    x, y = (_map_axis(data, direction) for direction in (0, 1))
    plot = Plot("Map of the rows, stronger where the model knows less", x, y, height=360)
    highest = max(1e-4, *(float(scored.epistemic.max()) for scored, _ in sets))
    shades = Axis.nats("", [data.test.epistemic], highest)
    n_beyond = 0
    for level in range(_LEVELS):
        for scored, shape in sets:
            drawn = _sample(len(scored))
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
    caption = f"Shades are epistemic uncertainty in nats.{_thinned(len(data.test))}"
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


def _no_labels(so: str) -> Html:
    return tag("p", f"The test rows have no labels, so {so}.", class_="note")


def _sample(n_rows: int) -> np.ndarray:
    """Rows to draw, in a random order, so that none lies on top by its place in the file."""
    return np.random.default_rng(0).permutation(n_rows)[:_DRAWN]


def _thinned(n_rows: int) -> str:
    return f" {_DRAWN:,} of {n_rows:,} rows are drawn, chosen at random." if n_rows > _DRAWN else ""


# --- the page ------------------------------------------------------------------------------------


def render_page(data: ReportData) -> str:
    """The page as text."""
    css, js = _resource("page.css"), _resource("page.js")
    subtitle = f"What it knows and does not know, on {rows(len(data.test))} of {data.names['test']}"
    if data.ood is not None:
        subtitle += f" and {rows(len(data.ood))} from elsewhere, {data.names['ood']}"
    text = {
        "model": data.names["model"],
        "test_name": data.names["test"],
        "subtitle": f"{subtitle}.",
        "most": f"{math.log(len(data.classes)):.3g}",
        "footer": f"Written {data.written} by bacoun {version('bacoun')}.",
    }
    sections = (
        *(_summary, _about, _accuracy, _plane, _familiar, _risk, _deferral, _promised, _rows, _map),
    )
    return Template(_resource("page.html")).substitute(
        {key: joined([words]) for key, words in text.items()}
        | {draw.__name__.removeprefix("_"): draw(data) for draw in sections},
        policy=f"default-src 'none'; img-src data:; style-src {_hash(css)}; script-src {_hash(js)}",
        css=css,
        js=js,
    )


def write_page(data: ReportData, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the page to a new file, whole or not at all."""
    target = Path(path)
    check_free(target, overwrite=overwrite)
    text = render_page(data)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    sibling = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sibling.chmod(0o644)  # mkstemp makes it private
        sibling.replace(target)
    except BaseException:
        sibling.unlink(missing_ok=True)
        raise


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder, and a file that is there already unless it may be replaced."""
    if path.is_dir():
        raise IsADirectoryError(f"path must be a file; '{path}' is a folder. Name a file in it.")
    if path.exists() and not overwrite:
        raise FileExistsError(
            f"path must not exist yet; '{path}' does. Choose another, or pass --overwrite."
        )


def _resource(name: str) -> str:
    return files("bacoun.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a content security policy names the one script or style that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
