"""A fitted classifier -> one ONNX graph from raw inputs to all answers.

The graph is written out by hand, a line for each step of the prediction, so that nothing but `onnx`
is needed to make it, and nothing but a runtime to use it.
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

from bacoun.classifier import BaCOUnClassifier
from bacoun.estimator import FAR
from bacoun.features import LearnedFeatures
from bacoun.features.networks import Dropout
from bacoun.posterior.head import ReducedHead
from bacoun.whole import whole_file

_OPSET, _IR_VERSION = 18, 8  # of 2022, so that runtimes need not be new


def export_onnx(
    classifier: BaCOUnClassifier,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted classifier as an ONNX graph, whole or not at all.

    The graph takes `X`, float32 of shape (N, D) for any N, in the units of the training set, and
    gives `probabilities` (N, K), `total`, `aleatoric`, `epistemic` and, if the network has learned
    an edge class, `p_ood`, each (N,). Its metadata hold `classes` and `feature_names` as JSON, and
    `bacoun_version`. It checks nothing: NaN gives NaN.

    Parameters
    ----------
    classifier : BaCOUnClassifier
        With a perceptron as its network, and a posterior of "hmc", "nuts" or "laplace".
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
    with whole_file(target) as file:
        file.write(graph)


def _model_of(classifier: BaCOUnClassifier, metadata: dict[str, str]) -> bytes:
    graph = _Graph()
    features, probabilities = _add_network(
        graph, _add_standardisation(graph, classifier), classifier
    )
    outputs = {}
    ood = None
    if classifier.boundary_ is not None:
        ood = _add_ood_probability(graph, probabilities, classifier)
        outputs["p_ood"] = graph.add("Cast", ood, to=graph.float)
    coordinates = _add_coordinates(graph, features, ood if classifier.gated_ else None, classifier)
    outputs = _add_moments(graph, coordinates, classifier) | outputs
    shapes = {"probabilities": ["N", len(classifier.classes_)]}
    return graph.to_model(
        {"X": ["N", classifier.n_features_in_]},
        {name: (value, shapes.get(name, ["N"])) for name, value in outputs.items()},
        metadata,
    )


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


def _add_standardisation(graph: _Graph, classifier: BaCOUnClassifier) -> str:
    wide = graph.add("Cast", "X", to=graph.double)
    shifted = graph.add("Sub", wide, classifier.mean_)
    standard = graph.add("Div", shifted, classifier.scale_)
    clipped = graph.add("Max", graph.add("Min", standard, np.array(FAR)), np.array(-FAR))
    return graph.add("Cast", clipped, to=graph.float)


def _add_network(graph: _Graph, points: str, classifier: BaCOUnClassifier) -> tuple[str, str]:
    """Features (N, L) and the network's own class probabilities (N, C)."""
    if not isinstance(classifier.features_, LearnedFeatures):
        raise ValueError(
            "features must be 'learned' to be exported; got "
            f"{type(classifier.features_).__name__}. Fit with features='learned'."
        )
    body, head = classifier.features_.module_
    value = points
    for layer in _layers(body):
        value = _add_layer(graph, layer, value)
    return value, graph.add("Softmax", _add_layer(graph, head, value), axis=1)


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


def _add_ood_probability(graph: _Graph, probabilities: str, classifier: BaCOUnClassifier) -> str:
    """p(OOD) (N,) in float64, brought to a rare share; see `bacoun.features.gate.as_if_rare`."""
    share = classifier.ood_share_
    change = np.array(share / (1 - share) / classifier.edge_odds_)
    last = graph.add("Gather", probabilities, np.array(-1), axis=1)
    raw = graph.add("Cast", last, to=graph.double)
    rare = graph.add("Mul", raw, change)
    return graph.add("Div", rare, graph.add("Add", graph.add("Sub", np.array(1.0), raw), rare))


def _add_coordinates(
    graph: _Graph, features: str, ood: str | None, classifier: BaCOUnClassifier
) -> str:
    """What the draws are multiplied with (N, r + 1), in float64: far away the terms cancel."""
    if not isinstance(classifier.posterior_, ReducedHead):
        raise ValueError(
            "posterior must be 'hmc', 'nuts' or 'laplace' to be exported; got "
            f"{type(classifier.posterior_).__name__}. Fit with one of these."
        )
    gated = classifier.gated_
    bias = gated or classifier.posterior_.fit_intercept
    basis = classifier.posterior_.reduction_.basis.double()
    basis = basis[: len(basis) // 2] if gated else basis
    features = graph.add("Cast", features, to=graph.double)
    seen = graph.add("MatMul", features, basis[:-1] if bias else basis)
    if bias:
        seen = graph.add("Add", seen, basis[-1])

    def square(value: str) -> str:
        return graph.add("ReduceSumSquare", value, np.array([1]), keepdims=1)

    norm = graph.add("Add", square(features), np.array(float(bias)))
    left = graph.add("Max", graph.add("Sub", norm, square(seen)), np.array(0.0))
    if ood is not None:
        g = graph.add("Unsqueeze", ood, np.array([1]))
        rest = graph.add("Sub", np.array(1.0), g)
        near = graph.add("Mul", graph.add("Mul", rest, rest), left)
        far = graph.add("Mul", g, np.array(classifier.unknown_scale_))
        left = graph.add("Add", near, graph.add("Mul", graph.add("Mul", far, far), norm))
        seen = graph.add("Mul", seen, rest)
    return graph.add("Concat", seen, graph.add("Sqrt", left), axis=1)


def _add_moments(graph: _Graph, coordinates: str, classifier: BaCOUnClassifier) -> dict[str, str]:
    """Mean probabilities over draws, and their entropy in parts."""
    weights, n_classes = classifier.posterior_.weights_, len(classifier.classes_)
    flat = graph.add("MatMul", coordinates, graph.add("Cast", weights, to=graph.double))
    logits = graph.add("Reshape", flat, np.array([0, n_classes - 1, -1]))
    logits = graph.add("Pad", logits, np.array([0, 0, 0, 0, 1, 0]))  # the last class has logit 0
    below = graph.add("Sub", logits, graph.add("ReduceMax", logits, np.array([1]), keepdims=1))
    log_p = graph.add("LogSoftmax", graph.add("Cast", below, to=graph.float), axis=1)
    p = graph.add("Exp", log_p)
    mean = graph.add("ReduceMean", p, np.array([2]), keepdims=0)
    mean = graph.add("Div", mean, graph.add("ReduceSum", mean, np.array([1]), keepdims=1))
    energy = graph.add("ReduceSum", graph.add("Mul", p, log_p), np.array([1]), keepdims=0)
    noise = graph.add("Neg", graph.add("ReduceMean", energy, np.array([1]), keepdims=0))
    log_mean = graph.add("Log", graph.add("Max", mean, np.float32(1e-38)))
    gain = graph.add("ReduceSum", graph.add("Mul", mean, log_mean), np.array([1]), keepdims=0)
    zero, most = np.float32(0), np.float32(math.log(n_classes))
    total = graph.add("Min", graph.add("Max", graph.add("Neg", gain), zero), most)
    aleatoric = graph.add("Min", graph.add("Max", noise, zero), total)
    epistemic = graph.add("Sub", total, aleatoric)
    return {
        "probabilities": mean,
        "total": total,
        "aleatoric": aleatoric,
        "epistemic": epistemic,
    }
