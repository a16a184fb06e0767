"""MC-Dropout: a network trained with dropout, and dropped out when it answers as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bacoun.baselines.networks import Network, NetworkDraws, check_body, check_count
from bacoun.features import LearnedFeatures
from bacoun.features.networks import Dropout
from bacoun.progress import progress_bars
from bacoun.randomness import RandomState, as_generator


class MCDropout(NetworkDraws):
    """Draws are one network with S random sets of hidden units left out.

    Masks are drawn in `fit`, one set a draw, shared by all points: the map of a draw is smooth, and
    asking again gives the same answer.

    Parameters
    ----------
    body : {"auto", "perceptron", "convolutional"}
        With "convolutional", units of the dense layers are left out, not those of the convolutions.
    hidden : sequence of int
        Widths of the dense layers.
    dropout : float
        How likely each hidden unit is left out, in training and in each draw.
    l2, epochs, batch_size, learning_rate
        As in `LearnedFeatures`, without early stopping.
    n_draws : int
        Number S of draws.
    standardize, random_state, verbose, device
        As in `BaCOUnClassifier`.

    Attributes
    ----------
    network_ : LearnedFeatures
        The trained network.
    masks_ : list of list of Tensor
        What each hidden layer is multiplied by, draw by draw.
    """

    def __init__(
        self,
        *,
        body: str = "auto",
        hidden: Sequence[int] = (512, 512, 512, 512),
        dropout: float = 0.2,
        l2: float = 1.0,
        epochs: int = 500,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        n_draws: int = 200,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        self.body = body
        self.hidden = hidden
        self.dropout = dropout
        self.l2 = l2
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_draws = n_draws
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        check_body(self.body)
        check_count("n_draws", self.n_draws)
        points, labels = self._validated(X, y)
        generator = as_generator(self.random_state)
        network = LearnedFeatures(
            body=self.body,
            hidden=self.hidden,
            dropout=self.dropout,
            l2=self.l2,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            patience=None,
        )
        with progress_bars(self.verbose) as bar_for:
            self.network_ = network.fit(
                points, labels, generator=generator, on_epoch=bar_for("network")
            )
        self.masks_ = [self._masks(generator) for _ in range(self.n_draws)]
        return self

    def _masks(self, generator: torch.Generator) -> list[Tensor]:
        """A vector for each hidden layer: 0 for a unit left out, 1 / (1 - dropout) for others."""
        kept = [torch.rand(width, generator=generator) >= self.dropout for width in self.hidden]
        return [mask.to(self.device) / (1 - self.dropout) for mask in kept]

    def _layers(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The layers before the first dropout, the same in all draws, and those from it on."""
        body, head = self.network_.module_
        layers = [*body.children(), head]
        first = next((i for i, layer in enumerate(layers) if isinstance(layer, Dropout)), 0)
        return layers[:first], layers[first:]

    def _shared(self, points: Tensor) -> Tensor:
        return nn.Sequential(*self._layers()[0])(points)

    def _networks(self) -> Iterator[Network]:
        _, layers = self._layers()
        return (partial(_masked, layers, masks) for masks in self.masks_)


def _masked(layers: list[nn.Module], masks: list[Tensor], points: Tensor) -> Tensor:
    """Logits (n, K), with the next mask wherever training had dropout."""
    following = iter(masks)
    for layer in layers:
        points = points * next(following) if isinstance(layer, Dropout) else layer(points)
    return points
