"""Shared by SNGP and DDU: a residual network that keeps distances, by spectral normalization."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, relu

from bacoun.baselines.networks import Count, Positive, Run, SingleNetwork
from bacoun.features.networks import Dropout

_FIRST_ITERATIONS = 15  # of the power method; each training step adds one


@dataclass(kw_only=True, repr=False, eq=False)
class ResidualClassifier(SingleNetwork):
    """A classifier on a residual network.

    Settings that are not listed are those of `SingleNetwork`.

    Parameters
    ----------
    width : int
        Units in each layer of the residual network, and number L of its outputs.
    n_layers : int
        Residual layers.
    spectral_bound : float
        Largest spectral norm of the weights of a layer; below 1, no layer merges points.
    dropout : float
        Dropout rate in residual layers, in training.
    patience : int, optional
        Stop early once the log loss of a held-out tenth of the points has not improved for this
        many epochs. None: train on all points for all epochs.
    """

    width: Count = 128
    n_layers: Count = 6
    spectral_bound: Positive = 0.9
    dropout: float = 0.1
    patience: int | None = 20

    def _residual_network(self, n_inputs: int) -> "ResidualNetwork":
        return ResidualNetwork(
            n_inputs, self.width, self.n_layers, self.spectral_bound, self.dropout
        )

    def _train_network(self, run: Run, loss: Callable[..., Tensor], *data: Tensor) -> None:
        """Minimize the loss of points (N, D) and labels (N,); the bounds are exact afterwards."""
        early = {"patience": self.patience, "held_out_loss": self._log_loss}
        self._train(run, "network", self.module_, loss, *data, **early)
        for layer in self.module_.double().modules():
            if isinstance(layer, BoundedLinear):
                layer.settle()


class ResidualNetwork(nn.Module):
    """A random projection, then layers h + relu(W h + b), where W has a bounded spectral norm.

    With a bound below 1, a layer neither merges points nor moves them far apart: it multiplies
    distances by a factor between 1 - bound and 1 + bound. `dropout` is the rate at which the units
    of residuals are dropped in training.
    """

    def __init__(
        self, n_inputs: int, width: int, n_layers: int, bound: float, dropout: float
    ) -> None:
        super().__init__()
        # Not trained, and scaled so that it keeps distances on average.
        self.projection = nn.Buffer(torch.randn(n_inputs, width) / width**0.5)
        self.layers = nn.ModuleList(BoundedLinear(width, bound) for _ in range(n_layers))
        self.dropout = Dropout(dropout)

    def forward(self, points: Tensor) -> Tensor:
        """Features (n, L) of points (n, D)."""
        hidden = points @ self.projection
        for layer in self.layers:
            hidden = hidden + self.dropout(relu(layer(hidden)))
        return hidden


class BoundedLinear(nn.Linear):
    """A dense layer whose weights are scaled down to a spectral norm of at most `bound`."""

    def __init__(self, width: int, bound: float) -> None:
        super().__init__(width, width)
        self.bound = bound
        self.left: Tensor = nn.Buffer(normalize(torch.randn(width), dim=0))
        self.right: Tensor = nn.Buffer(torch.zeros(width))
        for _ in range(_FIRST_ITERATIONS):
            self._iterate()

    @torch.no_grad()
    def _iterate(self) -> None:
        """One step of the power method towards the first singular vectors."""
        self.right = normalize(self.left @ self.weight, dim=0)
        self.left = normalize(self.weight @ self.right, dim=0)

    def forward(self, hidden: Tensor) -> Tensor:
        """The layer's outputs (n, L), before the activation."""
        if self.training:
            self._iterate()
        norm = self.left @ self.weight @ self.right
        return linear(hidden, self.weight * (self.bound / norm.clamp(min=self.bound)), self.bias)

    @torch.no_grad()
    def settle(self) -> None:
        """Scale the weights themselves, by their exact norm, which the power method approaches."""
        norm = torch.linalg.matrix_norm(self.weight, ord=2)
        self.weight.mul_(self.bound / norm.clamp(min=self.bound))
