"""Shared by the baselines: common settings, and classifiers of many networks or of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from bacoun.base import CHUNK, BayesianClassifier, Evaluation, evaluation_of
from bacoun.engine.randomness import RandomState, as_generator
from bacoun.engine.threads import threads_for
from bacoun.engine.training import History, mean_log_loss, train
from bacoun.features.networks import KINDS as BODIES
from bacoun.features.networks import default_epochs
from bacoun.uncertainty import Uncertainty

Network = Callable[[Tensor], Tensor]
"""From points (n, D), or their image under `_shared`, to logits (n, K)."""


@dataclass(kw_only=True, repr=False, eq=False)
class Baseline(BayesianClassifier):
    """Settings and checks that the baselines have in common."""

    standardize: bool = True
    random_state: RandomState = None
    verbose: bool = False
    device: str = "cpu"

    def _check_counts(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_integer or value < 1:
                raise ValueError(f"{name} must be a positive whole number; got {value!r}.")


@dataclass(kw_only=True, repr=False, eq=False)
class NetworkDraws(Baseline):
    """A classifier whose S draws are S networks.

    A subclass implements `_networks`. The outer loop is over networks and the inner one over chunks
    of rows, so a network can be built when needed and discarded; `predict_proba` and `uncertainty`
    need memory for (N, K) numbers, not (S, N, K).
    """

    def _networks(self) -> Iterator[Network]:
        """The S networks, always the same and in the same order."""
        raise NotImplementedError

    def _shared(self, points: Tensor) -> Tensor:
        """The layers that all networks share, evaluated once; here none."""
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
            Without effect: draw s is the same network for all rows either way.
        """
        return torch.stack(list(self._draws(X))).cpu().numpy()

    def uncertainty(self, X: ArrayLike) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats."""
        found = self.evaluate(X)
        return Uncertainty(found.total, found.aleatoric, found.epistemic)

    def evaluate(self, X: ArrayLike) -> Evaluation[np.ndarray]:
        """Probabilities, uncertainty and OOD score of each row, in one pass."""
        found = vars(evaluation_of(*self._moments_over_networks(X)))
        return Evaluation(**{k: None if v is None else v.cpu().numpy() for k, v in found.items()})

    def _moments_over_networks(self, X: ArrayLike) -> tuple[Tensor, Tensor]:
        """Mean over networks of the class probabilities (N, K) and of their entropy (N,)."""
        draws = self._draws(X)
        mean = next(draws)
        entropy, n_draws = torch.special.entr(mean).sum(dim=1), 1
        for probabilities in draws:
            mean += probabilities
            entropy += torch.special.entr(probabilities).sum(dim=1)
            n_draws += 1
        return mean / n_draws, entropy / n_draws

    def _draws(self, X: ArrayLike) -> Iterator[Tensor]:
        """Class probabilities (N, K), float64, under each network in turn."""
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        padding = np.repeat(table[-1:], -len(table) % CHUNK, axis=0)
        chunks = self._standardized(np.concatenate([table, padding])).split(CHUNK)
        prepared = [_without_gradient(self._shared, chunk) for chunk in chunks]
        for network in self._networks():
            logits = torch.cat([_without_gradient(network, chunk) for chunk in prepared])
            yield logits[: len(table)].double().softmax(dim=1)


@dataclass(kw_only=True, repr=False, eq=False)
class SingleNetwork(Baseline):
    """A classifier with one network for rows of numbers, and an OOD score of its own.

    A subclass calls `_prepared` and `_new_network` in `fit`, and implements `_samples` and
    `_unfamiliarity`. Images are flattened.
    """

    epochs: int | None = None
    batch_size: int = 64
    learning_rate: float = 1e-3

    def _prepared(self, X: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor, Generator]:
        """Training points (N, D), labels (N,) and the source of randomness."""
        self._check_counts("batch_size", *([] if self.epochs is None else ["epochs"]))
        points, labels = self._validated(X, y)
        return points.flatten(1), labels, as_generator(self.random_state)

    def _new_network(self, body: nn.Module, n_features: int, bias: bool = True) -> None:
        """Set `module_`: the body, from points (n, D) to features (n, L), and a linear head."""
        head = nn.Linear(n_features, len(self.classes_), bias=bias)
        self.module_ = nn.Sequential(body, head).to(self.device)

    def _train(
        self,
        module: nn.Module,
        loss: Callable[..., Tensor],
        data: Sequence[Tensor],
        **settings: Any,
    ) -> History:
        """Call `train` with the settings of this classifier, unless others are given."""
        own = {
            "epochs": self.epochs or default_epochs(len(data[0]), self.batch_size),
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }
        n_weights = sum(weight.numel() for weight in module.parameters())
        with threads_for(self.batch_size * n_weights):
            return train(module, loss, data, **own | settings)

    def _log_loss(self, batch: Tensor, targets: Tensor) -> Tensor:
        return mean_log_loss(self.module_(batch), targets)

    @torch.no_grad()
    def _features_and_logits(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Features (n, L) and logits (n, K); double, as densities magnify rounding errors."""
        body, head = self.module_
        features = body(points.flatten(1).double())
        return features, head(features)

    def _unfamiliarity(self, points: Tensor) -> Tensor:
        """OOD score (n,) of standardized points."""
        raise NotImplementedError

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """How unfamiliar (N,) each row is, by the method's own score; larger is less familiar."""
        (score,) = self._score(X, lambda points: (self._unfamiliarity(points),))
        return score

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        chunks = points.split(CHUNK)
        means, entropies = zip(*map(self._moments, chunks), strict=True)
        score = torch.cat([self._unfamiliarity(chunk) for chunk in chunks])
        return evaluation_of(torch.cat(means), torch.cat(entropies), score)


@torch.no_grad()
def _without_gradient(function: Network, points: Tensor) -> Tensor:
    return function(points)


def check_body(body: object) -> None:
    """Refuse a module: its dropout layers and initial weights are unknown."""
    if not isinstance(body, str) or body not in BODIES:
        raise ValueError(f"body must be one of {list(BODIES)}; got {body!r}.")
