"""Detectors of unusual rows: they learn from standardized inputs; stranger rows score higher."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM


class Detector(NamedTuple):
    """A fitted detector."""

    known: np.ndarray  # (N,), scores of the training rows, each without itself where that matters
    score: Callable[[np.ndarray], np.ndarray]  # from rows (n, D) to scores (n,)


def isolation_forest(points: np.ndarray, labels: np.ndarray, seed: int) -> Detector:
    """Isolation forest of 100 trees."""
    forest = IsolationForest(random_state=seed).fit(points)
    return Detector(-forest.score_samples(points), lambda rows: -forest.score_samples(rows))


def local_outlier_factor(
    points: np.ndarray, labels: np.ndarray, seed: int, n_neighbors: int = 20
) -> Detector:
    """How much sparser a row's surroundings are than its neighbors'; Breunig et al. (2000)."""
    factor = LocalOutlierFactor(n_neighbors=n_neighbors, novelty=True).fit(points)
    return Detector(-factor.negative_outlier_factor_, lambda rows: -factor.score_samples(rows))


def one_class_svm(points: np.ndarray, labels: np.ndarray, seed: int) -> Detector:
    """One-class support vector machine with a Gaussian kernel."""
    machine = OneClassSVM().fit(points)
    return Detector(-machine.score_samples(points), lambda rows: -machine.score_samples(rows))


def knn_distance(
    points: np.ndarray, labels: np.ndarray, seed: int, n_neighbors: int = 5
) -> Detector:
    """Distance to the `n_neighbors`-th nearest training row."""
    neighbors = NearestNeighbors(n_neighbors=n_neighbors).fit(points)
    known = neighbors.kneighbors()[0][:, -1]
    return Detector(known, lambda rows: neighbors.kneighbors(rows)[0][:, -1])


def mahalanobis(points: np.ndarray, labels: np.ndarray, seed: int) -> Detector:
    """Squared Mahalanobis distance to the nearest class, each with a covariance of its own.

    Covariances are shrunk as Ledoit and Wolf (2004) do, so that those of small classes can be
    inverted.
    """
    classes = [LedoitWolf().fit(points[labels == label]) for label in np.unique(labels)]

    def score(rows: np.ndarray) -> np.ndarray:
        return np.min([one.mahalanobis(rows) for one in classes], axis=0)

    return Detector(score(points), score)


def ecod(points: np.ndarray, labels: np.ndarray, seed: int) -> Detector:
    """PyOD's ECOD: tail probabilities of the columns."""
    from pyod.models.ecod import ECOD

    detector = ECOD().fit(points)
    return Detector(detector.decision_scores_, detector.decision_function)
