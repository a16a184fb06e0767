"""The prior standard deviation of the weights: by held-out rows, or by the evidence."""

import math
from typing import Any

import torch
from scipy import optimize
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.reduction import Spectrum, reduce
from bacoun.posterior.whitening import find_mode, whiten

_SCALES = [0.025 * 2**power for power in range(7)]  # to 1.6, beyond which HMC mixes slowly
_MARGIN = 1.0  # nats over all rows: what a step must gain, so that three rows prove nothing
_TOLERANCE = 1e-3  # nats, of each mode: far below the margin
_FIRST = 3  # place of 0.2, from where the search goes down or up as long as it improves
_MIN_SCALE, _MAX_SCALE = 0.01, 100.0  # where the evidence is searched


def held_out_prior_scale(
    features: Tensor, labels: Tensor, weights: Tensor, folds: Tensor, n_classes: int
) -> float:
    """The best of seven scales, by the log loss of each row under the member that holds it out.

    Features (M, N, L), in float64, are of M members; member m was not fitted to rows of fold m.
    """
    judges = [
        _Judge(of_member, labels, weights, folds == member, n_classes)
        for member, of_member in enumerate(features)
        if 0 < int((folds == member).sum()) < len(folds)  # few different rows leave folds empty
    ]
    losses: dict[int, float] = {}

    def loss(place: int) -> float:
        if place not in losses:
            losses[place] = sum(judge.loss(_SCALES[place]) for judge in judges)
        return losses[place]

    best = _FIRST
    for step in (-1, 1):
        while 0 <= best + step < len(_SCALES) and loss(best + step) < loss(best) - _MARGIN:
            best += step
    return _SCALES[best]


class _Judge:
    """Logistic regression on the features of one member, scored on the rows that it held out."""

    def __init__(
        self, features: Tensor, labels: Tensor, weights: Tensor, held_out: Tensor, n_classes: int
    ) -> None:
        design = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        trained = ~held_out
        self.spectrum = Spectrum(design[trained] * weights[trained, None].sqrt())
        coordinates = design @ self.spectrum.directions
        self.train = coordinates[trained], labels[trained], n_classes
        self.train_weights, self.weights = weights[trained], weights[held_out]
        self.held_out, self.labels = coordinates[held_out], labels[held_out]
        self.mode: Tensor | None = None

    def loss(self, prior_scale: float) -> float:
        """Summed log loss of the held-out rows at the mode."""
        posterior = SoftmaxRegression(*self.train, prior_scale, self.train_weights)
        self.mode = find_mode(
            posterior, self.spectrum.eigenvalues, start=self.mode, tolerance=_TOLERANCE
        )
        probabilities = posterior.probabilities(self.mode, self.held_out)
        likely = probabilities.gather(1, self.labels[:, None])[:, 0].clamp(min=1e-12)
        return -float((self.weights * likely.log()).sum())


def log_evidence(posterior: SoftmaxRegression, mode: Tensor) -> float:
    """Laplace approximation of log p(labels | features, prior_scale), in nats.

    Directions that keep their prior contribute nothing.
    """
    at_mode = float(posterior.log_density(mode[:, :, None]))
    log_prior_scale = mode.numel() * math.log(posterior.prior_scale)
    return at_mode - log_prior_scale + whiten(posterior, mode[:, :, None]).log_det


def most_evident_prior_scale(
    features: Tensor, labels: Tensor, n_classes: int, *options: Any
) -> float:
    """The prior standard deviation from 0.01 to 100 with the largest evidence, to about 5 %.

    The options are those of `reduce` after the scale.
    """
    data = features, labels, n_classes

    def loss(log_scale: float) -> float:
        _, posterior, mode = reduce(*data, math.exp(log_scale), *options)
        return -log_evidence(posterior, mode)

    bounds = math.log(_MIN_SCALE), math.log(_MAX_SCALE)
    best = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.05})
    return math.exp(best.x)
