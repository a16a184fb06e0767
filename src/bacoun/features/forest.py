"""Forest: randomized decision trees whose out-of-bag votes are inputs of the network.

Networks need many rows to learn a step or a threshold in one column; trees find them at once.
"""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from joblib import cpu_count, effective_n_jobs
from torch import Generator, Tensor

from bacoun.engine.randomness import draw_seed, hash_rows, mix_bits
from bacoun.files.persistence import SavesAttributes

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier

_CHUNK, _TREES_AT_ONCE = 8192, 10  # rows and trees that fit into the processor's cache
_BAG_SHARE = 0.63  # of the rows, as many as differ in a bootstrap sample
_LARGEST_BAG = 10_000  # rows of a tree; more make fits slow and votes little better
SMOOTHING = 0.1  # weight of the class frequencies in a vote, so that its logarithm is finite


class _Tree(NamedTuple):
    """Nodes of one tree; a leaf is its own child and has an infinite threshold."""

    features: np.ndarray  # (n,) which column is compared
    thresholds: np.ndarray  # (n,) float32; up to this, the next node is the left child
    children: np.ndarray  # (n,) the left child; the right one is the next node
    values: np.ndarray  # (n, K) class frequencies


@dataclass(kw_only=True, eq=False)
class Forest(SavesAttributes):
    """Randomized trees, half of them with the best thresholds and half with random ones.

    Which rows a tree is fitted to depends only on a hash of the row. So copies of a row are in the
    same bags, and the votes of trees that have not seen a row can be found without a list of rows.
    From the root of a tree to a leaf there are at most `depth` comparisons.
    """

    n_trees: int = 200
    depth: int = 10

    _nodes = ("features_", "thresholds_", "children_", "roots_", "values_")
    _saved = (*_nodes, "frequencies_", "seed_", "share_")

    def fit(
        self,
        points: Tensor,
        labels: Tensor,
        *,
        generator: Generator,
        sample_weight: Tensor | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Fit to points (N, D) with labels (N,) in 0..K-1, each with a weight."""
        from sklearn.tree import DecisionTreeClassifier  # slow to import, and only fits need it

        table = np.ascontiguousarray(points.cpu().numpy(), dtype=np.float32)
        classes = labels.cpu().numpy()
        weights = np.ones(len(table)) if sample_weight is None else sample_weight.cpu().numpy()
        counts = np.bincount(classes, weights)
        self.seed_, self.share_ = draw_seed(generator), min(_BAG_SHARE, _LARGEST_BAG / len(table))
        self.frequencies_ = torch.from_numpy(counts / counts.sum()).to(points)
        hashes = hash_rows(points)

        def grow(index: int) -> _Tree:
            bag = np.flatnonzero(_in_bag(hashes, self.seed_, index, self.share_))
            if len(bag) == 0:
                bag = np.arange(len(table))
            tree = DecisionTreeClassifier(
                splitter="random" if index % 2 else "best",
                max_features="sqrt",
                max_depth=self.depth,
                random_state=(self.seed_ + index) % 2**31,
            )
            tree.fit(table[bag], classes[bag], sample_weight=weights[bag], check_input=False)
            return _nodes(tree, len(counts))

        # Growing a tree releases the interpreter lock. A cluster has more jobs than this machine.
        n_threads = min(effective_n_jobs(n_jobs), cpu_count())
        with ThreadPoolExecutor(n_threads) as pool, warnings.catch_warnings():
            # Few rows of many classes are no regression problem.
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
            trees = list(pool.map(grow, range(self.n_trees)))
        sizes = np.array([len(tree.features) for tree in trees])
        roots = sizes.cumsum() - sizes
        features, thresholds, children, values = map(np.concatenate, zip(*trees, strict=True))
        children = children + roots.repeat(sizes)
        integers = (features, children, roots)
        self.features_, self.children_, self.roots_ = (
            torch.from_numpy(numbers.astype(np.int32)).to(points.device) for numbers in integers
        )
        self.thresholds_ = torch.from_numpy(thresholds).to(points.device)
        self.values_ = torch.from_numpy(values.astype(np.float32)).to(points.device)
        return self

    def votes(self, points: Tensor, *, out_of_bag: bool = False) -> Tensor:
        """Logarithms (N, K) of smoothed class frequencies in the leaves of points (N, D).

        They sum to 0 over the classes. Of two classes, there is one column, of the second. With
        `out_of_bag`, only trees vote that were not fitted to the point, or would not have been.
        """
        votes = [self._shares(chunk, out_of_bag) for chunk in points.split(_CHUNK)]
        smoothed = (1 - SMOOTHING) * torch.cat(votes) + SMOOTHING * self.frequencies_
        logs = smoothed.log()
        logs = logs - logs.mean(dim=1, keepdim=True)
        return logs[:, 1:] if logs.shape[1] == 2 else logs

    def out_of_bag_accuracy(
        self, points: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> float:
        """Accuracy on points (N, D) of `fit`, by trees that were not fitted to them."""
        is_right = self._shares(points, out_of_bag=True).argmax(dim=1) == labels
        weights = torch.ones_like(labels) if sample_weight is None else sample_weight
        return float((weights.double() * is_right).sum() / weights.double().sum())

    def _shares(self, points: Tensor, out_of_bag: bool) -> Tensor:
        """Mean (N, K) of the class frequencies in the leaves, with the overall ones as one vote."""
        weights = torch.ones(len(points), self.n_trees, dtype=points.dtype, device=points.device)
        if out_of_bag:
            hashes = hash_rows(points)
            for index in range(self.n_trees):
                in_bag = _in_bag(hashes, self.seed_, index, self.share_)
                weights[:, index] = torch.from_numpy(~in_bag).to(weights)
        sums = torch.nn.functional.embedding_bag(
            self._leaves(points), self.values_, mode="sum", per_sample_weights=weights
        )
        return (sums + self.frequencies_) / (weights.sum(dim=1, keepdim=True) + 1)

    def _leaves(self, points: Tensor) -> Tensor:
        """The leaf (N, T) that each point (N, D) falls into."""
        cells, n_points = points.flatten(), len(points)
        firsts = torch.arange(n_points, dtype=torch.int32, device=points.device) * points.shape[1]
        leaves = []
        for roots in self.roots_.split(_TREES_AT_ONCE):
            nodes = roots.repeat(n_points)
            first = firsts.repeat_interleave(len(roots))
            for _ in range(self.depth):
                values = cells.index_select(0, first + self.features_.index_select(0, nodes))
                is_right = values > self.thresholds_.index_select(0, nodes)
                nodes = self.children_.index_select(0, nodes) + is_right
            leaves.append(nodes.view(n_points, -1))
        return torch.cat(leaves, dim=1)


def _nodes(tree: DecisionTreeClassifier, n_classes: int) -> _Tree:
    """Nodes in an order in which the right child follows the left one."""
    grown, order = tree.tree_, [0]
    for node in order:  # breadth first; the list grows meanwhile
        if grown.children_left[node] >= 0:
            order += [grown.children_left[node], grown.children_right[node]]
    nodes = np.array(order)
    is_leaf = grown.children_left[nodes] < 0
    position = np.empty_like(nodes)
    position[nodes] = np.arange(len(nodes))
    children = np.where(is_leaf, np.arange(len(nodes)), position[grown.children_left[nodes]])
    exact = grown.threshold[nodes]
    rounded = exact.astype(np.float32)  # down, so that float32 inputs compare the same
    thresholds = np.where(rounded > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    counts = grown.value[nodes, 0]
    values = np.zeros((len(nodes), n_classes))
    values[:, tree.classes_] = counts / counts.sum(axis=1, keepdims=True)
    return _Tree(
        np.where(is_leaf, 0, grown.feature[nodes]),
        np.where(is_leaf, np.float32(np.inf), thresholds),
        children,
        values,
    )


def _in_bag(hashes: np.ndarray, seed: int, tree: int, share: float) -> np.ndarray:
    """Whether rows of these hashes (N,) are in the bag of a tree: a share of all rows."""
    offset = np.uint64((seed + tree * 0x9E3779B97F4A7C15) % 2**64)
    with np.errstate(over="ignore"):
        return mix_bits(hashes + offset) < np.uint64(math.floor(share * 2**64))
