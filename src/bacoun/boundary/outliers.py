"""Keep the points a flow finds likely; the paper's appendix "Robustness to Outliers"."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bacoun.boundary.flow import Flow
from bacoun.boundary.flow_shell import FlowShell
from bacoun.randomness import RandomState, as_generator
from bacoun.training import OnEpoch

_FAR = 1e6  # spreads; all beyond is equally far away
_TAIL = 3.0  # spreads from the median, from where on distances count by their logarithm
_ROWS_AT_ONCE = 10_000


class FlowOutlierRemover(OutlierMixin, BaseEstimator):
    """Outliers are the points of lowest density under one flow fitted to all points.

    Each column is brought to zero median and unit spread and its tails are pulled in by arcsinh, so
    that a value in wrong units does not hide smaller outliers from the flow.

    Parameters
    ----------
    contamination : float or int
        Share of the training points that are outliers, between 0 and 0.5, or their number.
    blocks, hidden, batch_norm, jitter
        The flow; see `bacoun.boundary.flow.Flow`.
    epochs, batch_size, learning_rate, l2, patience
        Its training; see `bacoun.training.train`. The defaults are the paper's for Moons, without
        batch norm.
    random_state : int, RandomState, Generator or None
        One state gives one answer; global streams are not touched.

    Attributes
    ----------
    flow_ : Flow
    offset_ : float
        Log density below which a point is an outlier.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X = np.vstack([make_moons(200, noise=0.1, random_state=0)[0], [[5.0, 5.0], [-9.0, 0.0]]])
    >>> remover = FlowOutlierRemover(contamination=2, epochs=20, random_state=0)
    >>> np.flatnonzero(remover.fit_predict(X) == -1)
    array([200, 201])
    """

    def __init__(
        self,
        contamination: float = 0.05,
        *,
        blocks: int = 5,
        hidden: int = 64,
        batch_norm: bool = False,
        jitter: float = 0.02,
        epochs: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        l2: float = 5.0,
        patience: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.contamination = contamination
        self.blocks = blocks
        self.hidden = hidden
        self.batch_norm = batch_norm
        self.jitter = jitter
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.l2 = l2
        self.patience = patience
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, *, on_epoch: OnEpoch | None = None) -> Self:
        """Fit the flow to X (N, D), outliers included; y is not used."""
        table: np.ndarray = validate_data(self, X, dtype=np.float64)
        n_outliers = self._n_outliers(len(table))
        self.center_ = np.median(table, axis=0)
        self.scale_ = _spread(table)
        points = torch.from_numpy(self._pulled_in(table)).float()
        self.flow_ = self._fit_flow(points, on_epoch)
        ranked = np.sort(self._log_density(table))
        # Half way between the last outlier and the first point kept: rounding cannot move either.
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

    def _fit_flow(self, points: torch.Tensor, on_epoch: OnEpoch | None) -> Flow:
        shell = FlowShell(
            per_class=False,
            blocks=self.blocks,
            hidden=self.hidden,
            batch_norm=self.batch_norm,
            jitter=self.jitter,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            l2=self.l2,
            patience=self.patience,
        )
        one_class = torch.zeros(len(points), dtype=torch.int64)
        generator = as_generator(self.random_state)
        (flow,) = shell.fit(points, one_class, generator=generator, on_epoch=on_epoch).flows_
        # Learned in float32, asked in float64: a row's score must not depend on its company.
        flow.module_.double()
        flow.center_, flow.scale_ = flow.center_.double(), flow.scale_.double()
        return flow

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) of each row, in nats and the units of X."""
        check_is_fitted(self)
        return self._log_density(validate_data(self, X, dtype=np.float64, reset=False))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log density (N,) above that of the likeliest outlier; negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """-1 (N,) for outliers, +1 for all others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _log_density(self, table: np.ndarray) -> np.ndarray:
        latent = torch.from_numpy(self._pulled_in(table))
        scores = [self.flow_.log_prob(rows).numpy() for rows in latent.split(_ROWS_AT_ONCE)]
        # d/dx of tail * arcsinh(z / tail), z = (x - center) / scale, is 1 / (scale cosh(arcsinh)).
        slope = np.log(np.cosh(latent.numpy() / _TAIL)) + np.log(self.scale_)
        return np.concatenate(scores) - slope.sum(axis=1)

    def _pulled_in(self, table: np.ndarray) -> np.ndarray:
        """Columns of unit spread (N, D), linear near the median and logarithmic in the tails."""
        with np.errstate(over="ignore"):
            standard = np.clip((table - self.center_) / self.scale_, -_FAR, _FAR)
        return _TAIL * np.arcsinh(standard / _TAIL)


def _spread(table: np.ndarray) -> np.ndarray:
    """The middle half's width (D,), in units in which a normal has 1; for few values, the sd."""
    low, high = np.quantile(table, [0.25, 0.75], axis=0)
    width = (high - low) / 1.349
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = table.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(low)
    return np.where(constant, 1.0, np.where(width > 0, width, deviation))


def least_likely(log_density: np.ndarray, labels: np.ndarray, n_points: int) -> np.ndarray:
    """Rows of the `n_points` lowest densities, in rising order, that leave two of each class.

    Parameters
    ----------
    log_density, labels : ndarray of shape (N,)

    Examples
    --------
    >>> least_likely(np.array([-9.0, -1.0, -8.0, -7.0, -2.0]), np.array([0, 0, 0, 1, 1]), 2)
    array([0])
    """
    order = np.argsort(log_density, kind="stable")
    stay = [order[labels[order] == label][-2:] for label in np.unique(labels)]
    free = order[~np.isin(order, np.concatenate(stay))]
    return np.sort(free[:n_points])
