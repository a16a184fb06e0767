"""Softmax regression with a Gaussian prior: log density, gradient and Hessian.

Softmax is invariant to the class mean of the weights, so K-1 columns suffice. Two bases of them are
used, related by a (K-1) x (K-1) matrix:

- *contrasts*: orthonormal, so that the prior stays N(0, sigma^2 I);
- *logits against the last class*: what the likelihood is computed from.

Weights have shape (K-1, r, B) for r features and B chains, so that a gradient takes two large
matrix products instead of B small ones. With many classes, `of_classes` has K columns, one for each
class, in which the curvature is closest to diagonal.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from scipy.linalg import helmert
from torch import Tensor

from bacoun.engine.threads import independent_workers, is_worth_threads

# Rows are processed in chunks whose logits fit in the CPU cache.
_CHUNK_ELEMENTS = 1 << 18
_CHUNK_ROWS = 8192
_N_PARTS = 4  # of a Hessian, each on a thread of its own if it is large


def contrasts(n_classes: int) -> Tensor:
    """Orthonormal columns (K, K-1), each summing to zero.

    Examples
    --------
    >>> contrasts(2).T
    tensor([[ 0.7071, -0.7071]], dtype=torch.float64)
    """
    return torch.from_numpy(helmert(n_classes).T.copy())


def against_last(n_classes: int) -> Tensor:
    """The matrix (K-1, K-1) from contrasts to logits against the last class."""
    columns = contrasts(n_classes)
    return columns[:-1] - columns[-1]


def mix(matrix: Tensor, weights: Tensor) -> Tensor:
    """Apply `matrix` (J, K-1) to the class axis of weights (K-1, ...)."""
    return (matrix.to(weights) @ weights.flatten(1)).unflatten(1, weights.shape[1:])


@dataclass
class SoftmaxRegression:
    """The posterior density of the contrasts W of Equation 1, up to a constant.

    The shapes (K-1, r) below are (J, r), if there are other `columns` than contrasts.
    """

    features: Tensor  # (N, r), including the column of ones, if there is an intercept
    labels: Tensor  # (N,)
    n_classes: int
    prior_scale: float
    sample_weight: Tensor | None = None  # (N,): how often each row counts; None: once
    prior_mean: Tensor | None = None  # contrasts (K-1, r); None: 0
    columns: Tensor | None = None  # orthonormal (K, J): the logits of a column; None: contrasts
    _label_sums: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        one_hot = torch.nn.functional.one_hot(self.labels, self.n_classes)[:, :-1]
        if self.sample_weight is not None:
            one_hot = one_hot * self.sample_weight.double()[:, None]
        sums = self.features.new_zeros(
            self.n_classes - 1, self.features.shape[1], dtype=torch.float64
        )
        chunks = self.features.split(_CHUNK_ROWS), one_hot.split(_CHUNK_ROWS)
        for features, labels in zip(*chunks, strict=True):
            sums += labels.double().T @ features.double()
        self._label_sums = sums[:, :, None]  # (K-1, r, 1)
        columns = contrasts(self.n_classes) if self.columns is None else self.columns
        self._columns = columns.to(self.features)
        self._to_logits = (columns[:-1] - columns[-1]).to(self.features.device)

    @property
    def shape(self) -> tuple[int, int]:
        """(K-1, r), the shape of one draw."""
        return self._to_logits.shape[1], self.features.shape[1]

    def to(self, dtype: torch.dtype) -> "SoftmaxRegression":
        """The same density with the features in another precision."""
        weight = None if self.sample_weight is None else self.sample_weight.to(dtype)
        fixed = self.labels, self.n_classes, self.prior_scale
        centered = self.prior_mean, self.columns
        return SoftmaxRegression(self.features.to(dtype), *fixed, weight, *centered)

    def of_classes(self) -> "SoftmaxRegression":
        """The density of weights of all classes (K, r), each with the prior of a contrast.

        Of their contrasts it is the same density, and their mean over the classes keeps its prior.
        """
        mean = None if self.prior_mean is None else self.to_classes @ self.prior_mean
        every = torch.eye(self.n_classes, dtype=torch.float64, device=self.features.device)
        fixed = self.labels, self.n_classes, self.prior_scale
        return SoftmaxRegression(self.features, *fixed, self.sample_weight, mean, every)

    @property
    def to_classes(self) -> Tensor:
        """The matrix (K, K-1) from contrasts to weights of classes that sum to 0."""
        return contrasts(self.n_classes).to(self.features.device)

    def deviation(self, weights: Tensor) -> Tensor:
        """Contrasts (K-1, r, B) minus the mean of their prior."""
        mean = self.prior_mean
        return weights if mean is None else weights - mean.to(weights)[:, :, None]

    def log_density(self, weights: Tensor) -> Tensor:
        """Log density (B,), in float64, of contrasts (K-1, r, B)."""
        return self._evaluate(weights, want_value=True, want_gradient=False)[0]

    def gradient(self, weights: Tensor) -> Tensor:
        """Gradient (K-1, r, B) of the log density at contrasts (K-1, r, B)."""
        return self._evaluate(weights, want_value=False, want_gradient=True)[1]

    def value_and_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """`log_density` and `gradient` in one pass."""
        return self._evaluate(weights, want_value=True, want_gradient=True)

    def _evaluate(
        self, weights: Tensor, *, want_value: bool, want_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        relative = mix(self._to_logits, weights)
        columns = relative.transpose(0, 1).flatten(1).to(self.features)  # (r, (K-1) B)
        log_normalizer = torch.zeros(weights.shape[2], dtype=torch.float64, device=weights.device)
        sums = torch.zeros_like(columns)
        rows = max(64, _CHUNK_ELEMENTS // columns.shape[1])
        for start in range(0, len(self.features), rows):
            features = self.features[start : start + rows]
            logits = (features @ columns).unflatten(1, (len(relative), -1))
            probabilities, log_sum = _softmax_against_last(logits, want_value)
            if self.sample_weight is not None:
                weight = self.sample_weight[start : start + rows]
                probabilities.mul_(weight[:, None, None])
                log_sum = log_sum * weight[:, None]
            if want_value:
                log_normalizer += log_sum.sum(dim=0, dtype=torch.float64)
            if want_gradient:
                sums.addmm_(features.T, probabilities.flatten(1))
        expected = sums.unflatten(1, (len(relative), -1)).transpose(0, 1).to(weights)
        value = gradient = expected
        if want_value:
            # Linear in the weights, hence exact in float64 at no cost.
            linear = (self._label_sums * relative).sum(dim=(0, 1))
            penalty = self.deviation(weights).double().square().sum(dim=(0, 1)) / (
                2 * self.prior_scale**2
            )
            value = linear - log_normalizer - penalty
        if want_gradient:
            residual = self._label_sums.to(weights) - expected
            gradient = mix(self._to_logits.T, residual)
            gradient -= self.deviation(weights) / self.prior_scale**2
        return value, gradient

    def probabilities(self, weights: Tensor, features: Tensor | None = None) -> Tensor:
        """Class probabilities (N, K) of features (N, r) under one draw of contrasts (K-1, r)."""
        features = self.features if features is None else features
        logits = features @ weights.to(features).permute(1, 0)
        return (logits @ self._columns.T.to(logits)).softmax(dim=1)

    def hessian(self, weights: Tensor) -> Tensor:
        """Negative Hessian (d, d) of the log density, d = (K-1) r, mean over draws (K-1, r, B).

        It is symmetric in the contrasts and in the features, so the sums over rows are those of
        products of two contrasts j <= k and two features a <= b: one matrix product.
        """
        n_columns, r = self.shape
        n_sums = n_columns * (n_columns + 1) // 2, r * (r + 1) // 2
        sums = torch.zeros(n_sums, dtype=torch.float64, device=weights.device)

        def add(into: Tensor, covariance: Tensor, products: Tensor) -> None:
            into += covariance.T @ products  # of rows in single precision, if there are many

        on_threads = is_worth_threads(self.features.numel() * n_columns**2 * r)
        workers: Any = independent_workers() if on_threads else nullcontext(map)
        with workers as run:
            for features, covariance in self._curvatures(weights):
                products = [features[:, a, None] * features[:, a:] for a in range(r)]
                of_pairs = torch.cat([covariance[:, j, j:] for j in range(n_columns)], dim=1)
                parts = sums.tensor_split(_N_PARTS), of_pairs.tensor_split(_N_PARTS, dim=1)
                list(run(partial(add, products=torch.cat(products, dim=1)), *parts))
        whole = sums.index_select(1, _places(r).to(sums.device))
        whole = whole.index_select(0, _places(n_columns).to(sums.device))
        shape = n_columns, n_columns, r, r
        hessian = whole.view(shape).transpose(1, 2).reshape(n_columns * r, n_columns * r)
        hessian.diagonal().add_(1 / self.prior_scale**2)
        return hessian

    def hessian_blocks(self, weights: Tensor) -> Tensor:
        """The diagonal blocks (K-1, r, r) of `hessian`, one per contrast."""
        n_columns, r = self.shape
        blocks = torch.zeros(n_columns, r, r, dtype=torch.float64, device=weights.device)
        columns = self._columns
        for start in range(0, len(self.features), _CHUNK_ROWS):
            features = self.features[start : start + _CHUNK_ROWS]
            variance = features.new_zeros(len(features), n_columns)
            for draw in weights.to(features).unbind(dim=2):
                p = (features @ draw.T @ columns.T).softmax(dim=1)
                variance += p @ columns.square() - (p @ columns).square()
            variance /= weights.shape[2]
            if self.sample_weight is not None:
                variance *= self.sample_weight[start : start + _CHUNK_ROWS, None]
            for k in range(n_columns):
                blocks[k] += features.T @ (variance[:, k, None] * features)
        blocks.diagonal(dim1=1, dim2=2).add_(1 / self.prior_scale**2)
        return blocks

    def _curvatures(self, weights: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Chunks of features (n, r) with the Hessian (n, K-1, K-1) of their loss in contrasts.

        That is the covariance of the one-hot label under the predicted probabilities, mean over B.
        """
        columns = self._columns
        n_draws = weights.shape[2]
        rows = min(max(64, _CHUNK_ELEMENTS // (len(columns) ** 2)), _CHUNK_ROWS)
        for start in range(0, len(self.features), rows):
            features = self.features[start : start + rows]
            covariance = features.new_zeros(len(features), *2 * [self.n_classes])
            for draw in weights.to(features).unbind(dim=2):
                p = (features @ draw.T @ columns.T).softmax(dim=1)
                covariance.addcmul_(p[:, :, None], p[:, None], value=-1)
                covariance.diagonal(dim1=1, dim2=2).add_(p)
            covariance /= n_draws
            if self.sample_weight is not None:
                covariance *= self.sample_weight[start : start + rows, None, None]
            yield features, columns.T @ covariance @ columns


def _places(n: int) -> Tensor:
    """Where each of n x n pairs (n^2,), in either order, stands among those in ascending order."""
    first, second = torch.triu_indices(n, n)
    places = first.new_empty(n, n)
    places[first, second] = places[second, first] = torch.arange(len(first))
    return places.flatten()


def _softmax_against_last(logits: Tensor, want_log_sum: bool) -> tuple[Tensor, Tensor]:
    """Probabilities (n, K-1, B) of all classes but the last, and log-sum-exp (n, B).

    Overwrites the logits (n, K-1, B); the last class has logit 0.
    """
    largest = logits.amax(dim=1).clamp_(min=0)
    exponentials = logits.sub_(largest[:, None]).exp_()
    total = exponentials.sum(dim=1).add_((-largest).exp_())
    log_sum = total.log().add_(largest) if want_log_sum else total
    return exponentials.div_(total[:, None]), log_sum
