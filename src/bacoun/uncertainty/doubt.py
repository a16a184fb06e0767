"""Doubt: the probability that a point is out-of-distribution, and its effect on a prediction.

A point is OOD with probability kappa; then it may belong to any class. A posterior draw for an
in-distribution point is the prediction p_w of one set of weights w; a draw for an OOD point is
one-hot, with all classes equally likely. So the predictive mean and the mean entropy of draws are

    mean = (1 - kappa) E_w p_w + kappa / K,    aleatoric = (1 - kappa) E_w H[p_w].

The most likely class stays the same for any kappa below 1, and epistemic uncertainty grows to
log K with kappa. The chain rule splits it exactly into a part due to the weights and a part due to
being OOD:

    model = H[mean] - E_w H[(1 - kappa) p_w + kappa / K],    ood = epistemic - model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor

LARGEST_ODDS = 1e9  # keeps enough of a prediction that its argmax is not lost to rounding
_LARGEST_SCORE = 1e6
_NEVER = 1e9  # a spread that no score is outside of
WEIGHT_BELOW = 0.5  # chosen on development images, as `power` was
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are evenly spread


@dataclass(frozen=True)
class Tail:
    """Location and scale of an unfamiliarity score on held-out in-distribution points.

    Attributes
    ----------
    median : float
        Median of the score.
    spread : float
        Distance from the median to the 95 % quantile.
    spread_below : float
        Distance from the 5 % quantile to the median.
    """

    median: float
    spread: float
    spread_below: float

    @classmethod
    def of(cls, scores: Tensor, smallest: float = 1e-6, two_sided: bool = True) -> Self:
        """The tail of scores (n,) of in-distribution points.

        Parameters
        ----------
        smallest : float
            Spreads are at least this.
        two_sided : bool
            Whether a score below that of most points is unusual too.
        """
        finite = scores.double().clamp(-_LARGEST_SCORE, _LARGEST_SCORE)  # a flow may overflow
        low, median, high = finite.quantile(finite.new_tensor([0.05, 0.5, 0.95])).tolist()
        below = max(median - low, smallest) if two_sided else _NEVER
        return cls(median, max(high - median, smallest), below)

    def standardized(self, scores: Tensor) -> Tensor:
        """Scores (N,), scaled to 0 at the median and 1 at the 95 % quantile."""
        return (scores.double() - self.median) / self.spread

    def beyond(self, scores: Tensor) -> Tensor:
        """How far (N,) scores are above the 95 % quantile or, at half weight, below the 5 % one.

        Negative between the two.
        """
        below = (self.median - scores.double()) / self.spread_below
        return torch.maximum(self.standardized(scores) - 1, WEIGHT_BELOW * (below - 1))


@dataclass(frozen=True)
class Doubt:
    """Maps unfamiliarity scores to the probability that a point is out-of-distribution.

    Each score is standardized: 0 at the median of in-distribution points, 1 at their 95 % quantile.
    The first score always counts, the others only beyond their 95 % quantile and, at half weight,
    below their 5 % quantile: an image smoother than all others is unusual too. With s the maximum,
    the prior odds of being OOD are multiplied by max(s, 0)^power: they grow smoothly with the
    distance from the data, without a hard threshold.

    Attributes
    ----------
    ood_prior : float
        Prior probability that a scored point is OOD.
    tails : dict of Tail
        By the name of the score; the first one is the main score.
    disagreement : float
        95 % quantile, on in-distribution points, of the epistemic uncertainty due to the weights
        alone, in nats.
    power : float
        How steeply doubt grows with the score; the default was chosen on development data.
    """

    ood_prior: float
    tails: dict[str, Tail]
    disagreement: float
    power: float = 2.0

    def score(self, scores: Mapping[str, Tensor]) -> Tensor:
        """Unfamiliarity (N,) from `scores`, each (N,), by name: about 0 for typical points."""
        first, *others = self.tails
        each = [self.tails[first].standardized(scores[first])]
        each += [self.tails[name].beyond(scores[name]) for name in others]
        return torch.stack(each).amax(dim=0)

    def ood_score(self, score: Tensor, epistemic: Tensor) -> Tensor:
        """Ranking score (N,) for OOD detection: unfamiliarity, plus disagreement of the weights.

        Parameters
        ----------
        score : Tensor of shape (N,)
            Unfamiliarity, as returned by `score`.
        epistemic : Tensor of shape (N,)
            Epistemic uncertainty due to the weights alone, in nats.
        """
        return score + torch.log1p(epistemic / self.disagreement)

    def probability(self, score: Tensor) -> Tensor:
        """Probability kappa (N,) of being OOD, given the unfamiliarity `score` (N,)."""
        odds = self.ood_prior / (1 - self.ood_prior) * score.clamp(min=0) ** self.power
        return 1 - 1 / (1 + odds.clamp(max=LARGEST_ODDS))

    def get_state(self) -> dict[str, Any]:
        """Plain values from which `from_state` rebuilds it."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Inverse of `get_state`."""
        tails = {name: Tail(**tail) for name, tail in state["tails"].items()}
        return cls(state["ood_prior"], tails, state["disagreement"], state["power"])


def doubted(probabilities: Tensor, kappa: Tensor) -> Tensor:
    """Mix class `probabilities` (..., N, K) with the uniform distribution, with weight kappa (N,).

    Examples
    --------
    >>> doubted(torch.tensor([[1.0, 0.0]]), torch.tensor([0.5]))
    tensor([[0.7500, 0.2500]])
    """
    weight = kappa[:, None]
    return (1 - weight) * probabilities + weight / probabilities.shape[-1]


def doubted_draws(draws: Tensor, kappa: Tensor) -> Tensor:
    """Replace a fraction kappa (N,) of the `draws` (S, N, K) by one-hot ones, cycling the classes.

    The order in which draws are replaced as kappa grows is the same at all points.
    """
    n_draws, _, n_classes = draws.shape
    order = (_GOLDEN * torch.arange(1, n_draws + 1, dtype=torch.float64)).frac().argsort()
    rank = order.argsort().to(draws.device)
    one_hot = torch.nn.functional.one_hot(rank % n_classes, n_classes).to(draws)
    is_ood = (rank[:, None] + 0.5) / n_draws < kappa
    return torch.where(is_ood[:, :, None], one_hot[:, None], draws)
