"""How unfamiliar points are, as part of an ONNX graph: flows, trees of categories, and doubt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from bacoun.boundary import CompactShell, FlowShell, MixedShell
from bacoun.boundary.categories import CategoryTree
from bacoun.boundary.flow import Flow
from bacoun.boundary.realnvp import LARGEST_LOG_SCALE
from bacoun.classifier import BaCOUnClassifier
from bacoun.onnx_graph import Graph
from bacoun.uncertainty.doubt import WEIGHT_BELOW, Doubt, Tail


def add_unfamiliarity(
    graph: Graph, points: str, logits: str, classifier: BaCOUnClassifier, doubt: Doubt
) -> str:
    """Unfamiliarity (N, 1), in float64: `bacoun.uncertainty.Doubt.score`."""
    if "edge" in doubt.tails:
        joint_softmax = getattr(classifier.features_, "joint_softmax", False)
        return _add_standardized(
            graph, _add_log_odds(graph, logits, joint_softmax), doubt.tails["edge"]
        )
    scores = _add_scores(graph, points, classifier.boundary_)
    first, *others = doubt.tails
    score = _add_standardized(graph, scores[first], doubt.tails[first])
    for name in others:
        score = graph.add("Max", score, _add_beyond(graph, scores[name], doubt.tails[name]))
    return score


def _add_standardized(graph: Graph, score: str, tail: Tail) -> str:
    """`Tail.standardized`."""
    above = graph.add("Sub", score, np.array(tail.median))
    return graph.add("Div", above, np.array(tail.spread))


def _add_beyond(graph: Graph, score: str, tail: Tail) -> str:
    """`Tail.beyond`."""
    one = np.array(1.0)
    above = graph.add("Sub", _add_standardized(graph, score, tail), one)
    below = graph.add("Sub", np.array(tail.median), score)
    below = graph.add("Sub", graph.add("Div", below, np.array(tail.spread_below)), one)
    return graph.add("Max", above, graph.add("Mul", below, np.array(WEIGHT_BELOW)))


def _add_scores(graph: Graph, points: str, boundary: Any) -> dict[str, str]:
    """Scores (N, 1) by name, in float64: `unfamiliarity` of the boundary."""
    if not isinstance(boundary, MixedShell):
        points = graph.add("Cast", points, to=graph.double)
        densities = {"density": _add_class_log_prob(graph, points, boundary)}
    else:
        densities = _add_mixed(graph, points, boundary)
    return {
        name: graph.add("Neg", graph.reduce("LogSumExp", each)) for name, each in densities.items()
    }


def _add_mixed(graph: Graph, points: str, boundary: MixedShell) -> dict[str, str]:
    """Log densities (N, K) of whole rows and of their two parts: `MixedShell.unfamiliarity`."""
    is_category = np.array(boundary.n_categories_) > 0
    categories, places = np.flatnonzero(is_category), np.flatnonzero(~is_category)
    numbers = graph.add("Gather", points, places, axis=1)
    columns = _add_columns(graph, points, numbers, categories, boundary.tree_)
    tree = _add_tree(graph, columns, boundary.tree_)
    weighted = graph.add("Add", tree, boundary.log_weights_.double())
    if boundary.shell_ is None:
        return {"categories": weighted}
    numbers = graph.add("Cast", numbers, to=graph.double)
    flows = _add_class_log_prob(graph, numbers, boundary.shell_)
    return {"density": graph.add("Add", flows, tree), "numbers": flows, "categories": weighted}


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
    """Log-odds (N, 1) of edge against data, from logits (N, K+1) with the edge last."""
    logits = graph.add("Cast", logits, to=graph.double)
    edge = graph.add("Gather", logits, np.array([-1]), axis=1)
    if not joint_softmax:
        return edge
    classes = graph.add("Slice", logits, np.array([0]), np.array([-1]), np.array([1]))
    return graph.add("Sub", edge, graph.reduce("LogSumExp", classes))


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
