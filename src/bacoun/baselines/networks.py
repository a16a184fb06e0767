"""What ensembles, dropout and Bayesian networks share: each draw is a whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bacoun.base import BLOCK, BayesianClassifier, Evaluation, evaluation_of
from bacoun.features.networks import KINDS as BODIES
from bacoun.uncertainty import Uncertainty, from_moments

Network = Callable[[Tensor], Tensor]
"""From points (n, D), or what `_shared` makes of them, to logits (n, K)."""


class NetworkDraws(BayesianClassifier):
    """A classifier whose S draws are S networks.

    A subclass implements `_networks`. Networks are the outer loop and blocks of rows the inner one,
    so that a network may be made when its turn comes and forgotten afterwards; `predict_proba` and
    `uncertainty` hold (N, K) numbers, never (S, N, K).
    """

    def _networks(self) -> Iterator[Network]:
        """The S networks, always the same ones in the same order."""
        raise NotImplementedError

    def _shared(self, points: Tensor) -> Tensor:
        """The part of the work that is the same for all networks, done once: here none."""
        return points

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Class probabilities (N, K): the mean over networks."""
        mean = self._moments_over_networks(X)[0].cpu().numpy()
        return mean / mean.sum(axis=1, keepdims=True)

    def predict_proba_samples(self, X: ArrayLike, joint: bool = False) -> np.ndarray:
        """Class probabilities (S, N, K) under each network.

        Parameters
        ----------
        joint : bool
            Makes no difference: draw s is one and the same network for all rows either way.
        """
        return torch.stack(list(self._draws(X))).cpu().numpy()

    def uncertainty(self, X: ArrayLike) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats."""
        parts = from_moments(*self._moments_over_networks(X)).parts()
        return Uncertainty(**{name: part.cpu().numpy() for name, part in parts.items()})

    def evaluate(self, X: ArrayLike) -> Evaluation[np.ndarray]:
        """All answers about each row in one pass."""
        known = vars(evaluation_of(*self._moments_over_networks(X)))
        return Evaluation(**{k: None if v is None else v.cpu().numpy() for k, v in known.items()})

    def _moments_over_networks(self, X: ArrayLike) -> tuple[Tensor, Tensor]:
        """Mean over networks of the class probabilities (N, K) and of their entropy (N,)."""
        draws = self._draws(X)
        mean = next(draws)
        entropy, n_draws = _entropy(mean), 1
        for probabilities in draws:
            mean += probabilities
            entropy += _entropy(probabilities)
            n_draws += 1
        return mean / n_draws, entropy / n_draws

    def _draws(self, X: ArrayLike) -> Iterator[Tensor]:
        """Class probabilities (N, K), float64, under each network in turn."""
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        padding = np.repeat(table[-1:], -len(table) % BLOCK, axis=0)  # see BLOCK
        blocks = self._standardised(np.concatenate([table, padding])).split(BLOCK)
        prepared = [_without_gradient(self._shared, block) for block in blocks]
        for network in self._networks():
            logits = torch.cat([_without_gradient(network, block) for block in prepared])
            yield logits[: len(table)].double().softmax(dim=1)


@torch.no_grad()
def _without_gradient(function: Network, points: Tensor) -> Tensor:
    return function(points)


def _entropy(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum(dim=1)


def check_body(body: object) -> None:
    """Refuse a body that is not one of ours: its dropout and its start could not be known."""
    if not isinstance(body, str) or body not in BODIES:
        raise ValueError(f"body must be one of {list(BODIES)}; got {body!r}.")


def check_count(name: str, value: int) -> None:
    """Refuse what is no positive whole number."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise ValueError(f"{name} must be a positive whole number; got {value!r}.")
