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
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bacoun.atomic import atomic_write
from bacoun.base import FAR
from bacoun.boundary import CompactShell, FlowShell
from bacoun.boundary.flow import LARGEST_LOG_SCALE, Flow
from bacoun.classifier import BaCOUnClassifier
from bacoun.features import LearnedFeatures
from bacoun.features.networks import Dropout
from bacoun.posterior.head import ReducedHead
from bacoun.uncertainty.doubt import LARGEST_ODDS, Doubt

_OPSET, _IR_VERSION = 18, 8  # of 2022, so that runtimes need not be new


def export_onnx(
    classifier: BaCOUnClassifier,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted classifier atomically as an ONNX graph.

    The graph takes `X`, float32 of shape (N, D) for any N, in the units of the training set, and
    gives `probabilities` (N, K), `total`, `aleatoric`, `epistemic` and, with doubt, `ood_score` and
    `p_ood`, the `ood_probability`, each (N,). Its metadata hold
    `classes` and `feature_names` as JSON, and `bacoun_version`. It checks nothing: NaN gives NaN.

    Parameters
    ----------
    classifier : BaCOUnClassifier
        With a perceptron as its network, and a posterior of "hmc", "nuts" or "laplace"; with doubt,
        also a boundary of "flow-shell", or "compact-shell" for up to 128 inputs.
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
    graph = _Graph()
    points = _add_standardization(graph, classifier)
    features, logits = _add_network(graph, points, classifier)
    mean, noise = _add_moments(graph, _add_coordinates(graph, features, classifier), classifier)
    n_classes, doubt = len(classifier.classes_), classifier.doubt_
    columns = _add_parts(graph, mean, noise, n_classes)
    if doubt is not None:
        score = _add_unfamiliarity(graph, points, logits, classifier, doubt)
        ood_score = _add_ood_score(graph, score, columns["epistemic"], doubt)
        kappa = _add_ood_probability(graph, score, doubt)
        mean, noise = _add_doubt(graph, mean, noise, kappa, n_classes)
        columns = _add_parts(graph, mean, noise, n_classes)
        for name, value in (("ood_score", ood_score), ("p_ood", kappa)):
            columns[name] = graph.add("Cast", value, to=graph.float)
    outputs = {"probabilities": (mean, ["N", n_classes])}
    for name, value in columns.items():
        outputs[name] = (graph.add("Squeeze", value, np.array([1])), ["N"])
    return graph.to_model({"X": ["N", classifier.n_features_in_]}, outputs, metadata)


class _Graph:
    """Nodes and constants of a graph, each value known by its name."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError("export_onnx needs onnx: pip install 'bacoun[onnx]'.") from error
        self._onnx: Any = onnx
        self.float, self.double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Append an operation; an input is the name of a value, or a constant array."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, names, [output], **attributes))
        return output

    def reduce(self, operator: str, value: str) -> str:
        """Append "Sum", "Max" or the like over axis 1, which stays and has length 1."""
        return self.add(f"Reduce{operator}", value, np.array([1]), keepdims=1)

    def _constant(self, value: Any) -> str:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        name = f"constant_{len(self._constants)}"
        tensor = self._onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
        self._constants.append(tensor)
        return name

    def to_model(
        self,
        inputs: dict[str, list[str | int]],
        outputs: dict[str, tuple[str, list[Any]]],
        metadata: dict[str, str],
    ) -> bytes:
        """The finished model; `outputs` maps a name to the value it stands for and its shape."""
        helper = self._onnx.helper
        nodes = self._nodes + [
            helper.make_node("Identity", [value], [name]) for name, (value, _) in outputs.items()
        ]
        described = [(name, shape) for name, (_, shape) in outputs.items()]
        graph = helper.make_graph(
            nodes,
            "bacoun",
            [helper.make_tensor_value_info(n, self.float, shape) for n, shape in inputs.items()],
            [helper.make_tensor_value_info(n, self.float, shape) for n, shape in described],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="bacoun",
            producer_version=metadata["bacoun_version"],
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


# --- the steps of a prediction, in order ---------------------------------------------------------


def _add_standardization(graph: _Graph, classifier: BaCOUnClassifier) -> str:
    wide = graph.add("Cast", "X", to=graph.double)
    shifted = graph.add("Sub", wide, classifier.mean_)
    standard = graph.add("Div", shifted, classifier.scale_)
    clipped = graph.add("Max", graph.add("Min", standard, np.array(FAR)), np.array(-FAR))
    return graph.add("Cast", clipped, to=graph.float)


def _add_network(graph: _Graph, points: str, classifier: BaCOUnClassifier) -> tuple[str, str]:
    """Features (N, L) and the network's own logits (N, K), or (N, K+1) with the edge last."""
    if not isinstance(classifier.features_, LearnedFeatures):
        raise ValueError(
            "features must be 'learned' to be exported; got "
            f"{type(classifier.features_).__name__}. Fit with features='learned'."
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


def _add_layer(graph: _Graph, layer: nn.Module, value: str) -> str:
    if isinstance(layer, nn.Linear) and layer.bias is not None:
        return graph.add("Gemm", value, layer.weight, layer.bias, transB=1)
    if isinstance(layer, nn.LeakyReLU):
        return graph.add("LeakyRelu", value, alpha=float(layer.negative_slope))
    if isinstance(layer, Dropout | nn.Dropout | nn.Identity):
        return value
    raise ValueError(
        "only a perceptron of dense layers and LeakyReLU can be exported; this network has a "
        f"{type(layer).__name__}. Fit with features='learned'."
    )


def _add_coordinates(graph: _Graph, features: str, classifier: BaCOUnClassifier) -> str:
    """Coordinates (N, r + 1) that the draws multiply, in float64 because far away terms cancel."""
    posterior = classifier.posterior_
    if not isinstance(posterior, ReducedHead):
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


def _add_moments(graph: _Graph, coordinates: str, classifier: BaCOUnClassifier) -> tuple[str, str]:
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


def _add_unfamiliarity(
    graph: _Graph, points: str, logits: str, classifier: BaCOUnClassifier, doubt: Doubt
) -> str:
    """Unfamiliarity (N, 1), in float64: `bacoun.uncertainty.Doubt.score`."""
    if "edge" in doubt.tails:
        score = _add_log_odds(graph, logits, classifier.features_.joint_softmax)
    else:
        score = graph.add("Neg", _add_log_density(graph, points, classifier.boundary_))
    (tail,) = doubt.tails.values()
    above = graph.add("Sub", score, np.array(tail.median))
    return graph.add("Div", above, np.array(tail.spread))


def _add_log_odds(graph: _Graph, logits: str, joint_softmax: bool) -> str:
    """Log-odds (N, 1) of edge against data, from logits (N, K+1) with the edge last."""
    logits = graph.add("Cast", logits, to=graph.double)
    edge = graph.add("Gather", logits, np.array([-1]), axis=1)
    if not joint_softmax:
        return edge
    classes = graph.add("Slice", logits, np.array([0]), np.array([-1]), np.array([1]))
    return graph.add("Sub", edge, graph.reduce("LogSumExp", classes))


def _add_log_density(graph: _Graph, points: str, boundary: Any) -> str:
    """Log density (N, 1) of standardized points (N, D), in float64: `FlowShell.log_prob`."""
    shell = boundary
    if isinstance(boundary, CompactShell) and not boundary.compact_:
        shell = boundary.shell_
    if not isinstance(shell, FlowShell):
        kind = "its principal components" if isinstance(shell, CompactShell) else "code of your own"
        raise ValueError(
            "boundary must be flows over the inputs themselves to be exported with doubt; "
            f"{type(shell).__name__} has {kind}. Fit with boundary='flow-shell', or ood_prior=0."
        )
    points = graph.add("Cast", points, to=graph.double)
    each = [_add_log_prob(graph, points, flow) for flow in shell.flows_]
    weighted = graph.add("Add", graph.add("Concat", *each, axis=1), shell.log_weights_.double())
    return graph.reduce("LogSumExp", weighted)


def _add_log_prob(graph: _Graph, points: str, flow: Flow) -> str:
    """Log density (N, 1) of points (N, D) under one flow: `Flow.log_prob`."""
    center, scale = flow.center_.double(), flow.scale_.double()
    standard = graph.add("Div", graph.add("Sub", points, center), scale)
    latent, log_scales = _add_couplings(graph, standard, flow)
    constant = scale.log().sum() + 0.5 * len(center) * math.log(2 * math.pi)
    squares = graph.reduce("SumSquare", latent)
    value = graph.add("Sub", graph.add("Mul", squares, np.array(-0.5)), constant)
    for log_scale in log_scales:
        value = graph.add("Add", value, graph.reduce("Sum", log_scale))
    return value


def _add_couplings(graph: _Graph, standard: str, flow: Flow) -> tuple[str, list[str]]:
    """Latent points (N, D), even inputs before odd ones, and the log scales of each coupling."""
    n_inputs = len(flow.center_)
    if flow.blocks == 0:
        return standard, []
    if flow.batch_norm or n_inputs == 1:
        kind = "with batch_norm" if flow.batch_norm else "of a single input"
        raise ValueError(
            "the flows of the boundary must be plain couplings to be exported with doubt; these "
            f"are flows {kind}. Fit with ood_prior=0."
        )
    halves = [
        graph.add("Gather", standard, np.arange(first, n_inputs, 2), axis=1) for first in (0, 1)
    ]
    log_scales = []
    for turn, coupling in enumerate(flow.module_.transform.transforms):
        kept, moved = halves if turn % 2 == 0 else halves[::-1]
        *hidden, last = list(coupling.hyper)[::2]  # between them, ReLU
        for layer in hidden:
            kept = graph.add("Relu", _add_dense(graph, kept, layer.weight, layer.bias))
        shift = _add_dense(graph, kept, last.weight[0::2], last.bias[0::2])
        scale = _add_dense(graph, kept, last.weight[1::2], last.bias[1::2])
        bound = graph.add("Div", graph.add("Abs", scale), np.array(LARGEST_LOG_SCALE))
        log_scales.append(graph.add("Div", scale, graph.add("Add", bound, np.array(1.0))))
        moved = graph.add("Mul", moved, graph.add("Exp", log_scales[-1]))
        halves[1 - turn % 2] = graph.add("Add", moved, shift)
    return graph.add("Concat", *halves, axis=1), log_scales


def _add_dense(graph: _Graph, value: str, weight: Tensor, bias: Tensor) -> str:
    """A dense layer in float64."""
    wide = [graph.add("Cast", each, to=graph.double) for each in (weight, bias)]
    return graph.add("Gemm", value, *wide, transB=1)


def _add_ood_score(graph: _Graph, score: str, epistemic: str, doubt: Doubt) -> str:
    """OOD score (N, 1), in float64: `bacoun.uncertainty.Doubt.ood_score`."""
    epistemic = graph.add("Cast", epistemic, to=graph.double)
    ratio = graph.add("Div", epistemic, np.array(doubt.disagreement))
    return graph.add("Add", score, graph.add("Log", graph.add("Add", ratio, np.array(1.0))))


def _add_ood_probability(graph: _Graph, score: str, doubt: Doubt) -> str:
    """Probability (N, 1) of being unknown, in float64: `bacoun.uncertainty.Doubt.probability`."""
    outside = graph.add("Max", score, np.array(0.0))
    prior_odds = doubt.ood_prior / (1 - doubt.ood_prior)
    odds = graph.add("Pow", outside, np.array(doubt.power))
    odds = graph.add("Mul", odds, np.array(prior_odds))
    odds = graph.add("Min", odds, np.array(LARGEST_ODDS))
    known = graph.add("Div", np.array(1.0), graph.add("Add", odds, np.array(1.0)))
    return graph.add("Sub", np.array(1.0), known)


def _add_doubt(graph: _Graph, mean: str, noise: str, kappa: str, n_classes: int) -> tuple[str, str]:
    """Mean probabilities (N, K) and noise (N, 1) of points that are unknown with probability kappa.

    See `bacoun.uncertainty.doubted`.
    """
    unknown = graph.add("Cast", kappa, to=graph.float)
    known = graph.add("Sub", np.float32(1), unknown)
    even = graph.add("Div", unknown, np.float32(n_classes))
    return graph.add("Add", graph.add("Mul", known, mean), even), graph.add("Mul", known, noise)


def _add_parts(graph: _Graph, mean: str, noise: str, n_classes: int) -> dict[str, str]:
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
