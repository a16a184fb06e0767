"""MC-Dropout: a network trained with dropout that also drops units when it predicts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bacoun.baselines.networks import Count, Network, NetworkDraws, Run
from bacoun.engine.nested import NestedSettings
from bacoun.features import LearnedFeatures
from bacoun.features.networks import Dropout
from bacoun.protocols import FitContext

_DEFAULT_NETWORK: Any = {"hidden": (512,) * 4, "dropout": 0.2, "epochs": 500, "patience": None}


@dataclass(kw_only=True, repr=False, eq=False)
class MCDropout(NestedSettings, NetworkDraws):
    """Draws are one network with S random sets of hidden units dropped.

    Each draw has one set of masks for all points, drawn in `fit`: its predictions are a smooth
    function of the inputs, and repeated calls agree.

    Settings that are not listed are those of `Baseline`.

    Parameters
    ----------
    network : LearnedFeatures, optional
        Settings of the network; its body must be given by name. `dropout` is the rate at which
        units of dense layers are dropped, in training and in each draw. None: four layers of 512
        units, a rate of 0.2, and 500 epochs.
    n_draws : int
        Number S of draws.

    Attributes
    ----------
    network_ : LearnedFeatures
        The trained network.
    masks_ : list of list of Tensor
        For each draw, the factors of the units of each hidden layer.
    """

    network: LearnedFeatures | None = None
    n_draws: Count = 200

    _default = ("network", partial(LearnedFeatures, **_DEFAULT_NETWORK))

    def _fit(self, points: Tensor, labels: Tensor, run: Run) -> None:
        network = self._part("network")
        context = FitContext(generator=run.generator, on_epoch=run.bar_for("network"))
        self.network_ = network.fit(points, labels, context)
        self.masks_ = [self._masks(run.generator) for _ in range(self.n_draws)]

    def _masks(self, generator: Generator) -> list[Tensor]:
        """A vector for each dropout: 0 for dropped units, 1 / (1 - rate) for the others."""
        body, head = self.network_.module_
        masks, rate = [], None
        for layer in (*body.children(), head):
            if isinstance(layer, Dropout):
                rate = layer.rate
            elif isinstance(layer, nn.Linear) and rate is not None:  # many inputs are dropped too
                kept = torch.rand(layer.in_features, generator=generator) >= rate
                masks.append(kept.to(self.device) / (1 - rate))
                rate = None
        return masks

    def _layers(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """The layers before the first dropout, which all draws share, and the others."""
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
    next_mask = iter(masks)
    for layer in layers:
        points = points * next(next_mask) if isinstance(layer, Dropout) else layer(points)
    return points
