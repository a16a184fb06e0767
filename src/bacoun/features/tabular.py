"""TabularFeatures: an ensemble of small networks that also see the votes of a forest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Generator, Tensor

from bacoun.engine.randomness import as_generator, seeded
from bacoun.engine.threads import threads_for
from bacoun.engine.training import assign_folds
from bacoun.features.forest import Forest
from bacoun.features.networks import (
    NO_CLASS,
    NetworkSettings,
    boundary_targets,
    default_epochs,
    with_boundary,
)
from bacoun.features.perceptrons import ParallelPerceptrons
from bacoun.protocols import FitContext

_MOST_JUDGED = 5000  # held-out rows that decide when training stops; more add time, not certainty


@dataclass(kw_only=True, repr=False, eq=False)
class TabularFeatures(NetworkSettings):
    """The last hidden layers of several small networks for tables, side by side.

    Each member holds out another part of the rows. So all rows together decide when training stops,
    and which prior of the last layer predicts rows best that the features were not fitted to.

    Settings that are not listed are those of `NetworkSettings`.

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
    n_jobs: int | None = None

    _of_votes = ("forest_", "votes_mean_", "votes_scale_")
    _saved = ("n_categories_", "n_classes_", "has_boundary_", "prior_scale_", *_of_votes, "module_")

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Train on points (N, D) and labels (N,) in 0..K-1, with or without boundary points."""
        if points.ndim != 2:
            raise ValueError(
                f"TabularFeatures needs a table (N, D); got shape {tuple(points.shape)}. "
                "Use features='learned' for images."
            )
        if self.n_members < 2:
            raise ValueError(f"n_members must be at least 2; got {self.n_members}. Try 5.")
        generator, boundary = as_generator(context.generator), context.boundary_points
        columns, weights = context.n_categories, context.sample_weight
        self.n_categories_ = [0] * points.shape[1] if columns is None else list(columns)
        self.n_classes_, self.has_boundary_ = int(labels.max()) + 1, boundary is not None
        weights = points.new_ones(len(points)) if weights is None else weights
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
        if boundary is not None:
            of_boundary = [
                boundary,
                self._votes(boundary),
                boundary_targets(context, labels),
                weights.new_full((len(boundary),), self.boundary_weight),
                folds.new_full((len(boundary),), -1),
            ]
            data = [torch.cat(pair) for pair in zip(data, of_boundary, strict=True)]
        with threads_for(0):
            self.history_ = self._train(
                self.module_,
                self._loss,
                data,
                epochs=default_epochs(len(data[0]), self.batch_size, 6000),
                held_out=held_out,
                held_out_loss=self._held_out_loss,
                generator=generator,
                on_epoch=context.on_epoch,
            )
            self.prior_scale_ = None
            if (choose := context.choose_prior_scale) is not None:
                points, votes, labels, weights, folds = held_out
                with torch.no_grad():
                    learned = self.module_.features(points, votes).double()
                known = labels, weights.double(), folds, self.n_classes_
                self.prior_scale_ = choose(learned, *known)
        return self

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
        spread, self.votes_mean_ = votes.std(dim=0, correction=0), votes.mean(dim=0)
        self.votes_scale_ = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        return (votes - self.votes_mean_) / self.votes_scale_

    def _votes(self, points: Tensor, *, out_of_bag: bool = False) -> Tensor:
        """Standardized votes (N, V) of the forest; none (N, 0) without one."""
        if self.forest_ is None:
            return points.new_zeros(len(points), 0)
        votes = self.forest_.votes(points, out_of_bag=out_of_bag)
        return (votes - self.votes_mean_) / self.votes_scale_

    def _new_members(self) -> ParallelPerceptrons:
        n_votes = 0 if self.forest_ is None else len(self.votes_mean_)
        return ParallelPerceptrons(
            self.n_members,
            self.n_categories_,
            n_votes,
            self.n_classes_ + int(self.has_boundary_),
            hidden=self.hidden,
            n_bins=self.n_bins,
            embedding=self.embedding,
            category_dropout=self.category_dropout,
            input_dropout=self._input_dropout(self.n_categories_.count(0)),
        )

    def _loss(
        self, points: Tensor, votes: Tensor, targets: Tensor, weights: Tensor, folds: Tensor
    ) -> Tensor:
        """Sum over members of the mean loss of the points that they do not hold out."""
        members = torch.arange(self.n_members, device=folds.device)[:, None]
        weights = weights * (folds != members)  # (M, n)
        features = self.module_.features(points, votes)
        loss = _cross_entropy(self.module_.outputs(features)[..., : self.n_classes_], targets)
        if self.has_boundary_:
            log_odds = self.module_.outputs(self._damped(features))[..., -1]
            is_boundary = (folds < 0).to(log_odds).expand_as(log_odds)
            loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(
                log_odds, is_boundary, reduction="none"
            )
        return (weights * loss).mean(dim=1).sum() / (1 - 1 / self.n_members)  # the share trained

    def _held_out_loss(
        self, points: Tensor, votes: Tensor, targets: Tensor, weights: Tensor, folds: Tensor
    ) -> Tensor:
        """Log loss of the classes, of each point under the member that holds it out."""
        logits = self.module_.outputs(self.module_.features(points, votes))
        held_out = logits[folds, torch.arange(len(folds), device=folds.device), : self.n_classes_]
        loss = torch.nn.functional.cross_entropy(held_out, targets, reduction="none")
        return (weights * loss).sum() / weights.sum()

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
        """Features (N, M L), and mean log-odds (N,) of boundary against data; None without one."""
        features = self.module_.features(points, self._votes(points))
        if not self.has_boundary_:
            return self._joined(features), None
        return self._joined(features), self.module_.outputs(features)[..., -1].mean(dim=0)

    @torch.no_grad()
    def region_proba(self, points: Tensor) -> Tensor:
        """The members' mean probabilities (N, K), or (N, K+1) with the boundary last."""
        logits = self.module_.outputs(self.module_.features(points, self._votes(points)))
        regions = with_boundary(logits) if self.has_boundary_ else logits.softmax(dim=2)
        return regions.mean(dim=0)

    def _empty(self, name: str, state: Any) -> Any:
        if name == "forest_":
            return Forest(n_trees=self.n_trees, depth=self.tree_depth)
        return self._new_members() if name == "module_" else None


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Log loss (M, n) of logits (M, n, K), 0 for points of no class."""
    flat = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.repeat(len(logits)), ignore_index=NO_CLASS, reduction="none"
    )
    return flat.view(logits.shape[:2])
