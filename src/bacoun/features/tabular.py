"""TabularFeatures: an ensemble of small networks that also see the votes of a forest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Generator, Tensor

from bacoun.engine.randomness import as_generator, seeded, threads_for
from bacoun.engine.training import OnEpoch, assign_folds, epochs_for, train
from bacoun.features.forest import Forest
from bacoun.features.learned import MANY_NUMBERS, NO_CLASS
from bacoun.features.members import Members

_DEFAULT_STEPS = 6000
ChoosePriorScale = Callable[[Tensor, Tensor, Tensor, Tensor, int], float]
"""From features (M, N, L), labels, weights and folds, each (N,), and K to a scale."""
_MOST_JUDGED = 5000  # held-out rows that decide when training stops; more add time, not certainty


@dataclass(kw_only=True, repr=False, eq=False)
class TabularFeatures(BaseEstimator):
    """The last hidden layers of several small networks for tables, side by side.

    Each member holds out another part of the rows. So all rows together decide when training stops,
    and which prior of the last layer predicts rows best that the features were not fitted to.

    Parameters
    ----------
    n_members : int
        Number M of networks; at least 2.
    hidden : sequence of int
        Widths of the hidden layers of a member. The last is the number of its features.
    n_bins : int
        Quantile bins into which each number is encoded, beside the number itself.
    n_trees : int
        Trees of a random forest whose out-of-bag votes are further inputs: they find steps and
        thresholds that a network needs many more rows for. 0: no forest.
    tree_depth : int
        Comparisons from the root of a tree to a leaf, at most.
    embedding : int
        Entries of the learned embedding of each category.
    category_dropout : float
        Share of the categories that are hidden from the network in training. It then does not rely
        on a single column, nor on rare categories.
    input_dropout : float, optional
        Share of the numbers that are hidden from the network in training, so that it does not learn
        the noise in many of them. None: 0.5 if there are more than 50, otherwise 0.
    edge_weight : float
        Weight of an edge point in the loss; a data point has weight 1.
    edge_gradient : float
        Factor of the gradient that the hidden layers get from "data or edge?". The last layer
        learns it in any case.
    l2 : float
        Weight decay: `l2 / 2` times the squared weights is added to the summed loss.
    epochs : int, optional
        Passes over the data, at most. None: about 6000 steps, in 10 to 500 epochs; usually
        early stopping comes first.
    batch_size : int
        Points in a mini-batch.
    learning_rate : float
        Step size of Adam.
    patience : int
        Stop once the log loss of held-out rows has not improved for this many epochs.
    n_jobs : int, optional
        Threads that grow trees.

    Attributes
    ----------
    forest_ : Forest, or None without trees
    module_ : torch.nn.Module
        The members.
    prior_scale_ : float, or None if it was not asked for
        Prior standard deviation of the weights of the last layer that predicts held-out rows best.
    """

    n_members: int = 5
    hidden: Sequence[int] = (64, 16)
    n_bins: int = 8
    n_trees: int = 200
    tree_depth: int = 10
    embedding: int = 8
    category_dropout: float = 0.3
    input_dropout: float | None = None
    edge_weight: float = 0.1
    edge_gradient: float = 0.1
    l2: float = 1.0
    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float = 1e-3
    patience: int = 20
    n_jobs: int | None = None

    def fit(
        self,
        points: Tensor,
        labels: Tensor,
        *,
        edge: Tensor | None = None,
        edge_labels: Tensor | None = None,
        n_categories: Sequence[int] | None = None,
        sample_weight: Tensor | None = None,
        choose_prior_scale: ChoosePriorScale | None = None,
        generator: Generator | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train on points (N, D) and labels (N,) in 0..K-1, with or without edge points.

        Parameters
        ----------
        edge : Tensor of shape (n, D), optional
            Points on the edge of the data.
        edge_labels : Tensor of shape (n,), optional
            The class whose edge each point is on; -1 if unknown. None: edge points teach no class.
        n_categories : sequence of int, of length D, optional
            Number of categories of each column; 0 if it is continuous. None: all are.
        sample_weight : Tensor of shape (N,), optional
            Weight of each point in the loss, relative to their mean. None: 1.
        choose_prior_scale : callable, optional
            Finds the prior of the last layer that predicts held-out points best.
        generator : torch.Generator, optional
            Source of randomness. None: a fresh seed.
        on_epoch : callable, optional
            Called after each epoch with the number done and the number planned.
        """
        self._check(points)
        generator = as_generator(generator)
        self.n_categories_ = [0] * points.shape[1] if n_categories is None else list(n_categories)
        self.n_classes_, self.has_edge_ = int(labels.max()) + 1, edge is not None
        weights = points.new_ones(len(points)) if sample_weight is None else sample_weight
        weights = (weights / weights.mean()).to(points)
        votes = self._fit_forest(points, labels, weights, generator)
        with seeded(generator):
            self.module_ = self._new_members().to(points.device)
        numbers = self.module_.codes(points)[0]
        self.module_.numbers.learn_bins(torch.cat([numbers, votes], dim=1))
        folds = assign_folds(points, self.n_members, generator)
        data = [points, votes, labels, weights, folds]
        judged = torch.randperm(len(points), generator=generator)[:_MOST_JUDGED].to(points.device)
        held_out = [column[judged] for column in data]
        if edge is not None:
            unknown = labels.new_full((len(edge),), NO_CLASS)
            of_edge = [
                edge,
                self._votes(edge),
                unknown if edge_labels is None else edge_labels,
                weights.new_full((len(edge),), self.edge_weight),
                folds.new_full((len(edge),), -1),
            ]
            data = [torch.cat(pair) for pair in zip(data, of_edge, strict=True)]
        with threads_for(0):
            self.history_ = train(
                self.module_,
                self._loss,
                data,
                epochs=self.epochs or self._default_epochs(len(data[0])),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                l2=self.l2,
                patience=self.patience,
                held_out=held_out,
                held_out_loss=self._held_out_loss,
                generator=generator,
                on_epoch=on_epoch,
            )
            self.prior_scale_ = None
            if choose_prior_scale is not None:
                self.prior_scale_ = self._best_prior_scale(choose_prior_scale, *held_out)
        return self

    def _default_epochs(self, n_points: int) -> int:
        return epochs_for(_DEFAULT_STEPS, n_points, self.batch_size, fewest=10, most=500)

    def _check(self, points: Tensor) -> None:
        if points.ndim != 2:
            raise ValueError(
                f"TabularFeatures needs a table (N, D); got shape {tuple(points.shape)}. "
                "Use features='learned' for images."
            )
        if self.n_members < 2:
            raise ValueError(f"n_members must be at least 2; got {self.n_members}. Try 5.")

    def _fit_forest(
        self, points: Tensor, labels: Tensor, weights: Tensor, generator: Generator
    ) -> Tensor:
        """Grow the forest, if there is one; return standardized out-of-bag votes (N, V)."""
        self.forest_: Forest | None = None
        if self.n_trees == 0:
            return self._votes(points)
        self.forest_ = Forest(n_trees=self.n_trees, depth=self.tree_depth).fit(
            points, labels, sample_weight=weights, generator=generator, n_jobs=self.n_jobs
        )
        votes = self.forest_.votes(points, out_of_bag=True)
        spread = votes.std(dim=0, correction=0)
        self.votes_mean_ = votes.mean(dim=0)
        self.votes_scale_ = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        return (votes - self.votes_mean_) / self.votes_scale_

    def _votes(self, points: Tensor, *, out_of_bag: bool = False) -> Tensor:
        """Standardized votes (N, V) of the forest; none (N, 0) without one."""
        if self.forest_ is None:
            return points.new_zeros(len(points), 0)
        votes = self.forest_.votes(points, out_of_bag=out_of_bag)
        return (votes - self.votes_mean_) / self.votes_scale_

    def _new_members(self) -> Members:
        n_votes = 0 if self.forest_ is None else len(self.votes_mean_)
        many = self.n_categories_.count(0) > MANY_NUMBERS
        return Members(
            self.n_members,
            self.n_categories_,
            n_votes,
            self.n_classes_ + int(self.has_edge_),
            hidden=self.hidden,
            n_bins=self.n_bins,
            embedding=self.embedding,
            category_dropout=self.category_dropout,
            input_dropout=0.5 * many if self.input_dropout is None else self.input_dropout,
        )

    def _loss(
        self, points: Tensor, votes: Tensor, targets: Tensor, weights: Tensor, folds: Tensor
    ) -> Tensor:
        """Sum over members of the mean loss of the points that they do not hold out."""
        members = torch.arange(self.n_members, device=folds.device)[:, None]
        weights = weights * (folds != members)  # (M, n)
        features = self.module_.features(points, votes)
        logits = self.module_.outputs(features)
        loss = _cross_entropy(logits[..., : self.n_classes_], targets)
        if self.has_edge_:
            frozen = features.detach()
            scaled = frozen + self.edge_gradient * (features - frozen)
            log_odds = self.module_.outputs(scaled)[..., -1]
            is_edge = (folds < 0).to(log_odds).expand_as(log_odds)
            loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(
                log_odds, is_edge, reduction="none"
            )
        share_trained = 1 - 1 / self.n_members
        return (weights * loss).mean(dim=1).sum() / share_trained

    def _held_out_loss(
        self, points: Tensor, votes: Tensor, targets: Tensor, weights: Tensor, folds: Tensor
    ) -> Tensor:
        """Log loss of the classes, of each point under the member that holds it out."""
        logits = self.module_.outputs(self.module_.features(points, votes))
        held_out = logits[folds, torch.arange(len(folds), device=folds.device), : self.n_classes_]
        loss = torch.nn.functional.cross_entropy(held_out, targets, reduction="none")
        return (weights * loss).sum() / weights.sum()

    @torch.no_grad()
    def _best_prior_scale(
        self,
        choose: ChoosePriorScale,
        points: Tensor,
        votes: Tensor,
        labels: Tensor,
        weights: Tensor,
        folds: Tensor,
    ) -> float:
        features = self.module_.features(points, votes).double()
        return choose(features, labels, weights.double(), folds, self.n_classes_)

    @torch.no_grad()
    def transform(self, points: Tensor) -> Tensor:
        """Features (N, M L) of points (N, D)."""
        return self._joined(self.module_.features(points, self._votes(points)))

    @torch.no_grad()
    def transform_seen(self, points: Tensor) -> Tensor:
        """Features (N, M L) of points of `fit`, as if the forest had not seen them."""
        return self._joined(self.module_.features(points, self._votes(points, out_of_bag=True)))

    def _joined(self, features: Tensor) -> Tensor:
        """Features (N, M L) of all members: their inner product is the members' mean one."""
        return features.transpose(0, 1).flatten(1) / math.sqrt(self.n_members)

    @torch.no_grad()
    def transform_with_log_odds(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features (N, M L), and mean log-odds (N,) of edge against data; None without edge."""
        features = self.module_.features(points, self._votes(points))
        if not self.has_edge_:
            return self._joined(features), None
        return self._joined(features), self.module_.outputs(features)[..., -1].mean(dim=0)

    @torch.no_grad()
    def region_proba(self, points: Tensor) -> Tensor:
        """The members' mean probabilities (N, K), or (N, K+1) with the edge last."""
        logits = self.module_.outputs(self.module_.features(points, self._votes(points)))
        classes = logits[..., : self.n_classes_].softmax(dim=2)
        if not self.has_edge_:
            return classes.mean(dim=0)
        edge = logits[..., -1:]
        known = (-edge).sigmoid() * classes  # 1 - sigmoid would round to 0
        return torch.cat([known, edge.sigmoid()], dim=2).mean(dim=0)

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values from which `set_state` rebuilds the fitted network."""
        state = {
            "n_categories": self.n_categories_,
            "n_classes": self.n_classes_,
            "has_edge": self.has_edge_,
            "prior_scale": self.prior_scale_,
            "weights": dict(self.module_.state_dict()),
            "forest": None,
        }
        if self.forest_ is not None:
            state["forest"] = self.forest_.get_state()
            state |= {"votes_mean": self.votes_mean_, "votes_scale": self.votes_scale_}
        return state

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state`."""
        for name in ("n_categories", "n_classes", "has_edge", "prior_scale"):
            setattr(self, f"{name}_", state[name])
        self.forest_ = None
        if state["forest"] is not None:
            forest = Forest(n_trees=self.n_trees, depth=self.tree_depth)
            self.forest_ = forest.set_state(state["forest"])
            self.votes_mean_, self.votes_scale_ = state["votes_mean"], state["votes_scale"]
        with seeded(Generator()):  # the initial weights are replaced
            self.module_ = self._new_members()
        self.module_.load_state_dict(state["weights"])
        self.module_.to(state["weights"]["first"].device).eval()
        return self


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Log loss (M, n) of logits (M, n, K), 0 for points of no class."""
    flat = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.repeat(len(logits)), ignore_index=NO_CLASS, reduction="none"
    )
    return flat.view(logits.shape[:2])
