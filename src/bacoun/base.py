"""What every classifier here shares: checked input, draws out, and all that follows.

The steps of BaCOUn and the networks of a baseline differ only in where the draws come from.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Generic, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bacoun.deferral import conformal_threshold, prediction_sets
from bacoun.deferral.checks import as_share
from bacoun.randomness import threads_for
from bacoun.uncertainty import Uncertainty, decompose, from_moments
from bacoun.uncertainty.decomposition import Array
from bacoun.validation import ImageShape, as_rows, check_table, classes_of

# Points are scored in blocks of this many rows, the last one padded: the same row then goes through
# the same arithmetic whatever its company, so that order and batch size cannot change an answer.
BLOCK = 256

# Where speed matters more than the last digits, larger blocks, each on a thread of its own.
LARGE_BLOCK = 2048

# Standardised inputs beyond this are all equally far away; float32 stays finite.
FAR = 1e6


@dataclass(frozen=True)
class Evaluation(Generic[Array]):
    """All that a classifier has to say about each row.

    Attributes
    ----------
    probabilities : (N, K)
        Mean over posterior draws; columns in the order of `classes_`.
    total, aleatoric, epistemic : (N,)
        In nats; see `Uncertainty`.
    ood_score : (N,)
        How unfamiliar each row is; see the classifier's own `ood_score`.
    ood_probability : (N,), or None if the classifier knows none
    log_density : (N,), or None if no flow was fitted
        In nats and the units of X.
    """

    probabilities: Array
    total: Array
    aleatoric: Array
    epistemic: Array
    ood_score: Array
    ood_probability: Array | None = None
    log_density: Array | None = None


def evaluation_of(
    mean: Tensor, mean_entropy: Tensor, ood_score: Tensor | None = None, **known: Tensor | None
) -> Evaluation[Tensor]:
    """From mean probabilities (N, K) and mean entropy (N,) over draws, and what else is known."""
    parts = from_moments(mean, mean_entropy)
    return Evaluation(
        mean / mean.sum(dim=1, keepdim=True),
        parts.total,
        parts.aleatoric,
        parts.epistemic,
        parts.epistemic if ood_score is None else ood_score,
        **known,
    )


class BayesianClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose answer is a set of draws (S, N, K).

    A subclass has the settings `standardize` and `device`, calls `_validated` first in `fit`, and
    implements `_samples`.
    """

    standardize: bool
    device: str

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
        """Check the training set; set what scikit-learn expects; return standardised tensors."""
        rows, self.image_shape_ = as_rows(X)
        table, given = check_table(self, rows, y, reset=True)
        self.__dict__.pop("set_scores_", None)  # of an earlier fit
        self.classes_, labels = classes_of(given)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least 2 classes; got 1 class, {self.classes_.tolist()[0]!r}. "
                "There is nothing to decide between."
            )
        self.mean_, self.scale_ = np.zeros(table.shape[1]), np.ones(table.shape[1])
        if self.standardize:
            with np.errstate(over="ignore", invalid="ignore"):
                self.mean_, spread = self._mean_and_spread(table)
            if not np.isfinite(spread).all():
                raise ValueError(
                    "X must have a finite variance; its largest entry is "
                    f"{np.abs(table).max():.3g}. Change the units."
                )
            constant = spread <= 1e-12 * np.abs(self.mean_)
            self.scale_ = np.where(constant, 1.0, spread)
        return self._standardised(table), torch.from_numpy(labels).to(self.device)

    def _checked(self, X: ArrayLike, *y: ArrayLike) -> Any:
        """X (N, D), images as rows of pixels, and y (N,) if given; like those of `fit`."""
        rows, shape = as_rows(X)
        if shape != self.image_shape_:
            raise ValueError(
                f"X must hold {_kind(self.image_shape_)}, as in fit; got {_kind(shape)}."
            )
        return check_table(self, rows, *y, reset=False)

    def _mean_and_spread(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each column (D,); images have one for each channel, so that dark pixels stay dark."""
        if self.image_shape_ is None:
            return table.mean(axis=0), table.std(axis=0)
        n_channels = self.image_shape_[0]
        pixels = table.reshape(len(table), n_channels, -1)
        each = np.ones(pixels.shape[2])
        mean, spread = pixels.mean(axis=(0, 2)), pixels.std(axis=(0, 2))
        return np.outer(mean, each).ravel(), np.outer(spread, each).ravel()

    def _standardised(self, table: np.ndarray) -> Tensor:
        """Points (N, D), or (N, C, H, W) if they are images."""
        with np.errstate(over="ignore"):
            standard = np.clip((table - self.mean_) / self.scale_, -FAR, FAR)
        points = torch.from_numpy(standard).float().to(self.device)
        return points if self.image_shape_ is None else points.unflatten(1, self.image_shape_)

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

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """How unfamiliar (N,) each row is; here its epistemic uncertainty, in nats."""
        return self.uncertainty(X).epistemic

    def evaluate(self, X: ArrayLike) -> Evaluation[np.ndarray]:
        """All answers about each row in one pass, in single precision: for many rows.

        Equal to what the single methods say to 1e-4. Those take several times as long, so that
        neither the order nor the number of rows can change a digit.
        """
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)

        def evaluate_from(start: int) -> list[np.ndarray | None]:
            block = self._evaluation(self._standardised(table[start : start + LARGE_BLOCK]))
            columns = (getattr(block, field.name) for field in fields(block))
            return [None if column is None else column.cpu().numpy() for column in columns]

        starts = range(0, len(table), LARGE_BLOCK)
        n_threads = min(torch.get_num_threads(), len(starts))
        # Blocks side by side, each on one thread: within a block threads would wait for each other.
        with threads_for(0), ThreadPoolExecutor(n_threads) as pool:
            blocks = list(pool.map(evaluate_from, starts))
        columns: list[Any] = [
            None if column[0] is None else np.concatenate(column)
            for column in zip(*blocks, strict=True)
        ]
        return Evaluation(*columns)

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        """All that is to be said about standardised points (N, D)."""
        return evaluation_of(*self._moments_in_parts(points))

    def _moments_in_parts(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The moments of any number of points; the draws of a few at a time are kept."""
        means, entropies = zip(*map(self._moments, points.split(BLOCK)), strict=True)
        return torch.cat(means), torch.cat(entropies)

    def calibrate(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled rows, none of which was fitted on, how large `predict_set` must be.

        Sets `set_scores_` (N,): how unlikely the true class of each row looked, in rising order.
        """
        check_is_fitted(self)
        _, given = self._checked(X, y)
        probabilities = self.predict_proba(X)
        likely = probabilities[np.arange(len(probabilities)), self._indices(given)]
        self.set_scores_ = np.sort(1 - likely)
        return self

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> np.ndarray:
        """Which classes (N, K), True or False, cannot be ruled out for each row.

        The set holds the true class of a new row of the same kind with probability `coverage` at
        least, on average over calibration sets; see `calibrate`. It may be empty.
        """
        check_is_fitted(self)
        if not hasattr(self, "set_scores_"):
            raise NotFittedError(
                "predict_set needs labelled rows that fit has not seen; this model has none. "
                "Call calibrate(X, y) first."
            )
        threshold = conformal_threshold(self.set_scores_, float(1 - as_share("coverage", coverage)))
        return prediction_sets(self.predict_proba(X), threshold)

    def _indices(self, y: np.ndarray) -> np.ndarray:
        """The index (N,) of each label among `classes_`."""
        labels, inverse = classes_of(y)
        index = {label: i for i, label in enumerate(self.classes_.tolist())}
        unseen = [label for label in labels.tolist() if label not in index]
        if unseen:
            raise ValueError(
                f"y must hold classes that the model was fitted on, {_some(list(index))}; got "
                f"{_some(unseen)}. Fit again to learn new classes, or drop these rows."
            )
        return np.array([index[label] for label in labels.tolist()])[inverse]

    def _score(
        self, X: ArrayLike, function: Callable[[Tensor], tuple[Tensor, ...]], block: int = BLOCK
    ) -> tuple[np.ndarray, ...]:
        """Run `function` on blocks of standardised rows; its results have rows on axis 0."""
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        blocks: list[list[Any]] = []
        for start in range(0, len(table), block):
            rows = table[start : start + block]
            padded = np.concatenate([rows, np.repeat(rows[-1:], block - len(rows), axis=0)])
            results = function(self._standardised(padded))
            blocks.append([result[: len(rows)].cpu().numpy() for result in results])
        return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))


def _kind(shape: ImageShape) -> str:
    return "a table" if shape is None else f"images of {' x '.join(map(str, shape))}"


def _some(labels: list[Any]) -> str:
    """The first few labels, for a message."""
    return ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
