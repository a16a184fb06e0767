"""What a practitioner would fit to the vectors of a pretrained encoder, beside our default.

Each method is a function of training rows (N, D), labels (N,) and a seed, which returns a function
from other rows to an `Answer`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import entropy
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from bacoun import BaCOUnClassifier
from bacoun.baselines import DDU

OURS = "bacoun"
# Values of C.
PENALTIES = {
    "as they are": (1.0, 10.0, 100.0, 1000.0),
    "standardized": (0.01, 0.1, 1.0, 10.0, 100.0),
}
N_FOLDS, N_TREES = 5, 500


@dataclass(frozen=True)
class Answer:
    """What a method says about rows (n, D).

    Attributes
    ----------
    scores : dict of (n,)
        By name, how unlike the training rows each row is.
    probabilities : (n, K), or None
        Of the classes in their order; None for what is no classifier.
    ambiguity : dict of (n,)
        By name, what is to say how ambiguous each row is.
    said : dict of float
        Other numbers, about the fit or the mean of the rows.
    """

    scores: dict[str, np.ndarray]
    probabilities: np.ndarray | None = None
    ambiguity: dict[str, np.ndarray] = field(default_factory=dict)
    said: dict[str, float | None] = field(default_factory=dict)


Predict = Callable[[np.ndarray], Answer]
Fit = Callable[[np.ndarray, np.ndarray, int], Predict]


def fit_bacoun(
    rows: np.ndarray, labels: np.ndarray, seed: int, model: BaCOUnClassifier | None = None
) -> Predict:
    """Our default, or another `model`."""
    fitted = (model or BaCOUnClassifier(random_state=seed)).fit(rows, labels)

    def predict(asked: np.ndarray) -> Answer:
        found, parts = fitted.evaluate(asked), fitted.uncertainty(asked, split=True).parts()
        shown = ("aleatoric", "total", "epistemic", "ood")
        return Answer(
            {"`ood_score`": found.ood_score, "epistemic": found.epistemic},
            found.probabilities,
            {name: parts[name] for name in shown if name in parts},
            {
                "P(OOD)": _mean(found.ood_probability),
                "epistemic share": float(found.epistemic.sum() / found.total.sum()),
                "effective draws": _mean(fitted.health_.ess),
            },
        )

    return predict


def _mean(values: Any) -> float | None:
    return None if values is None else float(np.mean(values))


def fit_logistic(rows: np.ndarray, labels: np.ndarray, seed: int) -> Predict:
    """Logistic regression; scale and penalty are chosen by the log loss of five folds."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    candidates = [(scale, c) for scale, penalties in PENALTIES.items() for c in penalties]

    def loss(candidate: tuple[str, float]) -> float:
        model = _logistic(*candidate)
        held_out = cross_val_predict(model, rows, labels, cv=folds, method="predict_proba")
        return float(log_loss(labels, held_out))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of hardly any penalty
        scale, c = min(candidates, key=loss)
        model = _logistic(scale, c).fit(rows, labels)

    def predict(asked: np.ndarray) -> Answer:
        probabilities, logits = model.predict_proba(asked), model.decision_function(asked)
        if logits.ndim == 1:  # of two classes, scikit-learn gives the difference
            logits = np.stack([-logits, logits], axis=1) / 2
        scores = {"max softmax": -probabilities.max(axis=1), "energy": -logsumexp(logits, axis=1)}
        chosen: dict[str, float | None] = {"C": c, "standardized": float(scale == "standardized")}
        return _of_classifier(scores, probabilities, chosen)

    return predict


def _logistic(scale: str, c: float) -> Any:
    model = LogisticRegression(C=c, max_iter=2000)
    return model if scale == "as they are" else make_pipeline(StandardScaler(), model)


def _of_classifier(
    scores: dict[str, np.ndarray],
    probabilities: np.ndarray,
    said: dict[str, float | None] | None = None,
) -> Answer:
    return Answer(scores, probabilities, {"entropy": entropy(probabilities, axis=1)}, said or {})


def fit_knn(rows: np.ndarray, labels: np.ndarray, seed: int) -> Predict:
    """Distances to the nearest training row and to the fifth, all of unit length."""
    unit = Normalizer().fit(rows)
    neighbors = NearestNeighbors(n_neighbors=5).fit(unit.transform(rows))

    def predict(asked: np.ndarray) -> Answer:
        distances = neighbors.kneighbors(unit.transform(asked))[0]
        return Answer({"nearest": distances[:, 0], "fifth": distances[:, -1]})

    return predict


def fit_mahalanobis(rows: np.ndarray, labels: np.ndarray, seed: int) -> Predict:
    """Mahalanobis distance to the nearest class mean; one shrunken covariance for all classes."""
    scales = {
        "as they are": lambda x: x,
        "unit length": Normalizer().fit(rows).transform,
        "standardized": StandardScaler().fit(rows).transform,
    }
    distances = {name: _shared_mahalanobis(scale(rows), labels) for name, scale in scales.items()}

    def predict(asked: np.ndarray) -> Answer:
        return Answer({name: distances[name](scale(asked)) for name, scale in scales.items()})

    return predict


def _shared_mahalanobis(
    points: np.ndarray, labels: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    classes, places = np.unique(labels, return_inverse=True)
    means = np.stack([points[places == place].mean(axis=0) for place in range(len(classes))])
    shared = LedoitWolf(assume_centered=True, store_precision=False).fit(points - means[places])
    root = np.linalg.cholesky(shared.covariance_)

    def whitened(x: np.ndarray) -> np.ndarray:
        return solve_triangular(root, x.T, lower=True).T

    return lambda asked: cdist(whitened(asked), whitened(means)).min(axis=1)


def fit_ddu(rows: np.ndarray, labels: np.ndarray, seed: int, epochs: int | None = None) -> Predict:
    """DDU with its default settings: a Gaussian for each class in the features of a network."""
    model = DDU(random_state=seed, epochs=epochs).fit(rows, labels)
    return lambda asked: _of_classifier(
        {"density": model.ood_score(asked)}, model.predict_proba(asked)
    )


def fit_forest(rows: np.ndarray, labels: np.ndarray, seed: int, n_trees: int = N_TREES) -> Predict:
    """Random forest."""
    model = RandomForestClassifier(n_trees, random_state=seed, n_jobs=2).fit(rows, labels)

    def predict(asked: np.ndarray) -> Answer:
        probabilities = model.predict_proba(asked)
        return _of_classifier({"max vote": -probabilities.max(axis=1)}, probabilities)

    return predict


METHODS: dict[str, Fit] = {
    OURS: fit_bacoun,
    "logistic regression": fit_logistic,
    "kNN": fit_knn,
    "Mahalanobis": fit_mahalanobis,
    "DDU": fit_ddu,
    "forest": fit_forest,
}
QUICK: dict[str, Fit] = METHODS | {
    "DDU": partial(fit_ddu, epochs=2),
    "forest": partial(fit_forest, n_trees=10),
}
