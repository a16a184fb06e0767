"""Sums over chunks give the posterior of all rows, and a corrected coreset stands in for them."""

from dataclasses import dataclass

import pytest
import torch

from bacoun.posterior import HMC, Laplace
from bacoun.posterior import all_rows as module
from bacoun.posterior.all_rows import AllRows, triangular_factor
from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.reduction import Spectrum, reduce
from bacoun.posterior.whitening import newton
from bacoun.protocols import FitContext

N, N_CLASSES = 3000, 3


@dataclass
class Chunks:
    """Rows in memory, in chunks, with a count of the passes over them."""

    features: torch.Tensor
    labels: torch.Tensor
    n_passes: int = 0

    @property
    def n_rows(self):
        return len(self.labels)

    def reduce(self, function, merge):
        self.n_passes += 1
        chunks = zip(self.features.split(700), self.labels.split(700), strict=True)
        results = [function(*chunk) for chunk in chunks]
        return merge([merge(results[:3]), merge(results[3:])])


@pytest.fixture(scope="module")
def rows():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(N, 5, generator=generator, dtype=torch.float64)
    features = torch.cat([features, features[:, :1] + features[:, 1:2]], dim=1)  # a null space
    weights = torch.randn(6, N_CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.multinomial((features @ weights).softmax(dim=1), 1, generator=generator)[:, 0]
    return Chunks(features, labels)


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def with_ones(features):
    return torch.cat([features, torch.ones(len(features), 1, dtype=features.dtype)], dim=1)


def densities(rows, n_coreset):
    """The density of all rows, by chunks and at once; and the mode of a coreset."""
    design = with_ones(rows.features)
    reduction, whole, mode = reduce(design, rows.labels, N_CLASSES, 0.7, 0.0)
    small = SoftmaxRegression(
        whole.features[:n_coreset],
        rows.labels[:n_coreset],
        N_CLASSES,
        0.7,
        torch.full((n_coreset,), N / n_coreset, dtype=torch.float64),
    )
    return AllRows(rows, small, reduction.basis, with_intercept=True), whole, mode


def test_the_factor_has_the_singular_values_of_all_rows(rows):
    merged = Spectrum(triangular_factor(rows, with_intercept=True))
    whole = Spectrum(with_ones(rows.features))
    torch.testing.assert_close(merged.eigenvalues, whole.eigenvalues)
    alike = (merged.directions.T @ whole.directions).abs()
    torch.testing.assert_close(alike, torch.eye(6, dtype=torch.float64), atol=1e-6, rtol=0)


def test_value_gradient_and_hessian_are_those_of_all_rows_by_one_pass(rows):
    chunked, whole, mode = densities(rows, 500)
    at = mode[:, :, None] + 0.1
    before = rows.n_passes
    torch.testing.assert_close(chunked.value_and_gradient(at), whole.value_and_gradient(at))
    torch.testing.assert_close(chunked.hessian(at), whole.hessian(at))
    assert rows.n_passes == before + 1
    several = torch.cat([at, at + 0.2], dim=2)
    torch.testing.assert_close(chunked.log_density(several), whole.log_density(several))


def test_moved_draws_have_the_mode_and_the_curvature_of_all_rows(rows):
    chunked, whole, mode_of_all = densities(rows, 500)
    mode = newton(chunked.coreset, torch.zeros_like(mode_of_all))
    around = 0.01 * noise(4000, *mode.shape)
    moved, _ = chunked.move(mode + around[None], mode)
    at_mode, _ = chunked.move(mode[None, None], mode)
    torch.testing.assert_close(at_mode[0, 0], mode_of_all, atol=1e-4, rtol=0)
    # A quadratic form of the curvature is the same before and after.
    before, after = around.flatten(1), (moved[0] - mode_of_all).flatten(1)
    expected = (before @ chunked.coreset.hessian(mode[:, :, None]) * before).sum(dim=1)
    found = (after @ whole.hessian(mode_of_all[:, :, None]) * after).sum(dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def moments(head, features):
    draws = head.predict_proba_samples(features)
    return draws.mean(dim=0), draws.std(dim=0)


@pytest.mark.parametrize("head", [HMC(n_draws=300), Laplace(n_draws=2000)])
def test_a_sample_with_all_rows_gives_the_posterior_of_all_rows(rows, head, monkeypatch):
    monkeypatch.setattr(module, "_CORESET", 1000)
    generator = torch.Generator().manual_seed(1)
    sample = rows.features[:1500], rows.labels[:1500]
    settings = head.get_params() | {"prior_scale": 0.7}
    whole = type(head)(**settings).fit(rows.features, rows.labels, FitContext(generator=generator))
    found = type(head)(**settings).fit(*sample, FitContext(all_rows=rows, generator=generator))
    alone = Laplace(prior_scale=0.7).fit(*sample, FitContext(generator=generator))
    points = rows.features[-200:]
    expected, spread = moments(whole, points)
    error = (moments(found, points)[0] - expected).abs().max()
    assert error < 0.3 * spread.max() < (moments(alone, points)[0] - expected).abs().max()
    torch.testing.assert_close(moments(found, points)[1], spread, atol=0.002, rtol=0.2)
    assert found.health_.coreset_rows == 1000
    assert found.health_.coreset_difference < 0.3
    assert whole.health_.coreset_rows is None


def test_nothing_moves_and_nothing_differs_if_the_coreset_is_all_rows(rows):
    chunked, _, mode = densities(rows, N)
    draws = mode + 0.02 * noise(2, 20, *mode.shape)
    moved, difference = chunked.move(draws, mode)
    torch.testing.assert_close(moved, draws, atol=1e-5, rtol=0)
    assert difference == pytest.approx(0, abs=1e-4)


def test_more_weights_than_a_hessian_can_hold_are_refused(rows, monkeypatch):
    monkeypatch.setattr(module, "MOST_WEIGHTS", 10)
    with pytest.raises(ValueError, match="at most 10 weights"):
        densities(rows, 500)
