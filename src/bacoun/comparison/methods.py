"""Methods behind one adapter: `fit(case, seed)` returns a function from rows to what it says.

Each has its standard settings and runs on one thread. A method may give several scores from one
fit; each then stands under a name of its own. Except for ours, which knows categories, inputs are
standardized and categories one-hot encoded; one that training does not have is all zeros.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import entropy
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from bacoun.baselines import BNN, DDU, GP, NLM, SNGP, VOS, DeepEnsemble, MCDropout, NatPN
from bacoun.classifier import BaCOUnClassifier
from bacoun.comparison import detectors
from bacoun.comparison.cases import Case, Rows
from bacoun.engine import threads
from bacoun.features import LearnedFeatures

OURS = "bacoun"
CALIBRATION_SHARE = 0.2
_CONFIDENCE = 0.9  # of MAPIE's prediction sets; 0.95 needs more than 20 rows for calibration


@dataclass(frozen=True)
class Scored:
    """What a method says about N rows."""

    probabilities: np.ndarray  # (N, K), of the classes of training
    ood: np.ndarray  # (N,), how unlike the training rows each row is
    deferral: np.ndarray  # (N,), how much it should be deferred, for whatever reason


Answer = Callable[[Rows], dict[str, Scored]]
"""From rows to what is said about them, by the name of the score."""
Make = Callable[..., Any]
"""A class, or a function that makes an estimator of a `random_state`."""


@dataclass(frozen=True)
class Method:
    """How to fit a method."""

    fit: Callable[[Case, int], Answer]
    scores: tuple[str, ...]  # names of what it gives
    package: str | None = None  # what must be installed for it
    slow: bool = False  # whether a fit takes minutes on a table of thousands of rows

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return self.package is None or find_spec(self.package) is not None


@contextmanager
def one_thread() -> Iterator[None]:
    """All libraries on one thread, so that times can be compared."""
    with threads.one_thread(), threadpool_limits(1):
        yield


def inputs_of(case: Case) -> Callable[[Rows], np.ndarray]:
    """From rows to inputs (N, D'): standardized by training rows, categories one-hot encoded."""
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    numbers = ("numbers", StandardScaler(), case.numbers)
    transformer = ColumnTransformer([numbers, ("categories", one_hot, case.categorical)])
    transformer.fit(case.train.points)
    return lambda rows: transformer.transform(rows.points)


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


def fit_sklearn(make: Make, name: str, case: Case, seed: int) -> Answer:
    """A classifier of scikit-learn; its score is one minus the largest probability."""
    inputs = inputs_of(case)
    model = make(random_state=seed).fit(inputs(case.train), case.train.truth)
    return lambda rows: {name: _by_confidence(model.predict_proba(inputs(rows)))}


def fit_boosting(case: Case, seed: int) -> Answer:
    """Gradient boosting of scikit-learn, which knows categories up to 255 values."""
    points = case.train.points
    categorical = [c for c in case.categorical if points[:, c].max(initial=0) < 255]

    def typed(rows: Rows) -> np.ndarray:
        is_category = np.isin(np.arange(rows.points.shape[1]), case.categorical)
        return np.where(is_category & (rows.points < 0), np.nan, rows.points)

    model = HistGradientBoostingClassifier(
        random_state=seed, categorical_features=categorical or None
    ).fit(typed(case.train), case.train.truth)
    return lambda rows: {"boosting": _by_confidence(model.predict_proba(typed(rows)))}


def fit_mlp(case: Case, seed: int) -> Answer:
    """scikit-learn's perceptron with three scores: max softmax, energy and entropy."""
    inputs = inputs_of(case)
    model = MLPClassifier(random_state=seed, max_iter=500).fit(inputs(case.train), case.train.truth)

    def logits(rows: Rows) -> np.ndarray:
        values = inputs(rows)
        for weights, biases in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
            values = (values @ weights + biases).clip(0)
        last = values @ model.coefs_[-1] + model.intercepts_[-1]
        # One output for two classes: its softmax with 0 is the logistic function.
        return last if last.shape[1] > 1 else np.column_stack([np.zeros(len(last)), last])

    def answer(rows: Rows) -> dict[str, Scored]:
        values = logits(rows)
        energy = logsumexp(values, axis=1)
        probabilities = np.exp(values - energy[:, None])
        doubts = (1 - probabilities.max(axis=1), -energy, entropy(probabilities, axis=1))
        pairs = zip(_MLP_SCORES, doubts, strict=True)
        return {name: Scored(probabilities, doubt, doubt) for name, doubt in pairs}

    return answer


def fit_catboost(case: Case, seed: int) -> Answer:
    """CatBoost with posterior sampling: uncertainty of its virtual ensembles."""
    from catboost import CatBoostClassifier

    def typed(rows: Rows) -> pd.DataFrame:
        return pd.DataFrame(rows.points).astype(dict.fromkeys(case.categorical, int))

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
        pairs = zip(_CATBOOST_SCORES, (total - data, total), strict=True)
        return {name: Scored(probabilities, ood, total) for name, ood in pairs}

    return answer


def fit_mapie(case: Case, seed: int) -> Answer:
    """Prediction sets of MAPIE on a random forest; a row is doubtful if its set is not one class.

    An empty set is the most doubtful, then the largest.
    """
    from mapie.classification import SplitConformalClassifier

    inputs = inputs_of(case)
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


def fit_detector(
    detect: Callable[..., detectors.Detector], name: str, case: Case, seed: int
) -> Answer:
    """A random forest for the class, and a detector beside it for what is strange.

    The forest's doubt about training rows is out of bag.
    """
    inputs = inputs_of(case)
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


def fit_bacoun(make: Make, name: str, case: Case, seed: int) -> Answer:
    """Our classifier on codes of categories; a row with an impossible value is unfamiliar."""
    model = make(random_state=seed)
    model.categorical_features = case.categorical or None
    answer = _of_bayesian(model, lambda rows: rows.points, name, case)

    def with_unseen(rows: Rows) -> dict[str, Scored]:
        said = answer(rows)[name]
        scores = (np.where(rows.unseen, np.inf, score) for score in (said.ood, said.deferral))
        return {name: Scored(said.probabilities, *scores)}

    return with_unseen


def fit_baseline(make: Make, name: str, case: Case, seed: int) -> Answer:
    """One of our baselines."""
    return _of_bayesian(make(random_state=seed), inputs_of(case), name, case)


def _of_bayesian(model: Any, inputs: Callable[[Rows], np.ndarray], name: str, case: Case) -> Answer:
    """Its own score of unfamiliar rows, deferred by that and by total uncertainty."""
    model.fit(inputs(case.train), case.train.truth)
    known = model.evaluate(inputs(case.train))
    deferral = Deferral(known.ood_score, known.total)

    def answer(rows: Rows) -> dict[str, Scored]:
        outputs = model.evaluate(inputs(rows))
        order = deferral(outputs.ood_score, outputs.total)
        return {name: Scored(outputs.probabilities, outputs.ood_score, order)}

    return answer


def _one(fit: Any, name: str, make: Any, **options: Any) -> dict[str, Method]:
    """A method of one score, which has its name."""
    return {name: Method(partial(fit, make, name), (name,), **options)}


_MLP_SCORES = ("mlp, max softmax", "mlp, energy", "mlp, entropy")
_CATBOOST_SCORES = ("catboost, knowledge", "catboost, total")

METHODS: dict[str, Method] = {
    **_one(fit_bacoun, OURS, BaCOUnClassifier),
    **_one(fit_sklearn, "forest", RandomForestClassifier),
    "boosting": Method(fit_boosting, ("boosting",)),
    **_one(fit_sklearn, "logistic", partial(LogisticRegression, max_iter=10_000)),
    "mlp": Method(fit_mlp, _MLP_SCORES),
    "catboost": Method(fit_catboost, _CATBOOST_SCORES, package="catboost"),
    "mapie": Method(fit_mapie, ("mapie",), package="mapie"),
    **_one(fit_detector, "isolation forest", detectors.isolation_forest),
    **_one(fit_detector, "LOF", detectors.local_outlier_factor),
    **_one(fit_detector, "one-class SVM", detectors.one_class_svm),
    **_one(fit_detector, "kNN", detectors.knn_distance),
    **_one(fit_detector, "Mahalanobis", detectors.mahalanobis),
    **_one(fit_detector, "ECOD", detectors.ecod, package="pyod"),
    **_one(fit_baseline, "NLM", NLM),
    **_one(fit_baseline, "ensemble", partial(DeepEnsemble, network=LearnedFeatures(dropout=0.0))),
    **_one(fit_baseline, "NatPN", NatPN),
    **_one(fit_baseline, "DDU", DDU),
    **_one(fit_baseline, "SNGP", SNGP),
    **_one(fit_baseline, "VOS", VOS),
    **_one(fit_bacoun, "bacoun, paper", partial(BaCOUnClassifier.paper, "wine"), slow=True),
    **_one(fit_baseline, "MC-Dropout", MCDropout, slow=True),
    **_one(fit_baseline, "GP", partial(GP, n_iterations=3000), slow=True, package="gpytorch"),
    **_one(fit_baseline, "BNN", BNN, slow=True, package="pyro"),
}
QUICK_METHODS = tuple(name for name, method in METHODS.items() if not method.slow)
