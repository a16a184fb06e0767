"""Prediction with fitted steps: standardized points in, probabilities and uncertainty out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bacoun.base import Evaluation, evaluation_of, standardized
from bacoun.boundary.flow_shell import as_if_held_out
from bacoun.protocols import (
    HasDensity,
    HasFeatureViews,
    HasHeldOutRows,
    HasLogOdds,
    HasMoments,
    HasTransformSeen,
    HasUnfamiliarity,
)
from bacoun.uncertainty import Doubt, decompose, doubted, doubted_draws, from_moments

CHUNK = 8192  # points at once: convolutions make much more of an image than what goes in
_FEWEST_REFERENCE, _MOST_REFERENCE = 200, 5000  # training points that doubt is learned from


class Judgement(NamedTuple):
    """What the fitted steps say about N points; the last three are None without doubt."""

    mean: Tensor  # class probabilities (N, K), averaged over draws
    mean_entropy: Tensor  # (N,), of a draw
    model: Tensor  # (N,), epistemic uncertainty due to the weights
    views: dict[str, Tensor]  # how unusual the points are, (N,) each
    surprise: Tensor | None = None  # (N,), all views in one
    kappa: Tensor | None = None  # (N,), share of the uniform distribution in the mean
    known: Tensor | None = None  # (N,), share of the noise in the weights' draws that is known


@dataclass(frozen=True)
class Predictor:
    """The three fitted steps, and doubt if there is any."""

    boundary: Any
    features: Any
    posterior: Any
    doubt: Doubt | None

    def judge(self, points: Tensor, dtype: torch.dtype = torch.float64) -> Judgement:
        """Everything about points (N, ...); draws are evaluated in `dtype`."""
        features = self.features.transform(points).to(dtype)
        return self._judgement(points, features, *self.moments_of_weights(features))

    def _judgement(
        self, points: Tensor, features: Tensor, mean: Tensor, mean_entropy: Tensor
    ) -> Judgement:
        """The same, given features (N, L) and moments (N, K) and (N,) over draws of the weights."""
        views = self.unfamiliarity(points) | self.unfamiliarity_from(features)
        epistemic = from_moments(mean, mean_entropy).epistemic
        if self.doubt is None:
            return Judgement(mean, mean_entropy, epistemic, views)
        surprise, kappa = self.doubt.surprise(views, epistemic), self.doubt.hedge(views)
        familiar = 1 - torch.maximum(kappa, self.doubt.probability(surprise))
        known = familiar * self.doubt.enough(surprise)
        noise = known * mean_entropy
        model = familiar * (epistemic + mean_entropy) - noise
        return Judgement(doubted(mean, kappa), noise, model, views, surprise, kappa, known)

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """Scores (N,) of how unfamiliar points (N, ...) are to the boundary, by name."""
        flat = points.flatten(1)
        if isinstance(self.boundary, HasUnfamiliarity):
            return self.boundary.unfamiliarity(flat)
        if isinstance(self.boundary, HasDensity):
            return {"density": -self.boundary.log_prob(flat)}
        if self.boundary is not None and isinstance(self.features, HasLogOdds):
            log_odds: Any = self.features.transform_with_log_odds(points)[1]
            return {"boundary": log_odds}
        return {}

    def unfamiliarity_from(self, features: Tensor) -> dict[str, Tensor]:
        """The same by features (N, L), if they can tell."""
        if self.boundary is not None and isinstance(self.features, HasFeatureViews):
            return self.features.unfamiliarity_from(features)
        return {}

    def samples(self, points: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) under each draw."""
        features, extra = self.features.transform(points), {"joint": True} if joint else {}
        draws: Tensor = self.posterior.predict_proba_samples(features.double(), **extra)
        if self.doubt is None:
            return draws
        mean = draws.mean(dim=0, dtype=torch.float64)
        judged: Any = self._judgement(points, features, mean, decompose(draws).aleatoric)
        if joint:  # the same classifier for all points, hedged
            return doubted(draws, judged.kappa)
        return doubted_draws(draws, judged.kappa, 1 - judged.known)

    def moments_of_weights(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of step 3 of probabilities (N, K) and entropy (N,), by features."""
        if isinstance(self.posterior, HasMoments):
            return self.posterior.predict_moments(features)
        draws = self.posterior.predict_proba_samples(features)
        return draws.mean(dim=0, dtype=torch.float64), decompose(draws).aleatoric

    def evaluation(self, points: Tensor, log_units: float) -> Evaluation[Tensor]:
        """All answers in one pass; `log_units` as in `log_density`."""
        judged = self.judge(points, torch.float32)
        answers = {"log_density": self.log_density(points, log_units, judged.views)}
        if self.doubt is not None and judged.surprise is not None:
            answers["ood_probability"] = self.doubt.probability(judged.surprise)
            answers["rows_like_this"] = self.doubt.rows_like_this(judged.surprise)
        return evaluation_of(judged.mean, judged.mean_entropy, judged.surprise, **answers)

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Views (N,) of the points (N, ...) of `fit`, as if they were new."""
        if isinstance(self.boundary, HasUnfamiliarity):
            return self.boundary.held_out_unfamiliarity(points.flatten(1), labels)
        chunks = [self.unfamiliarity(chunk) for chunk in points.split(CHUNK)]
        views = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
        step = self.boundary if isinstance(self.boundary, HasDensity) else self.features
        return as_if_held_out(views, _held_out_rows(step))

    def disagreement(self, features: Tensor) -> Tensor:
        """Epistemic uncertainty (N,) of the weights, in nats, from features (N, L)."""
        chunks = map(self.moments_of_weights, features.split(CHUNK))
        return torch.cat([from_moments(*moments).epistemic for moments in chunks])

    def log_density(
        self, points: Tensor, log_units: float, views: dict[str, Tensor] | None = None
    ) -> Tensor | None:
        """Log density (N,), or None if the boundary has none.

        `log_units` is the log of the factor between densities of the data and of standardized
        points; the `views` are those of `unfamiliarity`, so that the flows are not asked twice.
        """
        if not isinstance(self.boundary, HasDensity):
            return None
        flat = points.flatten(1)
        is_known = views is not None and isinstance(self.boundary, HasUnfamiliarity)
        boundary: Any = self.boundary
        log_prob = boundary.log_prob_from(flat, views) if is_known else boundary.log_prob(flat)
        return log_prob.double() - log_units


@dataclass(frozen=True)
class FeatureExtractor:
    """Rows of a table -> the features that step 3 learns from; `serialization` saves it."""

    mean: np.ndarray
    scale: np.ndarray
    feature_map: Any

    def __call__(self, table: np.ndarray) -> Tensor:
        """Features (N, L) of rows (N, D), which may be those of `fit`."""
        return features_of(self.feature_map, standardized(table, self.mean, self.scale), seen=True)


def _held_out_rows(step: Any) -> Tensor:
    """Indices of the rows of `fit` that a step was not fitted to; none if it does not say."""
    return step.held_out_rows_ if isinstance(step, HasHeldOutRows) else torch.empty(0).long()


def features_of(feature_map: Any, points: Tensor, *, seen: bool = False) -> Tensor:
    """Features (N, L) of points in float64 for step 3, where large numbers nearly cancel.

    `seen`: the points may be those of `fit`, for which a feature map may have another method.
    """
    has_other = seen and isinstance(feature_map, HasTransformSeen)
    transform = feature_map.transform_seen if has_other else feature_map.transform
    return torch.cat([transform(chunk) for chunk in points.split(CHUNK)]).double()


def reference_rows(n_rows: int) -> Tensor:
    """Indices of training points, evenly spread, that doubt is learned from."""
    return torch.linspace(0, n_rows - 1, min(n_rows, _MOST_REFERENCE)).round().long()


def learn_doubt(
    predictor: Predictor,
    points: Tensor,
    labels: Tensor,
    features: Tensor,
    ood_prior: float,
    n_rows: int,
) -> Doubt:
    """Doubt, from how unusual training points would look if they were new.

    Points (N, ...), labels (N,) and features (N, L) may be a sample of the `n_rows` of step 3.
    """
    views = predictor.held_out_unfamiliarity(points, labels)
    views = views | predictor.unfamiliarity_from(features)
    rows, are_new = reference_rows(len(points)), False
    new = _held_out_rows(predictor.features)
    if len(new) >= _FEWEST_REFERENCE:  # not even the features were fitted to them
        rows, are_new = new, True
    rows = rows.to(points.device)
    of_rows = {name: scores[rows] for name, scores in views.items()}
    disagreement = predictor.disagreement(features[rows])
    return Doubt.learn(of_rows, disagreement, ood_prior=ood_prior, n_rows=n_rows, are_new=are_new)
