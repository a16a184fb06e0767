"""LearnedFeatures: train a network on classes and edge, freeze it, use its last hidden layer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Generator, Tensor, nn

from bacoun.engine.randomness import as_generator, seeded, threads_for
from bacoun.engine.training import OnEpoch, epochs_for, mean_log_loss, train
from bacoun.features.networks import Dropout, MixedInputs, make_body

_DEFAULT_STEPS = 3000
MANY_NUMBERS = 50
NO_CLASS = -1  # target of an edge point of unknown class


@dataclass(kw_only=True, repr=False, eq=False)
class LearnedFeatures(BaseEstimator):
    """The last hidden layer of a classifier network.

    Parameters
    ----------
    body : {"auto", "perceptron", "convolutional"} or torch.nn.Module
        All layers before the last, linear one. "auto": convolutional for images. A module is copied
        and trained further; it maps (N, D), or (N, C, H, W) for images, to (N, L).
    hidden : sequence of int, optional
        Widths of the dense layers; the last is L. None: 64, 64, 64, 64; after convolutions 128, 64.
        Ignored if `body` is a module.
    joint_softmax : bool
        How the edge is learned. False: by a softmax over the K classes and a separate sigmoid, data
        against edge, so that classes are also learned just outside the data. True: by one softmax
        over K+1 classes, the edge last, as in the paper.
    edge_weight : float
        Weight of an edge point in the loss; a data point has weight 1.
    edge_gradient : float
        Factor of the gradient that the body gets from the sigmoid, data against edge. 1: features
        learn the edge as much as the classes, which costs accuracy. 0: they learn only the classes,
        those of edge points included. Ignored with `joint_softmax`.
    dropout : float, optional
        Dropout rate after each dense layer. None: 0.5 after convolutions, otherwise 0. Ignored if
        `body` is a module.
    input_dropout : float, optional
        Share of the numbers in a table that are hidden from the network in training, so that it
        does not learn the noise in many of them. None: 0.5 if there are more than 50, otherwise 0.
        Ignored if `body` is a module.
    embedding : int
        Entries of the learned embedding of each category.
    category_dropout : float
        Share of the categories that are hidden from the network in training. It then does not rely
        on a single column, nor on rare categories.
    l2 : float
        Weight decay: `l2 / 2` times the squared weights is added to the summed loss.
    l2_over : "rows" or "batch"
        What that loss is summed over: all rows, or a mini-batch, which makes the penalty stronger.
    epochs : int, optional
        Passes over the data, at most. None: about 3000 steps, in 10 to 500 epochs.
    batch_size : int
        Points in a mini-batch.
    learning_rate : float
        Step size of Adam.
    patience : int, optional
        Stop early once the log loss of a held-out tenth of the points has not improved for this
        many epochs. None: train on all points for all epochs.
    """

    body: str | nn.Module = "auto"
    hidden: Sequence[int] | None = None
    joint_softmax: bool = False
    edge_weight: float = 0.1
    edge_gradient: float = 0.1
    dropout: float | None = None
    input_dropout: float | None = None
    embedding: int = 8
    category_dropout: float = 0.3
    l2: float = 1.0
    l2_over: str = "rows"
    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float = 1e-3
    patience: int | None = 20

    def fit(
        self,
        points: Tensor,
        labels: Tensor,
        *,
        edge: Tensor | None = None,
        edge_labels: Tensor | None = None,
        n_categories: Sequence[int] | None = None,
        sample_weight: Tensor | None = None,
        generator: Generator | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train on points (N, ...) and labels (N,) in 0..K-1, with or without edge points.

        Parameters
        ----------
        edge : Tensor of shape (n, ...), optional
            Points on the edge of the data.
        edge_labels : Tensor of shape (n,), optional
            The class whose edge each point is on; -1 if unknown. None: edge points teach no class.
        n_categories : sequence of int, of length D, optional
            Number of categories of each column; 0 if it is continuous. None: all are.
        sample_weight : Tensor of shape (N,), optional
            Weight of each point in the loss, relative to their mean. None: 1.
        generator : torch.Generator, optional
            Source of randomness. None: a fresh seed.
        on_epoch : callable, optional
            Called after each epoch with the number done and the number planned.
        """
        generator = as_generator(generator)
        n_classes = int(labels.max()) + 1
        self.input_shape_ = tuple(points.shape[1:])
        self.n_categories_ = None if n_categories is None else list(n_categories)
        self.has_edge_ = edge is not None
        with seeded(generator):
            body = self._body()
            head = nn.Linear(_n_outputs(body, points), n_classes + int(self.has_edge_))
            self.module_ = nn.Sequential(body, head).to(points.device)
        data = {"batch": points, "targets": labels}
        if sample_weight is not None:
            data["weights"] = (sample_weight / sample_weight.mean()).to(points)
        if edge is not None:
            unknown = labels.new_full((len(edge),), NO_CLASS)
            of_edge = {"batch": edge, "targets": unknown if edge_labels is None else edge_labels}
            of_edge["weights"] = points.new_ones(len(edge))
            data = {name: torch.cat([data[name], of_edge[name]]) for name in data}
            data["is_edge"] = (torch.arange(len(data["batch"])) >= len(points)).to(points)
        n_weights = sum(weight.numel() for weight in self.module_.parameters())
        with threads_for(self.batch_size * n_weights):
            self.history_ = train(
                self.module_,
                lambda *columns: self._loss(**dict(zip(data, columns, strict=True))),
                list(data.values()),
                epochs=self.epochs or default_epochs(len(data["batch"]), self.batch_size),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                l2=self.l2,
                l2_over=self.l2_over,
                patience=self.patience,
                held_out_loss=lambda *columns: self._held_out_loss(
                    **dict(zip(data, columns, strict=True))
                ),
                generator=generator,
                on_epoch=on_epoch,
            )
        rows = self.history_.held_out_rows
        self.held_out_rows_ = rows[rows < len(points)]  # without edge points
        return self

    def _loss(
        self,
        batch: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
        is_edge: Tensor | None = None,
    ) -> Tensor:
        if is_edge is None:
            return mean_log_loss(self.module_(batch), targets, weights)
        features = self.module_[0](batch)
        logits: Tensor = self.module_[1](features)
        if self.joint_softmax:
            edge_class = logits.shape[1] - 1
            targets = targets.where(is_edge == 0, edge_class)
            loss = nn.functional.cross_entropy(logits, targets, reduction="none")
        else:
            loss = nn.functional.cross_entropy(
                logits[:, :-1], targets, ignore_index=NO_CLASS, reduction="none"
            ) + nn.functional.binary_cross_entropy_with_logits(
                self._edge_logits(features, logits), is_edge, reduction="none"
            )
        if weights is not None:
            loss = loss * weights
        return (loss * (1 - (1 - self.edge_weight) * is_edge)).mean()

    def _edge_logits(self, features: Tensor, logits: Tensor) -> Tensor:
        """Log-odds (n,) of edge against data, with the gradient to the features scaled."""
        if self.edge_gradient == 1:
            return logits[:, -1]
        frozen = features.detach()
        scaled = frozen + self.edge_gradient * (features - frozen)
        log_odds: Tensor = self.module_[1](scaled)[:, -1]
        return log_odds

    def _held_out_loss(
        self,
        batch: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
        is_edge: Tensor | None = None,
    ) -> Tensor:
        """Log loss of the classes of data points, without the edge."""
        if is_edge is None or bool(is_edge.all()):
            return self._loss(batch, targets, weights, is_edge)
        is_data = is_edge == 0
        weights = None if weights is None else weights[is_data]
        return mean_log_loss(self.module_(batch[is_data])[:, :-1], targets[is_data], weights)

    def _body(self) -> nn.Module:
        if isinstance(self.body, nn.Module):
            return copy.deepcopy(self.body)
        images = self.body == "convolutional" or len(self.input_shape_) == 3
        dropout = (0.5 if images else 0.0) if self.dropout is None else self.dropout
        if self.n_categories_ is not None:
            hidden_numbers = self._input_dropout(self.n_categories_.count(0))
            inputs = MixedInputs(
                self.n_categories_, self.embedding, self.category_dropout, hidden_numbers
            )
            body = make_body(self.body, (inputs.n_outputs,), self.hidden, dropout)
            return nn.Sequential(inputs, *body)
        body = make_body(self.body, self.input_shape_, self.hidden, dropout)
        rate = 0.0 if images else self._input_dropout(self.input_shape_[0])
        return nn.Sequential(Dropout(rate), *body) if rate > 0 else body

    def _input_dropout(self, n_numbers: int) -> float:
        if self.input_dropout is not None:
            return self.input_dropout
        return 0.5 if n_numbers > MANY_NUMBERS else 0.0

    @torch.no_grad()
    def transform(self, points: Tensor) -> Tensor:
        """Features (N, L) of points (N, ...)."""
        features: Tensor = self.module_[0](points)
        return features

    @torch.no_grad()
    def transform_with_log_odds(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features (N, L), and log-odds (N,) of edge against data; None if fitted without edge."""
        features = self.transform(points)
        if not self.has_edge_:
            return features, None
        logits: Tensor = self.module_[1](features)
        edge = logits[:, -1]
        return features, edge - logits[:, :-1].logsumexp(dim=1) if self.joint_softmax else edge

    @torch.no_grad()
    def region_proba(self, points: Tensor) -> Tensor:
        """The network's own probabilities (N, K), or (N, K+1) with the edge last."""
        logits: Tensor = self.module_(points)
        if not self.has_edge_ or self.joint_softmax:
            return logits.softmax(dim=1)
        edge = logits[:, -1:]
        known = (-edge).sigmoid() * logits[:, :-1].softmax(dim=1)  # 1 - sigmoid would round to 0
        return torch.cat([known, edge.sigmoid()], dim=1)

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values from which `set_state` rebuilds the fitted network."""
        return {
            "input_shape": list(self.input_shape_),
            "n_categories": self.n_categories_,
            "has_edge": self.has_edge_,
            "held_out_rows": self.held_out_rows_,
            "weights": dict(self.module_.state_dict()),
        }

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state`."""
        self.input_shape_ = tuple(state["input_shape"])
        self.n_categories_ = state["n_categories"]
        self.has_edge_, self.held_out_rows_ = state["has_edge"], state["held_out_rows"]
        head_weight = state["weights"]["1.weight"]  # (outputs, features)
        with seeded(Generator()):  # the initial weights are replaced
            self.module_ = nn.Sequential(self._body(), nn.Linear(*head_weight.shape[::-1]))
        self.module_.load_state_dict(state["weights"])
        self.module_.to(head_weight.device).eval()
        return self


def default_epochs(n_points: int, batch_size: int) -> int:
    """As many epochs as make about 3000 steps."""
    return epochs_for(_DEFAULT_STEPS, n_points, batch_size, fewest=10, most=500)


def _n_outputs(body: nn.Module, points: Tensor) -> int:
    """Width L of the body's output, from a forward pass of two points."""
    was_training = body.training
    body.eval()
    with torch.no_grad():
        features = body.to(points.device)(points[:2])
    body.train(was_training)
    if features.ndim != 2 or len(features) != len(points[:2]):
        raise ValueError(
            f"body must map points to (N, L); it gave shape {tuple(features.shape)} for "
            f"{tuple(points[:2].shape)}. End it with torch.nn.Flatten()."
        )
    return int(features.shape[1])
