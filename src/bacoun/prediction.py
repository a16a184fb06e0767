"""Prediction with fitted steps: standardized points in, probabilities and uncertainty out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bacoun.base import Evaluation, evaluation_of
from bacoun.protocols import EdgeAwareFeatureMap
from bacoun.uncertainty import Doubt, Tail, decompose, doubted, doubted_draws, from_moments

CHUNK = 8192  # points at once: convolutions make much more of an image than what goes in
_FEWEST_HELD_OUT = 20  # points to take a 95 % quantile from
_LOG_DENSITIES = ("numbers", "categories")  # scores of which only high ones are unusual
_SMALLEST_SPREAD = 1.0  # of these, in nats: categories may be equally likely in almost all rows
_SMALLEST_DISAGREEMENT = 1e-3  # in nats; what is below is agreement
_MANY_ROWS = 100_000  # beyond, that limit falls with 1 / N, as disagreement itself does
_ROUNDING = 1e-6  # of an epistemic uncertainty in single precision


class Look(NamedTuple):
    """What steps 1 and 2 say about N points; the last two are None without doubt."""

    features: Tensor  # (N, L)
    scores: dict[str, Tensor]  # of unfamiliarity, (N,) each
    score: Any  # (N,), all of them in one
    kappa: Any  # (N,), probability of being unknown


@dataclass(frozen=True)
class Predictor:
    """The three fitted steps, and doubt if there is any."""

    boundary: Any
    features: Any
    posterior: Any
    doubt: Doubt | None

    @property
    def has_density(self) -> bool:
        """Whether the boundary gives a log density."""
        return hasattr(self.boundary, "log_prob")

    def look(self, points: Tensor) -> Look:
        """Features and unfamiliarity of points (N, ...)."""
        features, scores = self.features.transform(points), self.unfamiliarity(points)
        if self.doubt is None:
            return Look(features, scores, None, None)
        score = self.doubt.score(scores)
        return Look(features, scores, score, self.doubt.probability(score))

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """Scores (N,) of how unfamiliar points (N, ...) are, by name."""
        flat = points.flatten(1)
        if hasattr(self.boundary, "unfamiliarity"):
            scores: dict[str, Tensor] = self.boundary.unfamiliarity(flat)
            return scores
        if self.has_density:
            return {"density": -self.boundary.log_prob(flat)}
        if self.boundary is not None and isinstance(self.features, EdgeAwareFeatureMap):
            log_odds: Any = self.features.transform_with_log_odds(points)[1]
            return {"edge": log_odds}
        return {}

    def samples(self, points: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) under each draw."""
        seen, extra = self.look(points), {"joint": True} if joint else {}
        draws: Tensor = self.posterior.predict_proba_samples(seen.features.double(), **extra)
        return draws if seen.kappa is None else doubted_draws(draws, seen.kappa)

    def moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,)."""
        seen = self.look(points)
        return with_doubt(*self.moments_of_weights(seen.features.double()), seen.kappa)

    def moments_of_weights(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The same over draws of step 3 alone, without doubt, of features (N, L)."""
        if hasattr(self.posterior, "predict_moments"):
            mean, mean_entropy = self.posterior.predict_moments(features)
            return mean, mean_entropy
        draws = self.posterior.predict_proba_samples(features)
        return draws.mean(dim=0, dtype=torch.float64), decompose(draws).aleatoric

    def nested_moments(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `from_moments` needs to split epistemic: (N, K), (N,) and (N,)."""
        seen = self.look(points)
        draws = self.posterior.predict_proba_samples(seen.features.double())
        mean, mean_entropy = draws.mean(dim=0), decompose(draws).aleatoric
        if seen.kappa is None:
            return mean, mean_entropy, mean_entropy
        given_weights = torch.special.entr(doubted(draws, seen.kappa)).sum(dim=2).mean(dim=0)
        return *with_doubt(mean, mean_entropy, seen.kappa), given_weights

    def ood_score(self, points: Tensor) -> Tensor:
        """How unfamiliar (N,) points are; only with doubt."""
        seen = self.look(points)
        return self._ood_score(seen, self.moments_of_weights(seen.features.double()))

    def _ood_score(self, seen: Look, moments: tuple[Tensor, Tensor]) -> Any:
        return self.doubt and self.doubt.ood_score(seen.score, from_moments(*moments).epistemic)

    def evaluation(self, points: Tensor, log_units: float) -> Evaluation[Tensor]:
        """All answers in one pass; `log_units` as in `log_density`."""
        seen = self.look(points)
        moments = self.moments_of_weights(seen.features)
        return evaluation_of(
            *with_doubt(*moments, seen.kappa),
            ood_score=self._ood_score(seen, moments),
            ood_probability=seen.kappa,
            log_density=self.log_density(points, log_units, seen.scores),
        )

    def log_density(
        self, points: Tensor, log_units: float, scores: dict[str, Tensor] | None = None
    ) -> Tensor | None:
        """Log density (N,), or None if the boundary has none.

        Parameters
        ----------
        log_units : float
            Log of the factor between densities of the data and of standardized points.
        scores : dict, optional
            From `look`: the density is not computed again if it is the first score, and the
            residual of principal components is not a score apart.
        """
        if not self.has_density:
            return None
        first = next(iter(scores or {}), None)
        if scores and first in ("density", "categories") and "residual" not in scores:
            log_prob: Tensor = -scores[first]
        else:
            log_prob = self.boundary.log_prob(points.flatten(1))
        return log_prob.double() - log_units


def features_of(feature_map: Any, points: Tensor, *, seen: bool = False) -> Tensor:
    """Features (N, L) of points in float64 for step 3, where large numbers nearly cancel.

    Parameters
    ----------
    seen : bool
        Whether the points may be those of `fit`, for which a feature map may have another method.
    """
    transform = feature_map.transform
    if seen:
        transform = getattr(feature_map, "transform_seen", transform)
    return torch.cat([transform(chunk) for chunk in points.split(CHUNK)]).double()


def with_doubt(mean: Tensor, mean_entropy: Tensor, kappa: Tensor | None) -> tuple[Tensor, Tensor]:
    """Moments (N, K) and (N,) over draws, of points that are unknown with probability kappa."""
    if kappa is None:
        return mean, mean_entropy
    return doubted(mean, kappa), (1 - kappa) * mean_entropy


def learn_doubt(
    predictor: Predictor, points: Tensor, features: Tensor, ood_prior: float, n_rows: int
) -> Doubt:
    """Doubt, from how unfamiliar those training points look that a step was not fitted to.

    Parameters
    ----------
    points : Tensor of shape (N, ...)
        Training points, or a sample of them.
    features : Tensor of shape (N, L)
        Their features.
    ood_prior : float
        Prior probability that a scored point is out of distribution.
    n_rows : int
        Number of rows that step 3 was fitted to.
    """
    step = predictor.boundary if predictor.has_density else predictor.features
    rows = getattr(step, "held_out_rows_", torch.empty(0, dtype=torch.int64))
    if len(rows) >= _FEWEST_HELD_OUT:
        points, features = points[rows.to(points.device)], features[rows.to(points.device)]
    looks = [predictor.unfamiliarity(chunk) for chunk in points.split(CHUNK)]
    tails = {}
    for name in looks[0]:
        scores = torch.cat([look[name] for look in looks])
        in_nats = name in _LOG_DENSITIES
        smallest = _SMALLEST_SPREAD if in_nats else 1e-6
        tails[name] = Tail.of(scores, smallest, two_sided=not in_nats)
    return Doubt(ood_prior, tails, usual_disagreement(predictor, features, n_rows))


def usual_disagreement(predictor: Predictor, features: Tensor, n_rows: int) -> float:
    """Epistemic uncertainty of the weights that 5 % of known points exceed, in nats.

    `features` (N, L) are those of known points; step 3 was fitted to `n_rows`.
    """
    epistemic = from_moments(*predictor.moments_of_weights(features)).epistemic
    smallest = max(_ROUNDING, _SMALLEST_DISAGREEMENT * min(1.0, _MANY_ROWS / n_rows))
    return max(float(epistemic.quantile(0.95)), smallest)
