"""LinearFeatures: the logits of a linear classifier on directions, for embeddings and wide tables.

A pretrained encoder has done what a network of ours would do. Its vectors are told apart by their
directions, and a linear classifier on them needs few rows.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy import optimize
from sklearn.base import BaseEstimator
from torch import Tensor

from bacoun.engine.directions import directions
from bacoun.engine.randomness import as_generator, draw_seed, hash_rows, mix_bits
from bacoun.engine.threads import threads_for
from bacoun.features.networks import CategoryCodes
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

_SCALES = [0.0125 * 2**power for power in range(10)]  # standard deviations of the weights, to 6.4
_FIRST = 5  # place of 0.4, from where the search goes up, or else down, as long as it improves
_LEAST_GAIN = 0.0005  # nats a row, of a step
_TOLERANCE = 1e-6  # of the loss, relative
_RIDGES = np.logspace(-4, 2, 13)  # of the regressions that compare units
_MOST_ROWS_TO_COMPARE = 2000


@dataclass(kw_only=True, repr=False, eq=False)
class LinearFeatures(SavesAttributes, BaseEstimator):
    """Logits of a ridge logistic regression on the direction of each point from the mean.

    Those of a training row are by a classifier that was not fitted to it. Which one that is depends
    only on a hash of the row, so copies of a row are treated alike.

    Parameters
    ----------
    n_folds : int
        Number of classifiers, each of which is fitted without another part of the rows.

    Attributes
    ----------
    weights_ : Tensor of shape (n_folds + 1, D + 1, K)
        Of the classifier without each fold and, last, of the one of all rows.
    ridge_scale_ : float
        Prior standard deviation of these weights that predicts held-out rows best.
    accuracy_ : float
        On held-out rows.
    prior_mean_ : Tensor of shape (K, K)
        Weights of the last layer under which the logits are right.
    prior_scale_ : float
        How far these may be from it: a logit of a typical row is right to within about 1.
    """

    n_folds: int = 5

    honored = ("sample_weight",)
    _saved = ("n_categories_", "seed_", "weights_", "ridge_scale_", "accuracy_", "prior_scale_")

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Learn from points (N, D) and labels (N,) in 0..K-1."""
        columns, weights = context.n_categories, context.sample_weight
        self.n_categories_ = [0] * points.shape[1] if columns is None else list(columns)
        self.seed_ = draw_seed(as_generator(context.generator))
        weights = points.new_ones(len(points)) if weights is None else weights / weights.mean()
        folds = self._folds(points)
        fits = _RidgeFits(self._design(points), labels, weights.to(points), folds, self.n_folds)
        best = _FIRST
        tried: dict[int, tuple[float, Tensor]] = {}

        def loss(place: int) -> float:
            if place not in tried:
                nearest = min(tried, key=lambda other: abs(other - place), default=None)
                start = None if nearest is None else tried[nearest][1]
                tried[place] = fits.fit(_SCALES[place], start)
            return tried[place][0]

        least = _LEAST_GAIN * len(points)
        for step in (1, -1):
            while 0 <= best + step < len(_SCALES) and loss(best + step) < loss(best) - least:
                best += step
            if best > _FIRST:
                break
        self.ridge_scale_, self.weights_ = _SCALES[best], fits.weights(tried[best][1])
        logits = self.transform_seen(points)
        self.accuracy_ = float((weights * (logits.argmax(dim=1) == labels)).mean())
        self.prior_scale_ = 1 / max(1.0, float(logits.square().sum(dim=1).mean().sqrt()))
        return self

    @property
    def prior_mean_(self) -> Tensor:
        """The identity: see above."""
        return torch.eye(self.weights_.shape[2], device=self.weights_.device)

    def _design(self, points: Tensor) -> Tensor:
        """Directions of the numbers, one-hot encoded categories, and a column of ones."""
        codes = CategoryCodes(self.n_categories_).to(points.device)
        numbers, rows = codes(points)
        parts = [directions(numbers), torch.ones_like(points[:, :1])]
        values = torch.arange(codes.n_values, device=points.device).split(codes.sizes.tolist())
        for column, own in zip(rows.unbind(dim=1), values, strict=True):
            parts.append((column[:, None] == own).to(points))
        return torch.cat(parts, dim=1)

    def _folds(self, points: Tensor) -> Tensor:
        with np.errstate(over="ignore"):  # modulo 2**64
            bits = mix_bits(hash_rows(points) + np.uint64(self.seed_ % 2**64))
        return torch.from_numpy((bits % np.uint64(self.n_folds)).astype(np.int64)).to(points.device)

    def transform(self, points: Tensor) -> Tensor:
        """Logits (N, K) of points (N, D), which sum to 0."""
        return self._design(points) @ self.weights_[-1]

    def transform_seen(self, points: Tensor) -> Tensor:
        """The same of points of `fit`, by classifiers that were not fitted to them."""
        design, folds = self._design(points), self._folds(points)
        logits = design.new_empty(len(points), self.weights_.shape[2])
        for fold in range(self.n_folds):
            own = folds == fold
            logits[own] = design[own] @ self.weights_[fold]
        return logits

    def unfamiliarity_from(self, features: Tensor) -> dict[str, Tensor]:
        """How little (N,) speaks for any class: the energy (Liu et al. 2020) of logits (N, K)."""
        return {"energy": -torch.logsumexp(features.double(), dim=1)}


class _RidgeFits:
    """Ridge logistic regressions without each fold, and one of all rows, which share each product.

    In coordinates along the singular vectors of the features, the curvature is nearly diagonal.
    """

    def __init__(
        self, design: Tensor, labels: Tensor, weights: Tensor, folds: Tensor, n_folds: int
    ) -> None:
        without = folds[:, None] != torch.arange(n_folds + 1, device=folds.device)
        self.weight = weights[:, None] * without  # (N, F)
        self.held_out = weights, folds
        self.labels, self.n_classes = labels, int(labels.max()) + 1
        wide = design.double()
        if len(wide) > wide.shape[1]:
            wide = torch.linalg.qr(wide, mode="r").R
        _, values, rows = torch.linalg.svd(wide, full_matrices=False)
        self.curvature, self.directions = values.square(), rows.T  # (r,), (D + 1, r)
        self.coordinates = (design.double() @ rows.T).to(design)

    def fit(self, scale: float, start: Tensor | None) -> tuple[float, Tensor]:
        """Log loss of rows under the fit without them, and weights (r, F, K) in coordinates."""
        shape = len(self.curvature), self.weight.shape[1], self.n_classes
        unit = (self.curvature / 4 + scale**-2).rsqrt()[:, None, None]

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = torch.from_numpy(flat).to(unit.device).view(shape) * unit
            losses, residuals = self._losses(weights.to(self.coordinates))
            value = float((losses * self.weight).sum(dtype=torch.float64))
            gradient = self.coordinates.T @ (residuals * self.weight[:, :, None]).flatten(1)
            value += float(weights.square().sum()) / (2 * scale**2)
            total = (gradient.view(shape).double() + weights / scale**2) * unit
            return value, total.flatten().cpu().numpy()

        first = torch.zeros(shape, dtype=torch.float64) if start is None else start / unit
        options: Any = {"maxiter": 300, "ftol": _TOLERANCE, "gtol": 1e-4, "maxcor": 10}
        with threads_for(0):  # on a busy machine more would wait for each other
            found = optimize.minimize(
                objective,
                first.flatten().cpu().numpy(),
                jac=True,
                method="L-BFGS-B",
                options=options,
            )
            weights = torch.from_numpy(found.x).to(unit.device).view(shape) * unit
            losses, _ = self._losses(weights.to(self.coordinates))
        row_weights, folds = self.held_out
        held_out = losses.gather(1, folds[:, None])[:, 0]
        return float((held_out * row_weights).sum(dtype=torch.float64)), weights

    def _losses(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Log losses (N, F), and probabilities minus labels (N, F, K)."""
        logits = (self.coordinates @ weights.flatten(1)).unflatten(1, weights.shape[1:])
        log_probabilities = logits.log_softmax(dim=2)
        places = self.labels[:, None, None].expand(-1, logits.shape[1], 1)
        losses = -log_probabilities.gather(2, places)[:, :, 0]
        residuals = log_probabilities.exp_()
        residuals.scatter_add_(2, places, -torch.ones_like(losses)[:, :, None])
        return losses, residuals

    def weights(self, in_coordinates: Tensor) -> Tensor:
        """Weights (F, D + 1, K) whose sum over classes is 0."""
        weights = torch.einsum("dr,rfk->fdk", self.directions, in_coordinates)
        return (weights - weights.mean(dim=2, keepdim=True)).to(self.coordinates)


def best_spread(centered: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Divisors (D,) of columns (N, D) by which directions tell classes (N,) apart best.

    Their standard deviations; or one for all, if columns have a common unit, as principal
    components have: then those of small variance are mostly noise. It is decided by the squared
    errors of ridge regressions on the direction of each row, without that row.
    """
    from sklearn.linear_model import RidgeCV  # slow to import, and only fits need it

    own = centered.std(axis=0)
    common = np.full_like(own, np.sqrt(np.square(own).mean()))
    if not (np.isfinite(common[0]) and common[0] > 0):
        return own
    some = np.linspace(0, len(labels) - 1, min(len(labels), _MOST_ROWS_TO_COMPARE)).astype(int)
    one_hot = (labels[some, None] == np.unique(labels)).astype(float)

    def accuracy(spread: np.ndarray) -> float:
        rows = torch.from_numpy(centered[some] / np.where(spread > 0, spread, 1.0))
        fitted = RidgeCV(_RIDGES).fit(directions(rows).numpy() / math.sqrt(len(spread)), one_hot)
        return float(fitted.best_score_)

    return common if accuracy(common) > accuracy(own) else own
