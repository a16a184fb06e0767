"""Can features tell data from what lies beyond it? The paper's test of NLM and BaCOUn features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bacoun.boundary import FlowShell
from reproduction.methods import make_method
from reproduction.schema import Experiment
from reproduction.studies.plane import grid, rays
from reproduction.studies.regions import load

_FAR = np.array([1.5, 2.0, 3.0])  # radii of the data


def pathology(
    experiment: Experiment, method: str, seed: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Balanced accuracy of "is it out of distribution?", from the features of a fitted method.

    The classifiers learn from training points against points on a shell around them, the same for
    every method. They are asked about fresh ones, and about points farther out, on rays.
    """
    data = load(experiment.dataset, seed)
    model = make_method(experiment.methods[method], seed).fit(data.points, data.labels)
    edge, fresh_edge = _edge(data.points, data.labels, seed)
    far = rays(data.points, _FAR).reshape(-1, 2)
    asked = grid(**experiment.options["map"])
    shape = (experiment.options["map"]["resolution"],) * 2

    def features(points: np.ndarray) -> np.ndarray:
        # What step 3 sees, in the words of the paper: the last hidden layer.
        return model.features_.transform(model._standardised(points)).numpy().astype(np.float64)

    learn = features(np.concatenate([data.points, edge]))
    is_out = np.r_[np.zeros(len(data.points)), np.ones(len(edge))]
    inside = features(data.test_points[: len(far)])
    numbers: dict[str, Any] = {"accuracy": float(model.score(data.test_points, data.test_labels))}
    arrays: dict[str, np.ndarray] = {}
    classifiers = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "naive bayes": GaussianNB(var_smoothing=1e-6),
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


def _edge(points: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of edge points, one to learn from and one to be asked about."""
    centre, spread = points.mean(axis=0), points.std(axis=0)
    standard = torch.from_numpy((points - centre) / spread).float()
    generator = torch.Generator().manual_seed(seed)
    shell = FlowShell(per_class=False).fit(
        standard, torch.from_numpy(labels).long(), generator=generator
    )
    drawn = shell.sample(3000, generator=generator)[0].numpy() * spread + centre
    return drawn[:2000], drawn[2000:]


def _balanced(classifier: Any, inside: np.ndarray, outside: np.ndarray) -> float:
    truth = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    answer = classifier.predict(np.concatenate([inside, outside]))
    return float(balanced_accuracy_score(truth, answer))
