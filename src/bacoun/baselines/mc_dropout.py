"""MC-Dropout: a network trained with dropout, and dropped out when it answers as well."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bacoun.baselines.networks import Network, NetworkDraws, check_body, check_count
from bacoun.features import LearnedFeatures
from bacoun.features.networks import Dropout
from bacoun.nested import NestedSettings
from bacoun.progress import progress_bars
from bacoun.randomness import RandomState, as_generator


class MCDropout(NestedSettings, NetworkDraws):
    """Draws are one network with S random sets of hidden units left out.

    Masks are drawn in `fit`, one set a draw, shared by all points: the map of a draw is smooth, and
    asking again gives the same answer.

    Parameters
    ----------
    network : LearnedFeatures, optional
        Settings of the network; its body must be one of ours. `dropout` is how likely each hidden
        unit of a dense layer is left out, in training and in each draw. None: four layers of 512
        units, a rate of 0.2, and 500 epochs.
    n_draws : int
        Number S of draws.
    standardize : bool
        Bring every input, or every channel of images, to zero mean and unit variance first.
    random_state : int, RandomState, Generator or None
        One state gives one answer; global streams are not touched.
    verbose : bool
        Draw progress bars on stderr.
    device : str
        Where tensors live, as torch names it.

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
        network: LearnedFeatures | None = None,
        n_draws: int = 200,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        self.network = network
        self.n_draws = n_draws
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def _default_part(self, name: str, value: Any) -> Any:
        if name == "network" and value is None:
            widths = (512, 512, 512, 512)
            return LearnedFeatures(hidden=widths, dropout=0.2, epochs=500, patience=None)
        return None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        network = self._part("network")
        check_body(network.body)
        check_count("n_draws", self.n_draws)
        points, labels = self._validated(X, y)
        generator = as_generator(self.random_state)
        with progress_bars(self.verbose) as bar_for:
            self.network_ = network.fit(
                points, labels, generator=generator, on_epoch=bar_for("network")
            )
        self.masks_ = [self._masks(generator) for _ in range(self.n_draws)]
        return self

    def _masks(self, generator: torch.Generator) -> list[Tensor]:
        """A vector for each hidden layer: 0 for a unit left out, 1 / (1 - rate) for others."""
        layers = [*self.network_.module_[0].children()]
        rates = [layer.rate for layer in layers if isinstance(layer, Dropout)]
        widths = [layer.out_features for layer in layers if isinstance(layer, nn.Linear)]
        return [
            (torch.rand(width, generator=generator) >= rate).to(self.device) / (1 - rate)
            for width, rate in zip(widths, rates, strict=True)
        ]

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
