"""Remove the points that a flow finds unlikely; the paper's appendix "Robustness to Outliers"."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator, Tensor

from bacoun.boundary.flow import FlowSettings, deviation_within
from bacoun.engine.randomness import RandomState, as_generator, draw_seed
from bacoun.engine.training import OnEpoch

_FAR = 1e6  # scales; values beyond are clipped
_TAIL = 3.0  # scales from the median at which the compression of the tails sets in
_CHUNK_ROWS = 10_000


@dataclass(repr=False, eq=False)
class FlowOutlierRemover(OutlierMixin, FlowSettings):
    """Outlier detection: the points of lowest density under one flow fitted to all points.

    Columns are centered at the median and divided by the interquartile range, and their tails are
    compressed by arcsinh, so that a value in wrong units does not mask smaller outliers. Settings
    that are not listed are those of `FlowSettings`; other defaults are the paper's for Moons.

    Parameters
    ----------
    contamination : float or int
        Share of the training points that are outliers, from 0 to 0.5, or their number.
    random_state : int, RandomState, Generator or None
        Seed of the fit. Global random streams are not touched.

    Attributes
    ----------
    flow_ : Flow
        The fitted flow.
    offset_ : float
        Log density below which a point is an outlier.
    n_features_in_ : int
        Number D of columns seen in `fit`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X = np.vstack([make_moons(200, noise=0.1, random_state=0)[0], [[5.0, 5.0], [-9.0, 0.0]]])
    >>> remover = FlowOutlierRemover(contamination=2, epochs=20, random_state=0)
    >>> np.flatnonzero(remover.fit_predict(X) == -1)
    array([200, 201])
    """

    contamination: float = 0.05
    _: KW_ONLY
    jitter: float = 0.02
    epochs: int = 100
    l2: float = 5.0
    patience: int | None = None
    random_state: RandomState = None

    def fit(self, X: ArrayLike, y: object = None, *, on_epoch: OnEpoch | None = None) -> Self:
        """Fit the flow to X (N, D), outliers included; y is ignored."""
        table: np.ndarray = validate_data(self, X, dtype=np.float64)
        n_outliers = self._n_outliers(len(table))
        self.center_, self.scale_ = np.median(table, axis=0), _robust_scale(table)
        points = torch.from_numpy(self._compressed(table)).float()
        seed = draw_seed(as_generator(self.random_state))
        flow = self.flow_ = self._fit_flow(points, deviation_within([points]), seed, on_epoch)
        # Trained in float32, evaluated in float64: a row's score must not depend on the batch.
        flow.module_.double()
        flow.center_, flow.scale_ = flow.center_.double(), flow.scale_.double()
        ranked = np.sort(self._log_density(table))
        # Halfway between the last outlier and the first inlier, so that rounding changes neither.
        self.offset_ = float(ranked[max(n_outliers - 1, 0) : n_outliers + 1].mean())
        return self

    def _n_outliers(self, n_points: int) -> int:
        share = self.contamination
        if isinstance(share, Integral) and not isinstance(share, bool) and 0 <= share < n_points:
            return int(share)
        if not isinstance(share, Real) or isinstance(share, Integral) or not 0 <= share <= 0.5:
            raise ValueError(
                "contamination must be a share from 0 to 0.5, or a whole number below that of the "
                f"{n_points} points; got {share!r}. Try 0.05."
            )
        return round(float(share) * n_points)

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) of each row, in nats and the units of X."""
        check_is_fitted(self)
        return self._log_density(validate_data(self, X, dtype=np.float64, reset=False))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) minus the threshold; negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """-1 for outliers and +1 for inliers (N,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _log_density(self, table: np.ndarray) -> np.ndarray:
        latent = torch.from_numpy(self._compressed(table))
        scores = [self.flow_.log_prob(rows).numpy() for rows in latent.split(_CHUNK_ROWS)]
        # d/dx of tail * arcsinh(z / tail), z = (x - center) / scale, is 1 / (scale cosh(arcsinh)).
        slope = np.log(np.cosh(latent.numpy() / _TAIL)) + np.log(self.scale_)
        return np.concatenate(scores) - slope.sum(axis=1)

    def _compressed(self, table: np.ndarray) -> np.ndarray:
        """Scaled columns (N, D), linear near the median and logarithmic in the tails."""
        with np.errstate(over="ignore"):
            standard = np.clip((table - self.center_) / self.scale_, -_FAR, _FAR)
        return _TAIL * np.arcsinh(standard / _TAIL)

    def from_latent(self, latent: ArrayLike) -> np.ndarray:
        """Map points (N, D) of latent space, where the data is a standard normal, to units of X."""
        check_is_fitted(self)
        compressed = self.flow_.to_data(torch.as_tensor(np.asarray(latent, dtype=np.float64)))
        return _TAIL * np.sinh(compressed.numpy() / _TAIL) * self.scale_ + self.center_


def _robust_scale(table: np.ndarray) -> np.ndarray:
    """Interquartile range (D,), 1 for a standard normal; the standard deviation if it is 0."""
    low, high = np.quantile(table, [0.25, 0.75], axis=0)
    width = (high - low) / 1.349
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = table.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(low)
    return np.where(constant, 1.0, np.where(width > 0, width, deviation))


def least_likely(log_density: np.ndarray, labels: np.ndarray, n_points: int) -> np.ndarray:
    """Ascending rows of the `n_points` lowest `log_density` (N,), except the best two of a label.

    Examples
    --------
    >>> least_likely(np.array([-9.0, -1.0, -8.0, -7.0, -2.0]), np.array([0, 0, 0, 1, 1]), 2)
    array([0])
    """
    order = np.argsort(log_density, kind="stable")
    stay = [order[labels[order] == label][-2:] for label in np.unique(labels)]
    free = order[~np.isin(order, np.concatenate(stay))]
    return np.sort(free[:n_points])


def find_outliers(
    table: np.ndarray,
    labels: Tensor,
    contamination: float,
    *,
    generator: Generator,
    on_epoch: OnEpoch | None = None,
) -> np.ndarray:
    """Rows (n,) of lowest density under one flow, a share of all rows of a table (N, D).

    Two points of each class are kept.
    """
    remover = FlowOutlierRemover(random_state=np.random.default_rng(draw_seed(generator)))
    log_density = remover.fit(table, on_epoch=on_epoch).score_samples(table)
    return least_likely(log_density, labels.cpu().numpy(), round(contamination * len(table)))
