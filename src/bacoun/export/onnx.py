"""A fitted classifier -> one ONNX graph from raw inputs to all answers.

The graph is what torch traces of `evaluate`: exporting needs only `onnx`, scoring only a runtime.
"""

import copy
import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bacoun.base import FAR
from bacoun.classifier import BaCOUnClassifier
from bacoun.export.graph import Graph
from bacoun.export.operators import add_function, leaf_sums, run_as_one
from bacoun.features import TabularFeatures
from bacoun.files.atomic import atomic_write

_COLUMNS = ("probabilities", "total", "aleatoric", "epistemic")
_WITH_DOUBT = ("ood_score", "ood_probability", "rows_like_this")


class _Plain:
    """A posterior whose moments are averaged over all draws at once, without chunks and buffers."""

    def __init__(self, posterior: Any) -> None:
        self.posterior = posterior

    def predict_proba_samples(self, features: Tensor) -> Tensor:
        """Class probabilities (S, N, K), of logits in float64: far away, their terms cancel."""
        draws: Tensor = self.posterior.predict_proba_samples(features.double())
        return draws.float()


def export_onnx(
    classifier: BaCOUnClassifier,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted classifier atomically as an ONNX graph.

    The graph takes `X`, float64 of shape (N, D) for any N, in the units of the training set, and
    gives `probabilities` (N, K), `total`, `aleatoric`, `epistemic` and, with doubt, `ood_score`,
    `ood_probability` and `rows_like_this`, each (N,). An image is a row of its pixels, channel by
    channel. Its metadata hold `classes` and `feature_names` as JSON, and `bacoun_version`. It
    checks nothing: NaN gives NaN, or counts as unseen in a category.

    Parameters
    ----------
    classifier : BaCOUnClassifier
        With steps of usual layers and formulas; code that looks at values cannot be exported.
    feature_names : sequence of str, optional
        Names of the inputs, if the classifier does not know them itself.
    """
    check_is_fitted(classifier)
    target = Path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"path must not exist yet; '{target}' does. Choose another, or pass overwrite=True."
        )
    if target.is_dir():
        raise IsADirectoryError(f"path must be a file; '{target}' is a folder. Choose another.")
    if feature_names is None:
        feature_names = getattr(classifier, "feature_names_in_", None)
    metadata = {
        "classes": json.dumps(classifier.classes_.tolist()),
        "feature_names": json.dumps(None if feature_names is None else list(feature_names)),
        "bacoun_version": version("bacoun"),
    }
    content = _graph_of(classifier, metadata)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as file:
        file.write(content)


def _graph_of(classifier: BaCOUnClassifier, metadata: dict[str, str]) -> bytes:
    graph = Graph(classifier.n_features_in_)
    traceable = copy.copy(classifier)
    traceable.posterior_ = _Plain(classifier.posterior_)
    if isinstance(classifier.features_, TabularFeatures):
        traceable.features_ = _with_recorded_trees(classifier.features_)
    mean, scale = torch.from_numpy(classifier.mean_), torch.from_numpy(classifier.scale_)
    names = _COLUMNS if classifier.doubt_ is None else _COLUMNS + _WITH_DOUBT

    def answers(X: Tensor) -> list[Tensor]:
        points = ((X - mean) / scale).clamp(-FAR, FAR).float()
        if classifier.image_shape_ is not None:
            points = points.unflatten(1, classifier.image_shape_)
        evaluation = traceable._evaluation(points)
        return [getattr(evaluation, name) for name in names]

    try:
        with torch.no_grad():
            values = add_function(graph, answers)
    except NotImplementedError as error:
        raise ValueError(
            f"only usual layers and formulas can be exported; this classifier uses {error}. "
            "Fit with features='tabular' and posterior='hmc' or, without a density, ood_prior=0."
        ) from None
    n_classes = len(classifier.classes_)
    return graph.to_model(dict(zip(names, values, strict=True)), metadata, n_classes)


def _with_recorded_trees(features: TabularFeatures) -> TabularFeatures:
    """A copy whose forest is one operator of the graph, which is faster than its comparisons."""
    forest = copy.copy(features.forest_)
    if forest is None:
        return features

    def shares(points: Tensor, out_of_bag: bool) -> Tensor:
        sums = run_as_one("leaf_sums", leaf_sums, points, forest)
        return (sums + forest.frequencies_) / (forest.n_trees + 1)

    forest._shares = shares  # type: ignore[method-assign]
    features = copy.copy(features)
    features.forest_ = forest
    return features
