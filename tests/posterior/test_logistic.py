import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical, Normal

from bacoun.posterior.logistic import SoftmaxRegression, contrasts


def problem(n_points=40, n_features=3, n_classes=3, seed=0, prior_scale=0.7, has_mean=False):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n_points, n_features, generator=generator, dtype=torch.float64)
    labels = torch.randint(n_classes, (n_points,), generator=generator)
    labels[:n_classes] = torch.arange(n_classes)
    weights = torch.randn(n_classes - 1, n_features, 5, generator=generator, dtype=torch.float64)
    mean = torch.randn(n_classes - 1, n_features, generator=generator).double()
    known = {"prior_mean": mean} if has_mean else {}
    return SoftmaxRegression(features, labels, n_classes, prior_scale, **known), weights


@given(st.integers(2, 12))
def test_contrasts_are_orthonormal_and_sum_to_zero(n_classes):
    columns = contrasts(n_classes)
    eye = torch.eye(n_classes - 1, dtype=torch.float64)
    torch.testing.assert_close(columns.T @ columns, eye)
    torch.testing.assert_close(columns.sum(dim=0), torch.zeros_like(columns[0]))


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 100))
def test_log_density_is_that_of_equation_1(n_classes, n_features, seed):
    posterior, weights = problem(30, n_features, n_classes, seed)
    values = posterior.log_density(weights)
    for b in range(weights.shape[2]):
        logits = posterior.features @ (contrasts(n_classes) @ weights[:, :, b]).T
        likelihood = Categorical(logits=logits).log_prob(posterior.labels).sum()
        prior = -weights[:, :, b].square().sum() / (2 * posterior.prior_scale**2)
        torch.testing.assert_close(values[b], likelihood + prior)


@pytest.mark.parametrize("has_mean", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_gradient_matches_autograd(n_classes, has_mean):
    posterior, weights = problem(n_classes=n_classes, has_mean=has_mean)
    center = posterior.prior_mean[:, :, None] if has_mean else 0.0
    weights.requires_grad_()
    logits = torch.einsum("nr,jrb,kj->bnk", posterior.features, weights, contrasts(n_classes))
    labels = posterior.labels.expand(weights.shape[2], -1)
    value = Categorical(logits=logits).log_prob(labels).sum()
    value = value + Normal(center, posterior.prior_scale).log_prob(weights).sum()
    (expected,) = torch.autograd.grad(value, weights)
    weights = weights.detach()
    torch.testing.assert_close(posterior.gradient(weights), expected)
    prior = math.log(2 * math.pi * posterior.prior_scale**2) / 2 * weights.numel()
    torch.testing.assert_close(posterior.log_density(weights).sum(), value.detach() + prior)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_hessian_matches_differences_of_the_gradient(n_classes):
    posterior, weights = problem(n_classes=n_classes)
    at, h = weights[:, :, 0], 1e-5
    hessian = posterior.hessian(at[:, :, None])
    for i in range(at.numel()):
        step = torch.zeros(at.numel(), dtype=torch.float64)
        step[i] = h
        step = step.reshape(at.shape)
        pair = torch.stack([at + step, at - step], dim=2)
        gradient = posterior.gradient(pair)
        difference = (gradient[:, :, 1] - gradient[:, :, 0]) / (2 * h)
        torch.testing.assert_close(hessian[i], difference.flatten(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_hessian_matches_autograd(n_classes):
    posterior, weights = problem(n_classes=n_classes)
    at = weights[:, :, 0]

    def negative_log_density(contrast_weights):
        logits = posterior.features @ contrast_weights.T @ contrasts(n_classes).T
        likelihood = Categorical(logits=logits).log_prob(posterior.labels).sum()
        return -likelihood - Normal(0, posterior.prior_scale).log_prob(contrast_weights).sum()

    expected = torch.autograd.functional.hessian(negative_log_density, at)
    expected = expected.reshape(at.numel(), at.numel())
    torch.testing.assert_close(posterior.hessian(at[:, :, None]), expected)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_hessian_of_several_draws_is_the_mean_of_theirs(n_classes):
    posterior, weights = problem(n_classes=n_classes)
    each = [posterior.hessian(draw[:, :, None]) for draw in weights.unbind(dim=2)]
    assert (each[0] - each[1]).abs().max() > 0.1
    torch.testing.assert_close(posterior.hessian(weights), torch.stack(each).mean(dim=0))


def test_hessian_blocks_are_those_on_the_diagonal():
    posterior, weights = problem(n_classes=4)
    whole = posterior.hessian(weights).reshape(3, 3, 3, 3)
    for k, block in enumerate(posterior.hessian_blocks(weights)):
        torch.testing.assert_close(block, whole[k, :, k])


def with_mean(weights):
    """Weights of classes (K, r, B) whose contrasts these are, and their means (r, B)."""
    mean = torch.randn(weights.shape[1:], generator=torch.Generator().manual_seed(1)).double()
    columns = contrasts(len(weights) + 1)
    return torch.einsum("kj,jrb->krb", columns, weights) + mean, mean


def test_weights_of_classes_have_the_density_of_their_contrasts_and_a_prior_of_their_mean():
    contrasted, weights = problem(n_classes=4)
    contrasted.prior_mean = 0.1 * weights[:, :, 0]
    posterior = contrasted.of_classes()
    of_classes, mean = with_mean(weights)
    prior = -4 * mean.square().sum(dim=0) / (2 * posterior.prior_scale**2)
    expected = contrasted.log_density(weights) + prior
    torch.testing.assert_close(posterior.log_density(of_classes), expected)
    gradient = posterior.gradient(of_classes)
    back = torch.einsum("kj,krb->jrb", contrasts(4), gradient)
    torch.testing.assert_close(back, contrasted.gradient(weights))
    of_mean = -mean / posterior.prior_scale**2
    torch.testing.assert_close(gradient.mean(dim=0), of_mean)


def test_blocks_of_classes_bound_the_curvature_to_twice_theirs():
    contrasted, weights = problem(n_points=200, n_classes=7)
    posterior, (of_classes, _) = contrasted.of_classes(), with_mean(3 * weights)
    whole = posterior.hessian(of_classes)
    blocks = torch.block_diag(*posterior.hessian_blocks(of_classes))
    inverse = torch.linalg.cholesky(blocks).inverse()
    assert torch.linalg.eigvalsh(inverse @ whole @ inverse.T).max() <= 2


def test_chunks_add_up_to_the_whole(monkeypatch):
    posterior, weights = problem(n_points=500)
    value, gradient = posterior.value_and_gradient(weights)
    hessian = posterior.hessian(weights)
    monkeypatch.setattr("bacoun.posterior.logistic._CHUNK_ELEMENTS", 700)
    chunked_value, chunked_gradient = posterior.value_and_gradient(weights)
    torch.testing.assert_close(chunked_value, value)
    torch.testing.assert_close(chunked_gradient, gradient)
    torch.testing.assert_close(posterior.hessian(weights), hessian)


def test_single_precision_leaves_acceptance_probabilities_alone():
    """The log density decides on acceptance: float32 features must not move it by 0.01."""
    posterior, weights = problem(n_points=20_000, n_features=60, n_classes=4)
    exact = posterior.log_density(weights / 10)
    single = posterior.to(torch.float32).log_density((weights / 10).float())
    assert single.dtype == torch.float64
    assert ((exact - exact[0]) - (single - single[0])).abs().max() < 0.01


def test_a_mean_of_the_prior_moves_the_density_and_no_curvature():
    posterior, weights = problem(has_mean=True)
    plain = SoftmaxRegression(posterior.features, posterior.labels, 3, 0.7)
    torch.testing.assert_close(posterior.hessian(weights), plain.hessian(weights))
    single = posterior.to(torch.float32).gradient(weights.float())
    torch.testing.assert_close(single, posterior.gradient(weights).float(), atol=1e-4, rtol=0)
    assert (posterior.gradient(weights) - plain.gradient(weights)).abs().min() > 1e-3


def test_extreme_logits_stay_finite():
    posterior, weights = problem()
    value, gradient = posterior.to(torch.float32).value_and_gradient(1e4 * weights.float())
    assert value.isfinite().all()
    assert gradient.isfinite().all()


def test_weights_count_as_copies_of_rows():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    labels = torch.arange(30) % 3
    weights = torch.randint(1, 4, (30,), generator=generator)
    rows = torch.arange(30).repeat_interleave(weights)
    weighted = SoftmaxRegression(features, labels, 3, 0.7, weights.double())
    copied = SoftmaxRegression(features[rows], labels[rows], 3, 0.7)
    draws = torch.randn(2, 4, 5, generator=generator, dtype=torch.float64)
    for name in ("log_density", "gradient", "hessian", "hessian_blocks"):
        torch.testing.assert_close(getattr(weighted, name)(draws), getattr(copied, name)(draws))
