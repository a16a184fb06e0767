"""A fitted classifier -> one ONNX graph from raw inputs to all answers.

The graph is built operator by operator: exporting needs only `onnx`, scoring only a runtime.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from bacoun.base import FAR
from bacoun.classifier import BaCOUnClassifier
from bacoun.export.onnx_density import add_codes, add_hedge, add_surprise, add_views
from bacoun.export.onnx_graph import Graph
from bacoun.features import LearnedFeatures, TabularFeatures
from bacoun.features.forest import SMOOTHING
from bacoun.features.networks import CategoryCodes, Dropout, MixedInputs
from bacoun.features.perceptrons import BIN_SCALE, ParallelPerceptrons
from bacoun.files.atomic import atomic_write
from bacoun.posterior.last_layer import ReducedLayer
from bacoun.uncertainty.doubt import ENOUGH_ROWS, LARGEST_ODDS, OOD_SCALE, Doubt


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
    `ood_probability` and `rows_like_this`, each (N,). Its metadata hold
    `classes` and `feature_names` as JSON, and `bacoun_version`. It checks nothing: NaN gives NaN,
    or counts as unseen in a category.

    Parameters
    ----------
    classifier : BaCOUnClassifier
        With features of "tabular", or a "learned" perceptron, and a posterior of "hmc", "nuts" or
        "laplace"; with doubt, also a boundary of "flow-shell", or "compact-shell" for up to 128
        inputs.
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
    graph = _model_of(classifier, metadata)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as file:
        file.write(graph)


def _model_of(classifier: BaCOUnClassifier, metadata: dict[str, str]) -> bytes:
    graph = Graph()
    points = _add_standardization(graph, classifier)
    features, logits = _add_network(graph, points, classifier)
    mean, noise = _add_moments(graph, _add_coordinates(graph, features, classifier), classifier)
    n_classes, doubt = len(classifier.classes_), classifier.doubt_
    columns = _add_parts(graph, mean, noise, n_classes)
    if doubt is not None:
        views = add_views(graph, points, logits, classifier, doubt)
        surprise = add_surprise(graph, views, columns["epistemic"], doubt)
        kappa, probability = (
            add_hedge(graph, views, doubt),
            _add_probability(graph, surprise, doubt),
        )
        like_this = graph.add("Exp", graph.add("Neg", surprise))
        like_this = graph.add("Mul", like_this, np.array(float(doubt.n_rows)))
        known = _add_known(graph, kappa, probability, like_this)
        mean, noise = _add_doubt(graph, mean, noise, kappa, known, n_classes)
        columns = _add_parts(graph, mean, noise, n_classes)
        told = {"ood_score": surprise, "ood_probability": probability, "rows_like_this": like_this}
        columns |= {name: graph.add("Cast", value, to=graph.float) for name, value in told.items()}
    outputs = {"probabilities": (mean, ["N", n_classes])}
    for name, value in columns.items():
        outputs[name] = (graph.add("Squeeze", value, np.array([1])), ["N"])
    return graph.to_model({"X": ["N", classifier.n_features_in_]}, outputs, metadata)


# --- the steps of a prediction, in order ---------------------------------------------------------


def _add_standardization(graph: Graph, classifier: BaCOUnClassifier) -> str:
    shifted = graph.add("Sub", "X", classifier.mean_)
    standard = graph.add("Div", shifted, classifier.scale_)
    clipped = graph.add("Max", graph.add("Min", standard, np.array(FAR)), np.array(-FAR))
    return graph.add("Cast", clipped, to=graph.float)


def _add_network(graph: Graph, points: str, classifier: BaCOUnClassifier) -> tuple[str, str]:
    """Features (N, L) and the network's own logits (N, K), or (N, K+1) with the boundary last."""
    if isinstance(classifier.features_, TabularFeatures):
        return _add_members(graph, points, classifier.features_)
    if not isinstance(classifier.features_, LearnedFeatures):
        raise ValueError(
            "features must be 'tabular' or 'learned' to be exported; got "
            f"{type(classifier.features_).__name__}. Fit with features='tabular'."
        )
    body, head = classifier.features_.module_
    value = points
    for layer in _layers(body):
        value = _add_layer(graph, layer, value)
    return value, _add_layer(graph, head, value)


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    if isinstance(module, nn.Sequential):
        for part in module:
            yield from _layers(part)
    else:
        yield module


def _add_layer(graph: Graph, layer: nn.Module, value: str) -> str:
    if isinstance(layer, nn.Linear) and layer.bias is not None:
        return graph.add("Gemm", value, layer.weight, layer.bias, transB=1)
    if isinstance(layer, nn.LeakyReLU):
        return graph.add("LeakyRelu", value, alpha=float(layer.negative_slope))
    if isinstance(layer, Dropout | nn.Dropout | nn.Identity):
        return value
    if isinstance(layer, MixedInputs):
        return _add_mixed_inputs(graph, layer, value)
    raise ValueError(
        "only a perceptron of dense layers and LeakyReLU can be exported; this network has a "
        f"{type(layer).__name__}. Fit with features='learned'."
    )


def _add_members(graph: Graph, points: str, features: TabularFeatures) -> tuple[str, str]:
    """Features (N, M L), and mean outputs (N, K+1) of the members."""
    members, n_members = features.module_, features.n_members
    numbers, rows = _add_category_codes(graph, members.codes, points)
    if features.forest_ is not None:
        numbers = graph.add("Concat", numbers, _add_votes(graph, points, features), axis=1)
    value = graph.add("MatMul", _add_bins(graph, numbers, members), members.first)
    value = graph.add("Add", value, members.first_bias)
    value = graph.add("Reshape", value, np.array([0, n_members, -1]))
    value = graph.add("Transpose", value, perm=[1, 0, 2])
    if len(members.codes.sizes) > 0:
        embedded = graph.add("Gather", members.embedding, rows)  # (N, C, M, E)
        embedded = graph.add("Transpose", embedded, perm=[2, 0, 1, 3])
        embedded = graph.add("Reshape", embedded, np.array([0, 0, -1]))
        value = graph.add("Add", value, graph.add("MatMul", embedded, members.first_embedded))
    for weights, bias in zip(members.layers, members.biases, strict=True):
        hidden = graph.add("LeakyRelu", value, alpha=0.01)
        value = graph.add("MatMul", hidden, weights)
        value = graph.add("Add", value, bias.view(n_members, 1, -1))
    joined = graph.add("Transpose", hidden, perm=[1, 0, 2])
    joined = graph.add("Reshape", joined, np.array([0, -1]))
    joined = graph.add("Div", joined, np.float32(math.sqrt(n_members)))
    return joined, graph.add("ReduceMean", value, np.array([0]), keepdims=0)


def _add_votes(graph: Graph, points: str, features: TabularFeatures) -> str:
    """Standardized votes (N, V): `Forest.votes`."""
    forest = features.forest_
    assert forest is not None
    frequencies = forest.frequencies_
    shares = graph.add("Add", graph.add_trees(points, forest), frequencies)
    shares = graph.add("Div", shares, np.float32(forest.n_trees + 1))
    shares = graph.add("Mul", shares, np.float32(1 - SMOOTHING))
    logs = graph.add("Log", graph.add("Add", shares, SMOOTHING * frequencies))
    votes = graph.add("Sub", logs, graph.add("ReduceMean", logs, np.array([1]), keepdims=1))
    if len(frequencies) == 2:
        votes = graph.add("Gather", votes, np.array([1]), axis=1)
    votes = graph.add("Sub", votes, features.votes_mean_)
    return graph.add("Div", votes, features.votes_scale_)


def _add_bins(graph: Graph, numbers: str, members: ParallelPerceptrons) -> str:
    """Encoded numbers (N, D (1 + B)): `PiecewiseLinear.forward`."""
    bins = members.numbers
    column = graph.add("Unsqueeze", numbers, np.array([2]))
    positions = graph.add("Mul", graph.add("Sub", column, bins.lows), bins.slopes)
    positions = graph.add("Max", graph.add("Min", positions, np.float32(BIN_SCALE)), np.float32(0))
    flat = graph.add("Reshape", positions, np.array([0, bins.lows.numel()]))
    return graph.add("Concat", numbers, flat, axis=1)


def _add_category_codes(graph: Graph, codes: CategoryCodes, value: str) -> tuple[str, str]:
    """Numbers (N, D - C), and which value (N, C) each category has: `CategoryCodes.forward`."""
    is_category = codes.is_category.cpu().numpy()
    numbers, categories = np.flatnonzero(~is_category), np.flatnonzero(is_category)
    given, known = add_codes(graph, value, categories, codes.sizes.cpu().numpy())
    rows = graph.add("Add", given, codes.firsts)
    rows = graph.add("Where", known, rows, np.array(codes.n_values))
    return graph.add("Gather", value, numbers, axis=1), rows


def _add_mixed_inputs(graph: Graph, layer: MixedInputs, value: str) -> str:
    """Numbers, and embeddings of the categories: `MixedInputs.forward`."""
    numbers, rows = _add_category_codes(graph, layer.codes, value)
    embedded = graph.add("Gather", layer.embedding.weight, rows)
    flat = graph.add("Reshape", embedded, np.array([0, -1]))
    return graph.add("Concat", numbers, flat, axis=1)


def _add_coordinates(graph: Graph, features: str, classifier: BaCOUnClassifier) -> str:
    """Coordinates (N, r + 1) that the draws multiply, in float64 because far away terms cancel."""
    posterior = classifier.posterior_
    if not isinstance(posterior, ReducedLayer):
        raise ValueError(
            "posterior must be 'hmc', 'nuts' or 'laplace' to be exported; got "
            f"{type(posterior).__name__}. Fit with one of these."
        )
    bias, basis = posterior.fit_intercept, posterior.reduction_.basis.double()
    features = graph.add("Cast", features, to=graph.double)
    seen = graph.add("MatMul", features, basis[:-1] if bias else basis)
    if bias:
        seen = graph.add("Add", seen, basis[-1])
    norm = graph.add("Add", graph.reduce("SumSquare", features), np.array(float(bias)))
    left = graph.add("Sub", norm, graph.reduce("SumSquare", seen))
    left = graph.add("Sqrt", graph.add("Max", left, np.array(0.0)))
    return graph.add("Concat", seen, left, axis=1)


def _add_moments(graph: Graph, coordinates: str, classifier: BaCOUnClassifier) -> tuple[str, str]:
    """Mean over draws of the probabilities (N, K) and of their entropy (N, 1), in float32."""
    weights, n_classes = classifier.posterior_.weights_, len(classifier.classes_)
    flat = graph.add("MatMul", coordinates, graph.add("Cast", weights, to=graph.double))
    logits = graph.add("Reshape", flat, np.array([0, n_classes - 1, -1]))
    logits = graph.add("Pad", logits, np.array([0, 0, 0, 0, 1, 0]))  # the last class has logit 0
    below = graph.add("Sub", logits, graph.reduce("Max", logits))
    log_p = graph.add("LogSoftmax", graph.add("Cast", below, to=graph.float), axis=1)
    p = graph.add("Exp", log_p)
    mean = graph.add("ReduceMean", p, np.array([2]), keepdims=0)
    mean = graph.add("Div", mean, graph.reduce("Sum", mean))
    energy = graph.add("ReduceMean", graph.add("Mul", p, log_p), np.array([2]), keepdims=0)
    return mean, graph.add("Neg", graph.reduce("Sum", energy))


def _add_probability(graph: Graph, surprise: str, doubt: Doubt) -> str:
    """Probability (N, 1) of being OOD, in float64: `bacoun.uncertainty.Doubt.probability`."""
    one = np.array(1.0)
    ratio = graph.add("Add", graph.add("Div", surprise, np.array(OOD_SCALE)), one)
    less = graph.add("Mul", graph.add("Log", ratio), np.array(2.0))
    prior = math.log(doubt.ood_prior / (1 - doubt.ood_prior)) - math.log(OOD_SCALE)
    log_odds = graph.add("Add", graph.add("Sub", surprise, less), np.array(prior))
    return graph.add("Sigmoid", graph.add("Min", log_odds, np.array(math.log(LARGEST_ODDS))))


def _add_known(graph: Graph, kappa: str, probability: str, like_this: str) -> str:
    """Share (N, 1) of the noise in the weights' draws that is known, in float64."""
    squared = graph.add("Mul", like_this, like_this)
    enough = graph.add("Div", squared, graph.add("Add", squared, np.array(ENOUGH_ROWS**2)))
    not_ood = graph.add("Sub", np.array(1.0), graph.add("Max", kappa, probability))
    return graph.add("Mul", enough, not_ood)


def _add_doubt(
    graph: Graph, mean: str, noise: str, kappa: str, known: str, n_classes: int
) -> tuple[str, str]:
    """Mean probabilities (N, K) and noise (N, 1) with doubt; see `bacoun.uncertainty.doubted`."""
    hedge, known = (graph.add("Cast", share, to=graph.float) for share in (kappa, known))
    kept = graph.add("Sub", np.float32(1), hedge)
    even = graph.add("Div", hedge, np.float32(n_classes))
    return graph.add("Add", graph.add("Mul", kept, mean), even), graph.add("Mul", known, noise)


def _add_parts(graph: Graph, mean: str, noise: str, n_classes: int) -> dict[str, str]:
    """The entropy of the mean (N, K), split by the mean entropy of the draws (N, 1)."""
    log_mean = graph.add("Log", graph.add("Max", mean, np.float32(1e-38)))
    gain = graph.reduce("Sum", graph.add("Mul", mean, log_mean))
    zero, most = np.float32(0), np.float32(math.log(n_classes))
    total = graph.add("Min", graph.add("Max", graph.add("Neg", gain), zero), most)
    aleatoric = graph.add("Min", graph.add("Max", noise, zero), total)
    return {
        "total": total,
        "aleatoric": aleatoric,
        "epistemic": graph.add("Sub", total, aleatoric),
    }
