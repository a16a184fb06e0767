"""The base class of all classifiers: validation, chunked scoring, and what follows from draws.

BaCOUn and the baselines differ only in where the posterior draws come from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bacoun.deferral import conformal_threshold, prediction_sets
from bacoun.deferral.checks import as_share
from bacoun.engine.threads import independent_workers
from bacoun.uncertainty import Uncertainty, decompose, from_moments
from bacoun.uncertainty.decomposition import Array
from bacoun.validation import ImageShape, as_rows, check_table, classes_of

# Points are scored in chunks of this many rows, the last one padded. The arithmetic of a row then
# does not depend on the other rows, so neither their order nor their number can change its result.
# `evaluate` gives up the last digits for speed: larger chunks, each on a thread of its own.
CHUNK, LARGE_CHUNK = 256, 2048
FAR = 1e6  # standardized inputs are clipped to this range, so that float32 stays finite


@dataclass(frozen=True)
class Evaluation(Generic[Array]):
    """Everything a classifier predicts about each row.

    Attributes
    ----------
    probabilities : (N, K)
        Mean over posterior draws; columns in the order of `classes_`.
    total, aleatoric, epistemic : (N,)
        Predictive entropy and its two parts, in nats.
    ood_score : (N,)
        How unfamiliar each row is; larger is less familiar.
    ood_probability : (N,), or None for a classifier without doubt
        Probability of being out of distribution.
    rows_like_this : (N,), or None for a classifier without doubt
        Expected number of training rows that are at least as unusual.
    log_density : (N,), or None if no flow was fitted
        Log density of the row, in nats and the units of X.
    """

    probabilities: Array
    total: Array
    aleatoric: Array
    epistemic: Array
    ood_score: Array
    ood_probability: Array | None = None
    rows_like_this: Array | None = None
    log_density: Array | None = None


def evaluation_of(
    mean: Tensor, mean_entropy: Tensor, ood_score: Tensor | None = None, **known: Tensor | None
) -> Evaluation[Tensor]:
    """An evaluation from mean probabilities (N, K) and mean entropy (N,) over draws."""
    parts: dict[str, Any] = from_moments(mean, mean_entropy).parts()
    parts["ood_score"] = parts["epistemic"] if ood_score is None else ood_score
    return Evaluation(mean / mean.sum(dim=1, keepdim=True), **(parts | known))


def standardized(table: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> Tensor:
    """Points (N, D), in single precision, from a table (N, D)."""
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.clip((table - mean) / scale, -FAR, FAR)).float()


class BayesianClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier that predicts posterior draws (S, N, K).

    A subclass has the settings `standardize` and `device`, calls `_validated` first in `fit`, and
    implements `_samples`.
    """

    standardize: bool
    device: str

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True  # images
        return tags

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
        """Check the training set; set what scikit-learn expects; return standardized tensors."""
        rows, self.image_shape_ = as_rows(X)
        table, own_labels = check_table(self, rows, y, reset=True)
        self.__dict__.pop("set_scores_", None)  # of an earlier fit
        self.classes_, labels = classes_of(own_labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least 2 classes; got 1 class, {self.classes_.tolist()[0]!r}. "
                "There is nothing to decide between."
            )
        self._learn_categories(table)
        self.mean_, self.scale_ = np.zeros(table.shape[1]), np.ones(table.shape[1])
        if self.standardize:
            with np.errstate(over="ignore", invalid="ignore"):
                self.mean_, spread = self._mean_and_spread(table, labels)
            if not np.isfinite(spread).all():
                raise ValueError(
                    "X must have a finite variance; its largest entry is "
                    f"{np.abs(table).max():.3g}. Change the units."
                )
            constant = spread <= 1e-12 * np.abs(self.mean_)
            self.scale_ = np.where(constant, 1.0, spread)
        return self._standardized(table), torch.from_numpy(labels).to(self.device)

    def _learn_categories(self, table: np.ndarray) -> None:
        """Learn which columns (N, D) are categories; for classifiers that know such."""

    def _checked(self, X: ArrayLike, *y: ArrayLike) -> Any:
        """X (N, D), images as rows of pixels, and y (N,) if given; like those of `fit`."""
        rows, shape = as_rows(X)
        if shape != self.image_shape_:
            raise ValueError(
                f"X must hold {_kind(self.image_shape_)}, as in fit; got {_kind(shape)}."
            )
        return check_table(self, rows, *y, reset=False)

    def _mean_and_spread(
        self, table: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (D,) of the columns; images share one pair per channel."""
        if self.image_shape_ is None:
            return table.mean(axis=0), table.std(axis=0)
        pixels = table.reshape(len(table), self.image_shape_[0], -1)
        mean, spread = pixels.mean(axis=(0, 2)), pixels.std(axis=(0, 2))
        return mean.repeat(pixels.shape[2]), spread.repeat(pixels.shape[2])

    def _standardized(self, table: np.ndarray) -> Tensor:
        """Points (N, D), or (N, C, H, W) if they are images."""
        points = standardized(table, self.mean_, self.scale_).to(self.device)
        return points if self.image_shape_ is None else points.unflatten(1, self.image_shape_)

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) of standardized points (N, D), under each draw."""
        raise NotImplementedError

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the class probabilities (N, K) and of their entropy (N,)."""
        samples = self._samples(points)
        return samples.mean(dim=0, dtype=torch.float64), decompose(samples).aleatoric

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most likely class (N,) of each row."""
        winners = self.predict_proba(X).argmax(axis=1)  # which says so if there was no fit
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
            True: draw s is the same classifier for all rows. False may be cheaper and smoother over
            rows; the draws of each single row have the same distribution.
        """
        (samples,) = self._score(X, lambda points: (self._samples(points, joint).movedim(1, 0),))
        return np.moveaxis(samples, 0, 1)

    def uncertainty(self, X: ArrayLike) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats."""
        return self._uncertainty(X, self._moments)

    def _uncertainty(
        self, X: ArrayLike, moments: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Uncertainty[np.ndarray]:
        parts = self._score(X, lambda p: tuple(from_moments(*moments(p)).parts().values()))
        return Uncertainty(*parts)

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """How unfamiliar (N,) each row is; here its epistemic uncertainty, in nats."""
        return self.uncertainty(X).epistemic

    def evaluate(self, X: ArrayLike) -> Evaluation[np.ndarray]:
        """All predictions in one pass, in single precision: fast, for many rows.

        They agree with `predict_proba`, `uncertainty` and `ood_score` to 1e-4. Those are slower,
        but do not depend on the order or number of rows in any digit.
        """
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)

        def evaluate_from(start: int) -> list[np.ndarray | None]:
            chunk = self._evaluation(self._standardized(table[start : start + LARGE_CHUNK]))
            columns = vars(chunk).values()
            return [None if column is None else column.cpu().numpy() for column in columns]

        with independent_workers() as run:
            chunks = run(evaluate_from, range(0, len(table), LARGE_CHUNK))
        columns: list[Any] = [
            None if column[0] is None else np.concatenate(column)
            for column in zip(*chunks, strict=True)
        ]
        return Evaluation(*columns)

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        """Everything about standardized points (N, D), with the draws of one chunk in memory."""
        means, entropies = zip(*map(self._moments, points.split(CHUNK)), strict=True)
        return evaluation_of(torch.cat(means), torch.cat(entropies))

    def calibrate(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Calibrate `predict_set` on labeled rows that were not used in `fit`.

        Sets `set_scores_` (N,), sorted: one minus the probability of the true class.
        """
        check_is_fitted(self)
        indices = self._indices(self._checked(X, y)[1])
        likely = np.take_along_axis(self.predict_proba(X), indices[:, None], axis=1)
        self.set_scores_ = np.sort(1 - likely[:, 0])
        return self

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> np.ndarray:
        """Conformal prediction sets (N, K): which classes cannot be ruled out for each row.

        Parameters
        ----------
        coverage : float
            The set holds the true class of a new row with at least this probability, on average
            over calibration sets, if the row comes from the same distribution. It may be empty.
        """
        check_is_fitted(self)
        if "set_scores_" not in vars(self):
            raise NotFittedError(
                "predict_set needs labeled rows that fit has not seen; this model has none. "
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
        self, X: ArrayLike, function: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> tuple[np.ndarray, ...]:
        """Run `function` on chunks of standardized rows; its results have rows on axis 0."""
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        chunks: list[list[Any]] = []
        for start in range(0, len(table), CHUNK):
            rows = table[start : start + CHUNK]
            padded = np.concatenate([rows, np.repeat(rows[-1:], CHUNK - len(rows), axis=0)])
            results = function(self._standardized(padded))
            chunks.append([result[: len(rows)].cpu().numpy() for result in results])
        return tuple(np.concatenate(column) for column in zip(*chunks, strict=True))


def _kind(shape: ImageShape) -> str:
    return "a table" if shape is None else f"images of {' x '.join(map(str, shape))}"


def _some(labels: list[Any]) -> str:
    return ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
