"""Do features separate data from what lies beyond it? The paper's test of NLM and BaCOUn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.naive_bayes import GaussianNB

from reproduction.methods import make_method
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.plane import edge_points, grid, rays
from reproduction.studies.regions import load

_N_EDGE, _N_FRESH = 2000, 1000  # edge points to train on, and to evaluate
_FAR = np.array([1.5, 2.0, 3.0])  # radii of the data


def pathology(experiment: Experiment, method: str, seed: int) -> Measured:
    """Balanced accuracy of "is it out of distribution?", from the features of a fitted method.

    The classifiers are trained on training points against points on a shell around them, the same
    for every method, and evaluated on new points of the shell and on points farther out, on rays.
    """
    data = load(experiment.dataset, seed)
    model = make_method(experiment.methods[method], seed).fit(data.points, data.labels)
    drawn = edge_points(data.points, _N_EDGE + _N_FRESH, seed)
    edge, fresh_edge = drawn[:_N_EDGE], drawn[_N_EDGE:]
    far = rays(data.points, _FAR).reshape(-1, 2)
    asked = grid(**experiment.options["map"])
    shape = (experiment.options["map"]["resolution"],) * 2

    def features(points: np.ndarray) -> np.ndarray:
        # The input of step 3: the last hidden layer.
        return model.features_.transform(model._standardized(points)).numpy().astype(np.float64)

    learn = features(np.concatenate([data.points, edge]))
    is_out = np.r_[np.zeros(len(data.points)), np.ones(len(edge))]
    inside = features(data.test_points[: len(far)])
    numbers: dict[str, Any] = {"accuracy": float(model.score(data.test_points, data.test_labels))}
    arrays: dict[str, np.ndarray] = {}
    classifiers = {
        # Both on the features as they are: scaled to equal variance, those that hardly vary over
        # the data would dominate far from it.
        "naive bayes": GaussianNB(),
        "logistic": LogisticRegression(max_iter=5000),
    }
    for name, classifier in classifiers.items():
        classifier.fit(learn, is_out)
        numbers[name] = {
            "edge": _balanced(classifier, inside, features(fresh_edge)),
            "far": _balanced(classifier, inside, features(far)),
        }
        arrays[f"map {name}"] = classifier.predict_proba(features(asked))[:, 1].reshape(shape)
    arrays |= {"points": data.points[::3], "labels": data.labels[::3], "edge": edge[::3]}
    return numbers, arrays


def _balanced(classifier: Any, inside: np.ndarray, outside: np.ndarray) -> float:
    truth = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    answer = classifier.predict(np.concatenate([inside, outside]))
    return float(balanced_accuracy_score(truth, answer))
