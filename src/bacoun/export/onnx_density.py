"""How unfamiliar points are, as part of an ONNX graph: flows, trees of categories, and doubt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from bacoun.boundary import CompactShell, FlowShell, MixedShell
from bacoun.boundary.categories import CategoryTree
from bacoun.boundary.flow import Flow
from bacoun.boundary.gaussians import ClassGaussians
from bacoun.boundary.realnvp import LARGEST_LOG_SCALE
from bacoun.classifier import BaCOUnClassifier
from bacoun.export.onnx_graph import Graph
from bacoun.features import LearnedFeatures
from bacoun.uncertainty.doubt import (
    ELBOW,
    LARGEST_ODDS,
    LARGEST_SCORE,
    LEVELS,
    LOGIT_95,
    Doubt,
    Survival,
    Tail,
)


def add_views(
    graph: Graph, points: str, logits: str, classifier: BaCOUnClassifier, doubt: Doubt
) -> dict[str, str]:
    """Views (N, 1) of how unusual points are, by name, in float64."""
    if "boundary" in doubt.views:
        features = classifier.features_
        is_joint = isinstance(features, LearnedFeatures) and features.joint_softmax
        return {"boundary": _add_log_odds(graph, logits, is_joint)}
    return _add_scores(graph, points, classifier.boundary_)


def add_surprise(graph: Graph, views: dict[str, str], epistemic: str, doubt: Doubt) -> str:
    """Surprise (N, 1), in float64: `Doubt.surprise`; `epistemic` (N, 1) is that of the weights."""
    epistemic = graph.add("Cast", epistemic, to=graph.double)
    disagreement = graph.add("Log", graph.add("Add", epistemic, np.array(doubt.agreement)))
    summed = _add_evidence(graph, disagreement, doubt.disagreement, ELBOW)
    for name, (weight, beside) in doubt.weights.items():
        elbow = math.inf if beside else ELBOW
        evidence = _add_evidence(graph, views[name], doubt.views[name], elbow)
        summed = graph.add("Add", summed, graph.add("Mul", evidence, np.array(weight)))
    return _add_survival(graph, summed, doubt.total)


def _add_survival(graph: Graph, evidence: str, survival: Survival) -> str:
    """`Survival.surprise`."""
    left, right = np.array(survival.quantiles[:-1]), np.array(survival.quantiles[1:])
    inside = graph.add("Max", graph.add("Sub", evidence, left), np.array(0.0))
    inside = graph.add("Min", inside, right - left)
    usual = graph.add("MatMul", inside, np.array(survival.slopes)[:, None])
    usual = graph.add("Add", usual, np.array(-math.log(1 - LEVELS[0])))
    return graph.add("Add", usual, _add_evidence(graph, evidence, survival.tail, math.inf))


def add_hedge(graph: Graph, views: dict[str, str], doubt: Doubt) -> str:
    """Share (N, 1) of the uniform distribution in the prediction, in float64: `Doubt.hedge`."""
    weighted, shares, squares = [], [], []
    share: str | np.ndarray
    for name, (weight, beside) in doubt.weights.items():
        tail = doubt.views[name]
        standard = _add_standardized(graph, views[name], tail)
        if beside:
            beyond = _add_excess(graph, standard)  # of categories: ONNX has no residual
            squares.append(graph.add("Mul", beyond, beyond))
            continue
        distance = _add_distance(graph, standard, tail)
        square, share = graph.add("Mul", distance, distance), np.array(weight)
        if name == "gaussian":
            share = graph.add("Max", square, np.array(1.0))
        weighted.append(graph.add("Mul", square, share))
        shares.append(share)
    squares.append(graph.add("Div", graph.add("Sum", *weighted), graph.add("Sum", *shares)))
    prior_odds = doubt.ood_prior / (1 - doubt.ood_prior)
    power = np.array(doubt.power / 2)
    odds = graph.add(
        "Mul", graph.add("Pow", graph.add("Sum", *squares), power), np.array(prior_odds)
    )
    odds = graph.add("Min", odds, np.array(LARGEST_ODDS))
    known = graph.add("Div", np.array(1.0), graph.add("Add", odds, np.array(1.0)))
    return graph.add("Sub", np.array(1.0), known)


def _add_standardized(graph: Graph, score: str, tail: Tail) -> str:
    """`Tail.standardized`."""
    finite = graph.add("Max", score, np.array(-LARGEST_SCORE))
    finite = graph.add("Min", finite, np.array(LARGEST_SCORE))
    above = graph.add("Sub", finite, np.array(tail.median))
    return graph.add("Div", above, np.array(tail.spread))


def _add_excess(graph: Graph, standard: str) -> str:
    return graph.add("Max", graph.add("Sub", standard, np.array(1.0)), np.array(0.0))


def _add_tail(graph: Graph, standard: str, tail: Tail) -> str:
    """Minus the log probability of at least this excess over the 95 % quantile."""
    excess = graph.add("Mul", _add_excess(graph, standard), np.array(tail.shape / tail.scale))
    logarithm = graph.add("Log", graph.add("Add", excess, np.array(1.0)))
    return graph.add("Div", logarithm, np.array(tail.shape))


def _add_distance(graph: Graph, standard: str, tail: Tail) -> str:
    """`Tail.distance`."""
    inside = graph.add("Max", graph.add("Min", standard, np.array(1.0)), np.array(0.0))
    beyond = graph.add("Mul", _add_tail(graph, standard, tail), np.array(tail.scale))
    return graph.add("Add", inside, beyond)


def _add_evidence(graph: Graph, score: str, tail: Tail, elbow: float) -> str:
    """`Tail.evidence` of a one-sided tail."""
    standard = _add_standardized(graph, score, tail)
    above = _add_tail(graph, standard, tail)
    if elbow == math.inf:
        return above
    inside = graph.add("Sub", graph.add("Min", standard, np.array(1.0)), np.array(elbow))
    grown = graph.add("Exp", graph.add("Mul", inside, np.array(LOGIT_95)))  # at most 19
    return graph.add("Add", above, graph.add("Log", graph.add("Add", grown, np.array(1.0))))


def _add_scores(graph: Graph, points: str, boundary: Any) -> dict[str, str]:
    """Scores (N, 1) by name, in float64: `unfamiliarity` of the boundary."""
    densities = {}
    numbers, shell = points, boundary
    if isinstance(boundary, MixedShell):
        shell = boundary.shell_
        is_category = np.array(boundary.n_categories_) > 0
        categories, places = np.flatnonzero(is_category), np.flatnonzero(~is_category)
        numbers = graph.add("Gather", points, places, axis=1)
        columns = _add_columns(graph, points, numbers, categories, boundary.tree_)
        tree = _add_tree(graph, columns, boundary.tree_)
        weighted = graph.add("Add", tree, boundary.log_weights_.double())
        densities["categories"] = weighted
    if shell is not None:
        numbers = graph.add("Cast", numbers, to=graph.double)
        flows = _add_class_log_prob(graph, numbers, shell)
        whole = graph.add("Add", flows, tree) if "categories" in densities else flows
        densities["density"] = whole
    if isinstance(shell, CompactShell):
        densities["gaussian"] = _add_gaussians(graph, numbers, shell.gaussians_)
    return {
        name: graph.add("Neg", graph.reduce("LogSumExp", each)) for name, each in densities.items()
    }


def _add_gaussians(graph: Graph, numbers: str, gaussians: ClassGaussians) -> str:
    """Log density (N, K) in each class: `ClassGaussians.log_prob` without components."""
    n_classes, dimension, _ = gaussians.whitening_.shape
    centered = graph.add("Sub", numbers, gaussians.mean_)
    white = graph.add("MatMul", centered, gaussians.whitening_.flatten(0, 1).T.contiguous())
    white = graph.add("Sub", white, gaussians.centers_.flatten())
    white = graph.add("Reshape", white, np.array([-1, n_classes, dimension]))
    squares = graph.add("ReduceSumSquare", white, np.array([2]), keepdims=0)
    return graph.add("Sub", gaussians.constants, graph.add("Mul", squares, np.array(0.5)))


def add_codes(
    graph: Graph, points: str, categories: np.ndarray, sizes: np.ndarray
) -> tuple[str, str]:
    """Codes (N, C) of categories, as integers, and whether each was seen in training."""
    given = graph.add("Gather", points, categories, axis=1)
    codes = graph.add("Cast", given, to=graph.integer)
    whole = graph.add("Equal", graph.add("Cast", codes, to=graph.float), given)
    above = graph.add("GreaterOrEqual", codes, np.array(0))
    known = graph.add("And", above, graph.add("Less", codes, sizes))
    return codes, graph.add("And", known, whole)


def _add_columns(
    graph: Graph, points: str, numbers: str, categories: np.ndarray, tree: CategoryTree
) -> list[str]:
    """Each category (N, 1), unseen ones last, then each number in bins: `CategoryTree`."""
    sizes = np.array(tree.sizes_)
    codes, known = add_codes(graph, points, categories, sizes)
    codes = graph.add("Where", known, codes, sizes)
    columns = [graph.add("Gather", codes, np.array([j]), axis=1) for j in range(len(sizes))]
    for number, cuts in enumerate(tree.cuts_):
        value = graph.add("Gather", numbers, np.array([number]), axis=1)
        above = graph.add("Cast", graph.add("Greater", value, cuts), to=graph.integer)
        columns.append(graph.reduce("Sum", above))
    return columns


def _add_tree(graph: Graph, columns: list[str], tree: CategoryTree) -> str:
    """Log p(categories | class, numbers), (N, K): `CategoryTree.log_prob`."""
    each = []
    for child, (table, parent) in enumerate(zip(tree.tables_, tree.parents_, strict=True)):
        cell = columns[child]
        if parent >= 0:
            first = graph.add("Mul", columns[parent], np.array(table.shape[2]))
            cell = graph.add("Add", first, cell)
        found = graph.add("Gather", table.flatten(1).T.contiguous().double(), cell)
        each.append(graph.add("Squeeze", found, np.array([1])))
    return graph.add("Sum", *each)


def _add_class_log_prob(graph: Graph, points: str, boundary: Any) -> str:
    """Log density (N, K) in each class, of standardized points (N, D): `class_log_prob`."""
    shell = boundary
    if isinstance(boundary, CompactShell) and not boundary.compact_:
        shell = boundary.shell_
    if not isinstance(shell, FlowShell):
        kind = "its principal components" if isinstance(shell, CompactShell) else "code of your own"
        raise ValueError(
            "boundary must be flows over the inputs themselves to be exported with doubt; "
            f"{type(shell).__name__} has {kind}. Fit with boundary='flow-shell', or ood_prior=0."
        )
    each = [_add_log_prob(graph, points, flow) for flow in shell.flows_]
    return graph.add("Add", graph.add("Concat", *each, axis=1), shell.log_weights_.double())


def _add_log_odds(graph: Graph, logits: str, joint_softmax: bool) -> str:
    """Log-odds (N, 1) of boundary against data, from logits (N, K+1) with the boundary last."""
    logits = graph.add("Cast", logits, to=graph.double)
    boundary = graph.add("Gather", logits, np.array([-1]), axis=1)
    if not joint_softmax:
        return boundary
    classes = graph.add("Slice", logits, np.array([0]), np.array([-1]), np.array([1]))
    return graph.add("Sub", boundary, graph.reduce("LogSumExp", classes))


def _add_log_prob(graph: Graph, points: str, flow: Flow) -> str:
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


def _add_couplings(graph: Graph, standard: str, flow: Flow) -> tuple[str, list[str]]:
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


def _add_dense(graph: Graph, value: str, weight: Tensor, bias: Tensor) -> str:
    """A dense layer in float64."""
    wide = [graph.add("Cast", each, to=graph.double) for each in (weight, bias)]
    return graph.add("Gemm", value, *wide, transB=1)
