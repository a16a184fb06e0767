"""The posterior of more rows than fit into memory, by sums over chunks of them.

HMC needs hundreds of gradients, so it runs on a coreset: a sample in which each row counts as many.
Sums over all rows give the mode of their posterior and the curvature there. The draws are moved and
stretched, so that both become those of all rows; what is left to the coreset is the shape of the
posterior beyond a Gaussian. The log density of all rows at some draws measures the difference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.whitening import newton
from bacoun.protocols import FeatureRows

MOST_WEIGHTS = 10_000  # dimensions of the posterior, at most: their Hessian takes 800 MB
_CORESET = 100_000  # rows
_N_COMPARED = 32  # draws
_NO_PRIOR = math.inf  # its standard deviation: that of a likelihood alone


def choose_coreset(
    features: Tensor, labels: Tensor, n_rows: int, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """At most 100,000 of the sampled rows, and the weights with which they stand for `n_rows`."""
    rows = torch.randperm(len(features), generator=generator)[:_CORESET].to(features.device)
    weights = features.new_full((len(rows),), n_rows / len(rows))
    return features[rows], labels[rows], weights


def triangular_factor(rows: FeatureRows, with_intercept: bool) -> Tensor:
    """The factor R of a QR decomposition of all rows' features, which has their singular values."""
    return rows.reduce(partial(_factor, with_intercept=with_intercept), _stacked_factor)


def _factor(features: Tensor, labels: Tensor, with_intercept: bool) -> Tensor:
    return _stacked_factor([_design(features, with_intercept)])


def _stacked_factor(factors: list[Tensor]) -> Tensor:
    design = torch.cat(factors)
    return design if len(design) <= design.shape[1] else torch.linalg.qr(design, mode="r").R


def _design(features: Tensor, with_intercept: bool) -> Tensor:
    ones = torch.ones_like(features[:, :1]) if with_intercept else features[:, :0]
    return torch.cat([features, ones], dim=1).double()


@dataclass(frozen=True)
class _Likelihood:
    """The log likelihood of a chunk, with or without its derivatives; sums of them are merged."""

    basis: Tensor
    n_classes: int
    with_intercept: bool
    weights: Tensor
    want_derivatives: bool

    def __call__(self, features: Tensor, labels: Tensor) -> list[Tensor]:
        coordinates = _design(features, self.with_intercept) @ self.basis
        chunk = SoftmaxRegression(coordinates, labels, self.n_classes, _NO_PRIOR)
        if not self.want_derivatives:
            return [chunk.log_density(self.weights)]
        return [*chunk.value_and_gradient(self.weights), chunk.hessian(self.weights)]


def _added(results: list[list[Tensor]]) -> list[Tensor]:
    return [torch.stack(parts).sum(dim=0) for parts in zip(*results, strict=True)]


class AllRows:
    """The posterior density of all rows, each evaluation of which is a pass over them.

    `coreset` has the same prior. `basis` (L, r) are the directions of weight space to infer; with
    `with_intercept`, the last of the L features is a column of ones, which the rows do not have.
    """

    def __init__(
        self, rows: FeatureRows, coreset: SoftmaxRegression, basis: Tensor, with_intercept: bool
    ) -> None:
        if math.prod(coreset.shape) > MOST_WEIGHTS:
            raise ValueError(
                f"a fit to more rows than fit into memory can infer at most {MOST_WEIGHTS:,} "
                f"weights, (classes - 1) times features; got {math.prod(coreset.shape):,}. Use "
                "narrower networks, merge classes, or fit to a sample."
            )
        self.rows, self.coreset = rows, coreset
        self._likelihood = partial(_Likelihood, basis, coreset.n_classes, with_intercept)
        self._last: list[Tensor] = []  # contrasts, and the value and derivatives there

    def log_density(self, weights: Tensor) -> Tensor:
        """Log density (B,) of contrasts (K-1, r, B)."""
        return self._summed(weights, want_derivatives=False)[0]

    def value_and_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Log density (1,) and its gradient (K-1, r, 1) at contrasts (K-1, r, 1)."""
        _, value, gradient, _ = self._derivatives(weights)
        return value, gradient

    def hessian(self, weights: Tensor) -> Tensor:
        """Negative Hessian (d, d) of the log density at contrasts (K-1, r, 1)."""
        return self._derivatives(weights)[3]

    def _derivatives(self, weights: Tensor) -> list[Tensor]:
        """Contrasts, value, gradient and Hessian there, by one pass, and kept until the next."""
        if not (self._last and torch.equal(self._last[0], weights)):
            precision = self.coreset.prior_scale**-2
            value, gradient, hessian = self._summed(weights, want_derivatives=True)
            hessian.diagonal().add_(precision)
            deviation = self.coreset.deviation(weights)
            self._last = [weights, value, gradient - precision * deviation, hessian]
        return self._last

    def _summed(self, weights: Tensor, *, want_derivatives: bool) -> Sequence[Tensor]:
        """Log density, and the derivatives of the likelihood alone."""
        likelihood = self._likelihood(weights.double(), want_derivatives)
        value, *derivatives = self.rows.reduce(likelihood, _added)
        deviation = self.coreset.deviation(weights).double()
        penalty = deviation.square().sum(dim=(0, 1)) / (2 * self.coreset.prior_scale**2)
        return [value - penalty, *derivatives]

    def move(self, chains: Tensor, mode: Tensor) -> tuple[Tensor, float]:
        """Chains (C, T, K-1, r) of the coreset, with the mode and curvature of all rows.

        The mode (K-1, r) is that of the coreset. Also returns the standard deviation, in nats, of
        the difference between the log density of all rows at the moved draws and that of the
        coreset at the old ones: 0 would make them exact draws.
        """
        of_all = newton(self, mode.double())
        if of_all is None:
            raise ValueError(
                "the mode of the posterior must be found in 50 Newton steps over all rows; it was "
                "not. Features may be nearly collinear: use a smaller prior_scale."
            )
        lower = torch.linalg.cholesky(self.hessian(of_all[:, :, None]))
        lower_of_coreset = torch.linalg.cholesky(self.coreset.hessian(mode[:, :, None]))
        stretch = torch.linalg.solve_triangular(lower.mT, lower_of_coreset.mT, upper=True)
        offsets = (chains.double() - mode).flatten(2) @ stretch.T
        moved = of_all + offsets.view_as(chains)
        draws = torch.linspace(0, math.prod(chains.shape[:2]) - 1, _N_COMPARED).round().long()
        before, after = (
            each.double().flatten(0, 1)[draws].permute(1, 2, 0) for each in (chains, moved)
        )
        gaps = self.log_density(after) - self.coreset.log_density(before)
        return moved.to(chains), float(gaps.std())
