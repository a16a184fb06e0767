"""Epistemic = model + OOD, by the chain rule of mutual information."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from bacoun.posterior import HMC, NUTS, Laplace, MeanField
from bacoun.posterior import split as split_module
from bacoun.posterior.logistic import SoftmaxRegression, contrasts
from bacoun.posterior.reduction import reduce
from bacoun.posterior.split import (
    condition,
    hessian_rows,
    inner_noise,
    is_weak,
    nested_moments,
)
from bacoun.storage import read_model, write_model
from bacoun.uncertainty import from_moments

HEADS = {
    "hmc": HMC(n_draws=100),
    "nuts": NUTS(n_draws=100, n_chains=2, n_warmup=200, n_iterations=1200),
    "laplace": Laplace(n_draws=100),
}


def seed(value):
    return torch.Generator().manual_seed(value)


def strong_and_weak(n_points=80, n_classes=3):
    """Two strong and two weak directions, and one the data never sees; labels from the first."""
    generator = seed(5)
    scales = torch.tensor([1.0, 1.0, 0.1, 0.08, 0.0], dtype=torch.float64)
    features = scales * torch.randn(n_points, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(n_points, n_classes, generator=generator, dtype=torch.float64)
    truth = torch.randn(5, n_classes, generator=generator, dtype=torch.float64)
    return features, (2 * features @ truth + noise).argmax(dim=1)


def parts_of(head, features, **settings):
    mean, inner, entropy = head.predict_split(features, **settings)
    return from_moments(mean, entropy, inner)


@pytest.fixture(params=HEADS, scope="module")
def fitted(request):
    features, labels = strong_and_weak()
    head = clone(HEADS[request.param]).set_params(fit_intercept=False)
    return head.fit(features, labels, generator=seed(0))


@pytest.fixture
def asked():
    return 3 * torch.randn(40, 5, generator=seed(9), dtype=torch.float64)


def test_parts_are_not_negative_and_add_up(fitted, asked):
    parts = parts_of(fitted, torch.cat([asked, 0.01 * asked, 100 * asked, 0 * asked]))
    assert int(fitted.split_.weak.sum()) == 2
    for part in parts.parts().values():
        assert part.shape == (160,)
        assert part.dtype == torch.float64
        assert (part >= 0).all()
    torch.testing.assert_close(parts.model + parts.ood, parts.epistemic, atol=1e-15, rtol=0)
    torch.testing.assert_close(parts.aleatoric + parts.epistemic, parts.total, atol=1e-15, rtol=0)


def test_the_split_leaves_epistemic_as_it_was(fitted, asked):
    whole = from_moments(*fitted.predict_moments(asked)).epistemic
    assert (parts_of(fitted, asked).epistemic - whole).mean().abs() < 0.05


def test_asking_again_or_in_another_order_changes_nothing(fitted, asked):
    order = torch.randperm(len(asked), generator=seed(1))
    first, again = fitted.predict_split(asked), fitted.predict_split(asked)
    shuffled = fitted.predict_split(asked[order])
    for one, two, three in zip(first, again, shuffled, strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one[order], three, atol=1e-12, rtol=0)


def test_state_survives_a_round_trip(fitted, asked):
    twin = clone(fitted).set_state(fitted.get_state())
    for one, two in zip(fitted.predict_split(asked), twin.predict_split(asked), strict=True):
        assert torch.equal(one, two)


def test_a_point_along_strong_directions_has_no_ood(fitted):
    strong = fitted.reduction_.basis[:, ~fitted.split_.weak]
    points = 3 * torch.randn(20, strong.shape[1], generator=seed(2), dtype=torch.float64)
    parts = parts_of(fitted, points @ strong.T)
    assert parts.model.max() > 0.01
    assert parts.ood.max() < 1e-6


def test_a_point_far_outside_the_basis_is_all_ood(fitted):
    outside = torch.zeros(1, 5, dtype=torch.float64)
    outside[0, 4] = 1000.0
    parts = parts_of(fitted, outside, n_inner=64)
    assert parts.model < 0.01
    assert parts.ood > 1.0  # log 3 is 1.0986


# --- against brute force --------------------------------------------------------------------------


def brute_force(posterior, mode, weak, asked, n_outer=1500, n_pool=1000):
    """Nested estimate without Gaussian shortcuts: draws of v | w_s are prior draws, weighted.

    w_s itself is resampled from weighted draws of a Student's t around the mode.
    """
    generator = seed(11)
    sigma, (n_columns, r) = posterior.prior_scale, posterior.shape
    size, freedom = n_columns * r, 5
    root = torch.linalg.cholesky(torch.linalg.inv(posterior.hessian(mode)))
    x = torch.randn(size + freedom, 60_000, generator=generator, dtype=torch.float64)
    x = x[:size] / x[size:].square().mean(dim=0).sqrt()  # Student's t
    pool = mode[:, :, None] + (root @ x).reshape(n_columns, r, -1)
    tails = (freedom + size) / 2 * (x.square().sum(dim=0) / freedom).log1p()
    share = (posterior.log_density(pool) + tails).softmax(0)
    assert 1 / share.square().sum() > 10_000  # effective draws
    outer = pool[:, :, share.multinomial(n_outer, True, generator=generator)]
    to_classes = contrasts(posterior.n_classes)
    shape = (n_columns, int(weak.sum()), n_pool)
    means, entropies = [], []
    for s in range(n_outer):
        inner = outer[:, :, s : s + 1].repeat(1, 1, n_pool)
        inner[:, weak] = sigma * torch.randn(shape, generator=generator, dtype=torch.float64)
        prior = inner[:, weak].square().sum(dim=(0, 1)) / (2 * sigma**2)
        share = (posterior.log_density(inner) + prior).softmax(0)  # exact weights, not resampled
        logits = torch.einsum("ni,jib,kj->nkb", asked, inner, to_classes)
        p = logits.softmax(dim=1)
        means.append(p @ share)
        entropies.append(torch.special.entr(p).sum(dim=1) @ share)
    given_draw = torch.stack(means)  # (S, N, K)
    inner_entropy = torch.special.entr(given_draw).sum(dim=2).mean(dim=0)
    return from_moments(given_draw.mean(dim=0), torch.stack(entropies).mean(dim=0), inner_entropy)


@pytest.fixture(params=[2, 3], ids=["two-classes", "three-classes"], scope="module")
def solved(request):
    features, labels = strong_and_weak(n_classes=request.param)
    features = features[:, :4]
    reduction, posterior, mode = reduce(features, labels, request.param, 1.0, 0.0)
    asked = torch.randn(12, 4, generator=seed(6), dtype=torch.float64)
    asked[:6, :2] *= 4
    asked[:6, 2:] *= 0.3
    weak = is_weak(reduction.eigenvalues, 1.0)
    expected = brute_force(posterior, mode, weak, asked @ reduction.basis)
    assert weak.tolist() == [False, False, True, True]
    assert expected.ood.max() > 0.1
    assert expected.model.max() > 0.08
    return features, labels, asked, expected


@pytest.mark.parametrize("head", [HMC(n_draws=2000), Laplace(n_draws=2000)], ids=["hmc", "laplace"])
def test_parts_agree_with_brute_force(solved, head):
    features, labels, asked, expected = solved
    head = clone(head).set_params(fit_intercept=False, tol=0.0)
    parts = parts_of(head.fit(features, labels, generator=seed(0)), asked)
    torch.testing.assert_close(parts.model, expected.model, atol=0.03, rtol=0)
    torch.testing.assert_close(parts.ood, expected.ood, atol=0.03, rtol=0)


# --- the pieces -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_of_the_hessian_are_those_of_the_whole(n_classes):
    features = torch.randn(50, 5, generator=seed(0), dtype=torch.float64)
    posterior = SoftmaxRegression(features, torch.arange(50) % n_classes, n_classes, 0.7)
    mode = torch.randn(n_classes - 1, 5, generator=seed(1), dtype=torch.float64)
    chosen = torch.tensor([True, False, True, True, False])
    whole = posterior.hessian(mode).reshape(n_classes - 1, 5, n_classes - 1, 5)
    torch.testing.assert_close(hessian_rows(posterior, mode, chosen), whole[:, chosen])


def test_the_conditional_is_that_of_a_joint_gaussian():
    """Mean and covariance of v given w, read off the joint covariance instead of the precision."""
    features, labels = strong_and_weak()
    reduction, posterior, mode = reduce(features, labels, 3, 1.0, 0.0)
    weak = is_weak(reduction.eigenvalues, 1.0)
    draws = torch.randn(7, 2, 4, generator=seed(0), dtype=torch.float64)
    found = condition(posterior, mode, weak, draws, seed=0)
    v = weak.repeat(2)
    joint = torch.linalg.inv(posterior.hessian(mode))
    gain = joint[v][:, ~v] @ torch.linalg.inv(joint[~v][:, ~v])
    covariance = joint[v][:, v] - gain @ joint[~v][:, v]
    root = found.factor.flatten(0, 1).double()
    torch.testing.assert_close(root @ root.T, covariance, atol=1e-5, rtol=1e-5)
    means = mode.flatten()[v, None] + gain @ (draws.flatten(1) - mode.flatten())[:, ~v].T
    q = torch.randn(3, 4, generator=seed(1), dtype=torch.float64) * weak  # no share in w
    logits = torch.einsum("ni,jis,kj->nks", q[:, weak], means.reshape(2, 2, 7), contrasts(3))
    expected = logits[:, :-1] - logits[:, -1:]
    found_logits = found.logits(q, torch.zeros(4, 14))
    torch.testing.assert_close(found_logits, expected, atol=1e-5, rtol=1e-5)


def test_the_spread_of_a_point_outside_the_basis_is_its_prior():
    features, labels = strong_and_weak()
    head = Laplace(prior_scale=0.5, n_draws=10, fit_intercept=False).fit(features, labels)
    q, rho = torch.zeros(1, len(head.split_.weak)).double(), torch.full((1, 1), 3.0).double()
    spread = head.split_.spread(q, rho, 0.5)
    torch.testing.assert_close(spread[0], 1.5 * torch.eye(2).double())


@given(st.integers(1, 9), st.sampled_from([1, 4, 16, 64]), st.integers(0, 2**62))
def test_inner_noise_is_standard_normal_and_fixed_by_its_seed(n_columns, n_inner, value):
    noise = inner_noise(n_columns, n_inner, 400, value)
    assert noise.shape == (n_columns, n_inner, 400)
    assert noise.isfinite().all()
    assert noise.mean(dim=(1, 2)).abs().max() < 0.3
    assert (noise.var(dim=(1, 2)) - 1).abs().max() < 0.5
    assert torch.equal(noise, inner_noise(n_columns, n_inner, 400, value))


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**31))
def test_moments_are_those_of_all_nested_draws_at_once(n_columns, n_inner, n_draws, value):
    generator = seed(value)

    def normal(*shape):
        return 3 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    logits, noise = normal(3, n_columns, n_draws), normal(n_columns, n_inner, n_draws)
    spread = normal(3, n_columns, n_columns).tril()
    columns = contrasts(n_columns + 1)
    moved = torch.einsum("kj,nji,ims->nkms", columns, spread, noise)
    padded = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)
    p = (padded[:, :, None] + moved).softmax(dim=1)
    mean, inner, entropy = nested_moments(logits, spread, noise)
    torch.testing.assert_close(mean, p.mean(dim=(2, 3)))
    torch.testing.assert_close(inner, torch.special.entr(p.mean(dim=2)).sum(dim=1).mean(dim=1))
    torch.testing.assert_close(entropy, torch.special.entr(p).sum(dim=1).mean(dim=(1, 2)))


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "n_weak"), [(1e-3, 3), (100.0, 0)])
def test_heads_that_are_all_weak_or_all_strong_answer_too(tmp_path, scale, n_weak):
    features = scale * torch.randn(60, 3, generator=seed(0), dtype=torch.float64)
    labels = torch.arange(60) % 3
    head = Laplace(n_draws=50, tol=0.0, fit_intercept=False).fit(features, labels)
    assert int(head.split_.weak.sum()) == n_weak
    parts = parts_of(head, features / scale)
    nothing = parts.model if n_weak else parts.ood
    assert nothing.max() < 0.02
    assert parts.epistemic.max() > (0.1 if n_weak else 0)
    write_model(head.get_state(), tmp_path / "head", overwrite=False)  # empty tensors as well
    twin = clone(head).set_state(read_model(tmp_path / "head"))
    assert torch.equal(parts_of(twin, features / scale).ood, parts.ood)


def test_a_head_too_large_to_split_says_so_in_one_sentence(monkeypatch):
    monkeypatch.setattr(split_module, "LARGEST", 10)
    features, labels = strong_and_weak()
    head = Laplace(n_draws=10, fit_intercept=False).fit(features, labels)
    assert head.split_ is None
    assert clone(head).set_state(head.get_state()).split_ is None
    with pytest.raises(ValueError, match=r"split=True needs .* has 32 and .* larger tol") as info:
        head.predict_split(features)
    assert "\n" not in str(info.value)
    head.predict_moments(features)


def test_mean_field_has_no_split():
    assert not hasattr(MeanField(), "predict_split")
