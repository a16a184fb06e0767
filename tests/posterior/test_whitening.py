import pytest
import torch

from bacoun.posterior.reduction import reduce
from bacoun.posterior.whitening import whiten


def fitted(n_classes=3):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(100, 5, generator=generator, dtype=torch.float64)
    labels = torch.arange(100) % n_classes
    _, posterior, mode = reduce(features, labels, n_classes, 2.0, tol=0.0)
    return posterior, mode[:, :, None]


def around(mode, n_draws=6):
    noise = torch.randn(*mode.shape[:2], n_draws, generator=torch.Generator().manual_seed(2))
    return mode + noise.double()


def test_the_full_factor_turns_the_hessian_into_the_identity():
    posterior, mode = fitted()
    whitening = whiten(posterior, mode, full=True)
    factor = whitening.factor[0]
    whitened_hessian = factor.T @ posterior.hessian(mode) @ factor
    torch.testing.assert_close(whitened_hessian, torch.eye(10, dtype=torch.float64))
    torch.testing.assert_close(torch.linalg.slogdet(factor)[1].item(), whitening.log_det)


def test_a_factor_for_each_contrast_does_so_on_the_diagonal():
    posterior, mode = fitted()
    factor = whiten(posterior, mode, full=False).factor
    hessian = posterior.hessian(mode).reshape(2, 5, 2, 5)
    for k in range(2):
        block = factor[k].T @ hessian[k, :, k] @ factor[k]
        torch.testing.assert_close(block, torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("full", [True, False])
def test_whitened_coordinates_map_to_contrasts_and_back(full):
    posterior, mode = fitted()
    draws = around(mode)
    whitening = whiten(posterior, draws, full=full)
    x = torch.randn(10, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.testing.assert_close(whitening.from_weights(whitening.to_weights(x)), x)
    torch.testing.assert_close(whitening.to_weights(whitening.from_weights(draws)), draws)


@pytest.mark.parametrize("full", [True, False])
def test_several_draws_give_their_mean_and_their_mean_hessian(full):
    posterior, mode = fitted()
    draws = around(mode)
    whitening = whiten(posterior, draws, full=full)
    torch.testing.assert_close(whitening.center, draws.mean(dim=2))
    one_by_one = torch.stack([posterior.hessian(draw[:, :, None]) for draw in draws.unbind(2)])
    hessian = one_by_one.mean(dim=0).reshape(2, 5, 2, 5)
    blocks = [hessian.reshape(10, 10)] if full else [hessian[k, :, k] for k in range(2)]
    for factor, block in zip(whitening.factor, blocks, strict=True):
        eye = torch.eye(len(block), dtype=torch.float64)
        torch.testing.assert_close(factor.T @ block @ factor, eye)


@pytest.mark.parametrize("full", [True, False])
def test_gradients_are_pulled_back_by_the_chain_rule(full):
    posterior, mode = fitted()
    whitening = whiten(posterior, mode, full=full)
    x = torch.randn(10, 1, dtype=torch.float64)
    pulled = whitening.pull_back(posterior.gradient(whitening.to_weights(x)))
    for i in range(10):
        step = torch.zeros_like(x)
        step[i] = 1e-6
        rise = posterior.log_density(whitening.to_weights(x + step))
        fall = posterior.log_density(whitening.to_weights(x - step))
        torch.testing.assert_close(pulled[i], (rise - fall) / 2e-6, atol=1e-5, rtol=1e-5)
