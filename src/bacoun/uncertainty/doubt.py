"""Doubt: how unfamiliar a point is, and what that leaves of a prediction.

A point is unknown with probability kappa; then it may be of any class. A posterior draw of a known
point is the prediction p_w of one set of weights w; a draw of an unknown point is one class for
certain, all classes being equally likely. So the predictive and the mean entropy of draws are

    mean = (1 - kappa) E_w p_w + kappa / K,    aleatoric = (1 - kappa) E_w H[p_w].

The most likely class stays the most likely one at any kappa below 1, and epistemic uncertainty
grows to log K with kappa. The chain rule splits it without remainder into what the weights leave
open and what being unknown adds:

    model = H[mean] - E_w H[(1 - kappa) p_w + kappa / K],    ood = the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor

LARGEST_ODDS = 1e9  # leaves enough of a prediction that its best guess can be told
_LARGEST_SCORE = 1e6
_GOLDEN = 0.6180339887498949  # its multiples spread evenly over the unit interval


@dataclass(frozen=True)
class Tail:
    """Where a score of unfamiliarity lies on points that are known and that it was not fitted to.

    Attributes
    ----------
    median : float
    spread : float
        From the median to the 95 % quantile.
    """

    median: float
    spread: float

    @classmethod
    def of(cls, scores: Tensor, smallest: float = 1e-6) -> Self:
        """The tail of scores (n,) of known points, its spread not below `smallest`."""
        finite = scores.double().clamp(-_LARGEST_SCORE, _LARGEST_SCORE)  # a flow may overflow
        median, high = finite.quantile(torch.tensor([0.5, 0.95]).to(finite))
        return cls(float(median), max(float(high - median), smallest))

    def standardised(self, scores: Tensor) -> Tensor:
        """Scores (N,) brought to 0 at the median and 1 at the 95 % quantile of known points."""
        return (scores.double() - self.median) / self.spread


@dataclass(frozen=True)
class Doubt:
    """From scores of unfamiliarity to the probability that a point is unknown.

    Each score is standardised: 0 at the median of known points, 1 at their 95 % quantile. The first
    leads; another counts only as far as it goes beyond 1, which known points rarely do. With s the
    largest of them, the prior odds of being unknown are multiplied by max(s, 0)^power: they grow
    with the distance from the data, without a threshold at which a prediction is given up.

    Attributes
    ----------
    ood_prior : float
        Prior probability that a scored point is unknown.
    tails : dict of Tail
        By the name of the score, the leading one first.
    disagreement : float
        Epistemic uncertainty of the weights alone that 5 % of known points exceed, in nats.
    power : float
        How steeply doubt grows; chosen on development data, see the experiment `choice`.
    """

    ood_prior: float
    tails: dict[str, Tail]
    disagreement: float
    power: float = 2.0

    def score(self, scores: Mapping[str, Tensor]) -> Tensor:
        """Unfamiliarity (N,) from scores (N,) by name: about 0 inside the data, 1 at its edge."""
        each = [tail.standardised(scores[name]) for name, tail in self.tails.items()]
        return torch.stack([each[0], *(other - 1 for other in each[1:])]).amax(dim=0)

    def ood_score(self, score: Tensor, epistemic: Tensor) -> Tensor:
        """What ranks unknown points best (N,): the unfamiliarity, more where the weights disagree.

        Parameters
        ----------
        score : Tensor of shape (N,)
            See `score`.
        epistemic : Tensor of shape (N,)
            Of the weights alone, in nats.
        """
        return score + torch.log1p(epistemic / self.disagreement)

    def probability(self, score: Tensor) -> Tensor:
        """Probability kappa (N,) of being unknown, from the unfamiliarity (N,)."""
        odds = self.ood_prior / (1 - self.ood_prior) * score.clamp(min=0) ** self.power
        return 1 - 1 / (1 + odds.clamp(max=LARGEST_ODDS))

    def get_state(self) -> dict[str, Any]:
        """Plain values from which `from_state` rebuilds it."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Undo `get_state`."""
        tails = {name: Tail(**tail) for name, tail in state["tails"].items()}
        return cls(state["ood_prior"], tails, state["disagreement"], state["power"])


def doubted(probabilities: Tensor, kappa: Tensor) -> Tensor:
    """Class probabilities (..., N, K) of points that are unknown with probability kappa (N,).

    Examples
    --------
    >>> doubted(torch.tensor([[1.0, 0.0]]), torch.tensor([0.5]))
    tensor([[0.7500, 0.2500]])
    """
    share = kappa[:, None]
    return (1 - share) * probabilities + share / probabilities.shape[-1]


def doubted_draws(draws: Tensor, kappa: Tensor) -> Tensor:
    """Draws (S, N, K) of which a share kappa (N,) says one class for certain, each class in turn.

    The same draws are replaced at all points, first those that come first where kappa is small.
    """
    n_draws, _, n_classes = draws.shape
    order = (_GOLDEN * torch.arange(1, n_draws + 1, dtype=torch.float64)).frac().argsort()
    rank = torch.empty_like(order).scatter(0, order, torch.arange(n_draws)).to(draws.device)
    certain = torch.nn.functional.one_hot(rank % n_classes, n_classes).to(draws)
    unknown = (rank[:, None] + 0.5) / n_draws < kappa
    return torch.where(unknown[:, :, None], certain[:, None], draws)
