"""What every classifier here shares: checked input, draws out, and all that follows.

The steps of BaCOUn and the networks of a baseline differ only in where the draws come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bacoun.uncertainty import Uncertainty, decompose, from_moments
from bacoun.validation import checked, classes_of

# Points are scored in blocks of this many rows, the last one padded: the same row then goes through
# the same arithmetic whatever its company, so that order and batch size cannot change an answer.
BLOCK = 256

# Standardised inputs beyond this are all equally far away; float32 stays finite.
_FAR = 1e6


class BayesianClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose answer is a set of draws (S, N, K).

    A subclass has the settings `standardize` and `device`, calls `_validated` first in `fit`, and
    implements `_samples`.
    """

    standardize: bool
    device: str

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
        """Check the training set; set what scikit-learn expects; return standardised tensors."""
        table, given = checked(self, X, y)
        self.classes_, labels = classes_of(given)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least 2 classes; got 1 class, {self.classes_.tolist()[0]!r}. "
                "There is nothing to decide between."
            )
        self.mean_, self.scale_ = np.zeros(table.shape[1]), np.ones(table.shape[1])
        if self.standardize:
            with np.errstate(over="ignore", invalid="ignore"):
                self.mean_, spread = table.mean(axis=0), table.std(axis=0)
            if not np.isfinite(spread).all():
                raise ValueError(
                    "X must have a finite variance; its largest entry is "
                    f"{np.abs(table).max():.3g}. Change the units."
                )
            constant = spread <= 1e-12 * np.abs(self.mean_)
            self.scale_ = np.where(constant, 1.0, spread)
        return self._standardised(table), torch.from_numpy(labels).to(self.device)

    def _standardised(self, X: np.ndarray) -> Tensor:
        with np.errstate(over="ignore"):
            standard = np.clip((X - self.mean_) / self.scale_, -_FAR, _FAR)
        return torch.from_numpy(standard).float().to(self.device)

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) of standardised points (N, D), under each draw."""
        raise NotImplementedError

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,)."""
        samples = self._samples(points)
        return samples.mean(dim=0, dtype=torch.float64), decompose(samples).aleatoric

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most likely class (N,) of each row."""
        winners = self.predict_proba(X).argmax(axis=1)
        return self.classes_[winners]

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Class probabilities (N, K): the mean over posterior draws."""
        (mean,) = self._score(X, lambda points: (self._moments(points)[0],))
        return mean / mean.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Logarithm of `predict_proba` (N, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_proba_samples(self, X: ArrayLike, joint: bool = False) -> np.ndarray:
        """Class probabilities (S, N, K) under each posterior draw.

        Parameters
        ----------
        joint : bool
            True makes draw s one and the same classifier for all rows; False may be cheaper and
            smoother over rows, and is exact for each row on its own.
        """
        (samples,) = self._score(X, lambda points: (self._samples(points, joint).movedim(1, 0),))
        return np.moveaxis(samples, 0, 1)

    def uncertainty(self, X: ArrayLike) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats."""
        return self._uncertainty(X, self._moments)

    def _uncertainty(
        self, X: ArrayLike, moments: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Uncertainty[np.ndarray]:
        def parts(points: Tensor) -> tuple[Tensor, ...]:
            return tuple(from_moments(*moments(points)).parts().values())

        return Uncertainty(*self._score(X, parts))

    def _score(
        self, X: ArrayLike, function: Callable[[Tensor], tuple[Tensor, ...]], block: int = BLOCK
    ) -> tuple[np.ndarray, ...]:
        """Run `function` on blocks of standardised rows; its results have rows on axis 0."""
        check_is_fitted(self)
        table: np.ndarray = checked(self, X, reset=False)
        blocks: list[list[Any]] = []
        for start in range(0, len(table), block):
            rows = table[start : start + block]
            padded = np.concatenate([rows, np.repeat(rows[-1:], block - len(rows), axis=0)])
            results = function(self._standardised(padded))
            blocks.append([result[: len(rows)].cpu().numpy() for result in results])
        return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))
