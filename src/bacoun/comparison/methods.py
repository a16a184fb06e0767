"""Methods behind one adapter: `fit(case, seed)` returns a function from rows to what it says.

Each has its standard settings and runs on one thread. A method may give several scores from one
fit; each then stands under a name of its own. Except for ours, which knows categories, inputs are
standardized and categories one-hot encoded; one that training does not have is all zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp
from scipy.stats import entropy
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from bacoun.base import BayesianClassifier
from bacoun.baselines import BNN, DDU, GP, NLM, SNGP, VOS, DeepEnsemble, MCDropout, NatPN
from bacoun.classifier import BaCOUnClassifier
from bacoun.comparison.cases import Case, Rows
from bacoun.comparison.detectors import (
    Detector,
    ecod,
    isolation_forest,
    knn_distance,
    local_outlier_factor,
    mahalanobis,
    one_class_svm,
)
from bacoun.features import LearnedFeatures

OURS = "bacoun"
CALIBRATION_SHARE = 0.2
_CONFIDENCE = 0.9  # of MAPIE's prediction sets; 0.95 needs more than 20 rows for calibration


@dataclass(frozen=True)
class Scored:
    """What a method says about N rows.

    Attributes
    ----------
    probabilities : (N, K)
        Of the classes of training.
    ood : (N,)
        How unlike the training rows each row is.
    deferral : (N,)
        How much each row should rather be deferred than answered, for whatever reason.
    """

    probabilities: np.ndarray
    ood: np.ndarray
    deferral: np.ndarray


Answer = Callable[[Rows], dict[str, Scored]]
"""From rows to what is said about them, by the name of the score."""


@dataclass(frozen=True)
class Method:
    """How to fit a method.

    Attributes
    ----------
    fit : callable
        From a case and a seed to an `Answer`.
    scores : tuple of str
        Names of what it gives.
    package : str or None
        What must be installed for it.
    slow : bool
        Whether a fit takes minutes on a table of thousands of rows.
    """

    fit: Callable[[Case, int], Answer]
    scores: tuple[str, ...]
    package: str | None = None
    slow: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return self.package is None or find_spec(self.package) is not None


@contextmanager
def one_thread() -> Iterator[None]:
    """All libraries on one thread, so that times can be compared."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(n_threads)


class Inputs:
    """Standardized numbers and one-hot categories, learned from the training rows of a case."""

    def __init__(self, case: Case) -> None:
        numbers = np.setdiff1d(np.arange(case.train.points.shape[1]), case.categorical)
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        self.transformer = ColumnTransformer(
            [("numbers", StandardScaler(), numbers), ("categories", one_hot, case.categorical)]
        ).fit(case.train.points)

    def __call__(self, rows: Rows) -> np.ndarray:
        """Inputs (N, D'), float64."""
        return self.transformer.transform(rows.points)


# --- classifiers ----------------------------------------------------------------------------------


class Deferral:
    """Defer by the mean of two percentiles among training rows: of strangeness and of doubt.

    One score has to order the rows by both. For ours, on development tables, this gave a lower
    AURC than the total uncertainty, the OOD score, or the larger of the two percentiles.
    """

    def __init__(self, ood: np.ndarray, doubt: np.ndarray) -> None:
        self.ood, self.doubt = np.sort(ood), np.sort(doubt)

    def __call__(self, ood: np.ndarray, doubt: np.ndarray) -> np.ndarray:
        """Scores (N,), from 0 to 1."""
        of_ood = np.searchsorted(self.ood, ood) / len(self.ood)
        return (of_ood + np.searchsorted(self.doubt, doubt) / len(self.doubt)) / 2


def _by_confidence(probabilities: np.ndarray) -> Scored:
    doubt = 1 - probabilities.max(axis=1)
    return Scored(probabilities, doubt, doubt)


def fit_sklearn(make: Callable[[int], Any], name: str, case: Case, seed: int) -> Answer:
    """A classifier of scikit-learn; its score is one minus the largest probability."""
    inputs = Inputs(case)
    model = make(seed).fit(inputs(case.train), case.train.truth)
    return lambda rows: {name: _by_confidence(model.predict_proba(inputs(rows)))}


def fit_boosting(case: Case, seed: int) -> Answer:
    """Gradient boosting of scikit-learn, which knows categories up to 255 values."""
    coded = case.train.points[:, case.categorical].max(axis=0, initial=0) < 255
    categorical = [c for c, few in zip(case.categorical, coded, strict=True) if few]

    def typed(rows: Rows) -> np.ndarray:
        points = rows.points.copy()
        points[:, case.categorical] = np.where(
            points[:, case.categorical] < 0, np.nan, points[:, case.categorical]
        )
        return points

    model = HistGradientBoostingClassifier(
        random_state=seed, categorical_features=categorical or None
    ).fit(typed(case.train), case.train.truth)
    return lambda rows: {"boosting": _by_confidence(model.predict_proba(typed(rows)))}


def fit_mlp(case: Case, seed: int) -> Answer:
    """scikit-learn's perceptron with three scores: max softmax, energy and entropy."""
    inputs = Inputs(case)
    model = MLPClassifier(random_state=seed, max_iter=500).fit(inputs(case.train), case.train.truth)

    def logits(rows: Rows) -> np.ndarray:
        values = inputs(rows)
        for weights, biases in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
            values = (values @ weights + biases).clip(0)
        found = values @ model.coefs_[-1] + model.intercepts_[-1]
        # One output for two classes: its softmax with 0 is the logistic function.
        return found if found.shape[1] > 1 else np.column_stack([np.zeros(len(found)), found])

    def answer(rows: Rows) -> dict[str, Scored]:
        found = logits(rows)
        energy = logsumexp(found, axis=1)
        probabilities = np.exp(found - energy[:, None])
        spread = entropy(probabilities, axis=1)
        return {
            "mlp, max softmax": _by_confidence(probabilities),
            "mlp, energy": Scored(probabilities, -energy, -energy),
            "mlp, entropy": Scored(probabilities, spread, spread),
        }

    return answer


def fit_catboost(case: Case, seed: int) -> Answer:
    """CatBoost with posterior sampling: uncertainty of its virtual ensembles."""
    from catboost import CatBoostClassifier

    def typed(rows: Rows) -> Any:
        import pandas as pd

        frame = pd.DataFrame(rows.points)
        return frame.astype(dict.fromkeys(case.categorical, int))

    model = CatBoostClassifier(
        random_seed=seed,
        cat_features=case.categorical,
        posterior_sampling=True,
        loss_function="MultiClass",  # its documented uncertainty has a total for any K
        max_ctr_complexity=1,  # combinations of 29 columns of text take ten minutes, not one
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    ).fit(typed(case.train), case.train.truth)

    def answer(rows: Rows) -> dict[str, Scored]:
        values = typed(rows)
        probabilities = model.predict_proba(values)
        data, total = model.virtual_ensembles_predict(
            values, prediction_type="TotalUncertainty", virtual_ensembles_count=10, thread_count=1
        ).T
        return {
            "catboost, knowledge": Scored(probabilities, total - data, total),
            "catboost, total": Scored(probabilities, total, total),
        }

    return answer


def fit_mapie(case: Case, seed: int) -> Answer:
    """Prediction sets of MAPIE on a random forest; a row is doubtful if its set is not one class.

    An empty set is the most doubtful, then the largest.
    """
    from mapie.classification import SplitConformalClassifier

    inputs = Inputs(case)
    points, labels = inputs(case.train), case.train.truth
    fitting, held_out, of_fitting, of_held_out = train_test_split(
        points, labels, test_size=CALIBRATION_SHARE, stratify=labels, random_state=seed
    )
    forest = RandomForestClassifier(random_state=seed).fit(fitting, of_fitting)
    sets = SplitConformalClassifier(forest, confidence_level=_CONFIDENCE, prefit=True)
    sets.conformalize(held_out, of_held_out)

    def answer(rows: Rows) -> dict[str, Scored]:
        values = inputs(rows)
        sizes = sets.predict_set(values)[1][:, :, 0].sum(axis=1)
        doubt = np.where(sizes == 0, case.n_classes + 1, sizes).astype(np.float64)
        return {"mapie": Scored(forest.predict_proba(values), doubt, doubt)}

    return answer


# --- detectors beside a forest --------------------------------------------------------------------


def fit_detector(detect: Callable[..., Detector], name: str, case: Case, seed: int) -> Answer:
    """A random forest for the class, and a detector beside it for what is strange.

    The forest's doubt about training rows is out of bag.
    """
    inputs = Inputs(case)
    points, labels = inputs(case.train), case.train.truth
    forest = RandomForestClassifier(random_state=seed, oob_score=True).fit(points, labels)
    detector = detect(points, labels, seed)
    deferral = Deferral(detector.known, 1 - forest.oob_decision_function_.max(axis=1))

    def answer(rows: Rows) -> dict[str, Scored]:
        values = inputs(rows)
        probabilities, ood = forest.predict_proba(values), detector.score(values)
        doubt = 1 - probabilities.max(axis=1)
        return {name: Scored(probabilities, ood, deferral(ood, doubt))}

    return answer


# --- ours -----------------------------------------------------------------------------------------


def fit_bacoun(make: Callable[[int], BaCOUnClassifier], name: str, case: Case, seed: int) -> Answer:
    """Our classifier on codes of categories; a row with an impossible value is unfamiliar."""
    model = make(seed)
    model.categorical_features = case.categorical or None
    answer = _of_bayesian(model, lambda rows: rows.points, name, case)

    def with_unseen(rows: Rows) -> dict[str, Scored]:
        said = answer(rows)[name]
        scores = (np.where(rows.unseen, np.inf, score) for score in (said.ood, said.deferral))
        return {name: Scored(said.probabilities, *scores)}

    return with_unseen


def fit_baseline(
    make: Callable[[int], BayesianClassifier], name: str, case: Case, seed: int
) -> Answer:
    """One of our baselines."""
    return _of_bayesian(make(seed), Inputs(case), name, case)


def _of_bayesian(model: Any, inputs: Callable[[Rows], np.ndarray], name: str, case: Case) -> Answer:
    """Its own score of unfamiliar rows, deferred by that and by total uncertainty."""
    model.fit(inputs(case.train), case.train.truth)
    known = model.evaluate(inputs(case.train))
    deferral = Deferral(known.ood_score, known.total)

    def answer(rows: Rows) -> dict[str, Scored]:
        found = model.evaluate(inputs(rows))
        order = deferral(found.ood_score, found.total)
        return {name: Scored(found.probabilities, found.ood_score, order)}

    return answer


def _sklearn(name: str, make: Callable[[int], Any]) -> Method:
    return Method(partial(fit_sklearn, make, name), (name,))


def _detector(name: str, detect: Callable[..., Detector], package: str | None = None) -> Method:
    return Method(partial(fit_detector, detect, name), (name,), package)


def _bacoun(name: str, make: Callable[[int], BaCOUnClassifier], slow: bool = False) -> Method:
    return Method(partial(fit_bacoun, make, name), (name,), slow=slow)


def _baseline(
    name: str,
    make: Callable[[int], BayesianClassifier],
    slow: bool = False,
    package: str | None = None,
) -> Method:
    return Method(partial(fit_baseline, make, name), (name,), package, slow)


def _ensemble(seed: int) -> DeepEnsemble:
    return DeepEnsemble(network=LearnedFeatures(dropout=0.0), random_state=seed)


METHODS: dict[str, Method] = {
    OURS: _bacoun(OURS, lambda seed: BaCOUnClassifier(random_state=seed)),
    "forest": _sklearn("forest", lambda seed: RandomForestClassifier(random_state=seed)),
    "boosting": Method(fit_boosting, ("boosting",)),
    "logistic": _sklearn("logistic", lambda seed: LogisticRegression(max_iter=10_000)),
    "mlp": Method(fit_mlp, ("mlp, max softmax", "mlp, energy", "mlp, entropy")),
    "catboost": Method(
        fit_catboost, ("catboost, knowledge", "catboost, total"), package="catboost"
    ),
    "mapie": Method(fit_mapie, ("mapie",), package="mapie"),
    "isolation forest": _detector("isolation forest", isolation_forest),
    "LOF": _detector("LOF", local_outlier_factor),
    "one-class SVM": _detector("one-class SVM", one_class_svm),
    "kNN": _detector("kNN", knn_distance),
    "Mahalanobis": _detector("Mahalanobis", mahalanobis),
    "ECOD": _detector("ECOD", ecod, package="pyod"),
    "NLM": _baseline("NLM", lambda seed: NLM(random_state=seed)),
    "ensemble": _baseline("ensemble", _ensemble),
    "NatPN": _baseline("NatPN", lambda seed: NatPN(random_state=seed)),
    "DDU": _baseline("DDU", lambda seed: DDU(random_state=seed)),
    "SNGP": _baseline("SNGP", lambda seed: SNGP(random_state=seed)),
    "VOS": _baseline("VOS", lambda seed: VOS(random_state=seed)),
    "bacoun, paper": _bacoun(
        "bacoun, paper", lambda seed: BaCOUnClassifier.paper("wine", random_state=seed), slow=True
    ),
    "MC-Dropout": _baseline("MC-Dropout", lambda seed: MCDropout(random_state=seed), slow=True),
    "GP": _baseline(
        "GP", lambda seed: GP(n_iterations=3000, random_state=seed), slow=True, package="gpytorch"
    ),
    "BNN": _baseline("BNN", lambda seed: BNN(random_state=seed), slow=True, package="pyro"),
}
LIGHT = tuple(name for name, method in METHODS.items() if not method.slow)
