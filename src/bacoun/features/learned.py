"""LearnedFeatures: train a network on classes and edge, freeze it, use its last hidden layer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Generator, Tensor, nn

from bacoun.checkpoint import Checkpoint
from bacoun.features.networks import make_body
from bacoun.randomness import as_generator, seeded, threads_for
from bacoun.training import OnEpoch, train

_STEPS_BY_DEFAULT = 3000


class LearnedFeatures(BaseEstimator):
    """The last hidden layer of a classifier network.

    Parameters
    ----------
    body : {"auto", "perceptron", "convolutional"} or torch.nn.Module
        Everything before the last, linear layer. "auto": convolutional for images. A module is
        copied and trained further; it takes (N, D), or (N, C, H, W) of images, and gives (N, L).
    hidden : sequence of int, optional
        Widths of the dense layers; the last is L. None: 64, 64, 64, 1024; after convolutions 50,
        1024. Not used with a module.
    dropout : float
        Dropout after each dense layer. Not used with a module.
    l2 : float
        The paper's penalty; see `bacoun.training.train`.
    epochs : int, optional
        None trains for up to about 3000 steps, at least 10 and at most 500 epochs.
    patience : int, optional
        Stop once the loss of a held-out tenth has not improved for this many epochs: a network that
        overfits is too sure of its classes, and holds new data for unknown. None trains to the end.
    """

    def __init__(
        self,
        *,
        body: str | nn.Module = "auto",
        hidden: Sequence[int] | None = None,
        dropout: float = 0.0,
        l2: float = 1.0,
        epochs: int | None = None,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        patience: int | None = 20,
    ) -> None:
        self.body = body
        self.hidden = hidden
        self.dropout = dropout
        self.l2 = l2
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience

    def fit(
        self,
        points: Tensor,
        labels: Tensor,
        *,
        generator: Generator | None = None,
        on_epoch: OnEpoch | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Train on points (N, ...) and labels (N,) in 0..C-1; the edge, if any, is class C-1."""
        generator = as_generator(generator)
        n_classes = int(labels.max()) + 1
        self.input_shape_ = tuple(points.shape[1:])
        with seeded(generator):
            body = self._body()
            n_features = _n_outputs(body, points)
            self.module_ = nn.Sequential(body, nn.Linear(n_features, n_classes)).to(points.device)
        n_weights = sum(weight.numel() for weight in self.module_.parameters())
        with threads_for(self.batch_size * n_weights):
            self.history_ = train(
                self.module_,
                lambda batch, targets: nn.functional.cross_entropy(self.module_(batch), targets),
                [points, labels],
                epochs=self._n_epochs(len(points)),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                l2=self.l2,
                patience=self.patience,
                generator=generator,
                on_epoch=on_epoch,
                checkpoint=checkpoint,
            )
        return self

    def _body(self) -> nn.Module:
        if isinstance(self.body, nn.Module):
            return copy.deepcopy(self.body)
        return make_body(self.body, self.input_shape_, self.hidden, self.dropout)

    def _n_epochs(self, n_points: int) -> int:
        if self.epochs is not None:
            return self.epochs
        batches = -(-n_points // self.batch_size)
        return min(500, max(10, _STEPS_BY_DEFAULT // batches))

    @torch.no_grad()
    def transform(self, points: Tensor) -> Tensor:
        """Features (N, L) of points (N, ...)."""
        features: Tensor = self.module_[0](points)
        return features

    @torch.no_grad()
    def transform_with_proba(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Features (N, L) and the network's own class probabilities (N, C), in one pass."""
        features = self.transform(points)
        logits: Tensor = self.module_[1](features)
        return features, logits.softmax(dim=1)

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values from which `set_state` rebuilds the fitted network."""
        head: Any = self.module_[1]
        n_classes, n_features = head.weight.shape
        return {
            "input_shape": list(self.input_shape_),
            "n_features": n_features,
            "n_classes": n_classes,
            "weights": dict(self.module_.state_dict()),
        }

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state`."""
        self.input_shape_ = tuple(state["input_shape"])
        with seeded(Generator()):  # the weights drawn here are replaced
            head = nn.Linear(state["n_features"], state["n_classes"])
            self.module_ = nn.Sequential(self._body(), head)
        self.module_.load_state_dict(state["weights"])
        self.module_.to(state["weights"]["1.weight"].device).eval()
        return self


def _n_outputs(body: nn.Module, points: Tensor) -> int:
    """Width L of the body's output, found by showing it two points."""
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
