"""The shell in a compact space: its edge, and a density on all inputs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import Tensor

from bacoun import BaCOUnClassifier
from bacoun.boundary import CompactShell, FlowShell
from bacoun.engine.randomness import seeded
from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace
from bacoun.protocols import FitContext

QUICK = {"blocks": 2, "hidden": 8, "epochs": 3, "learning_rate": 1e-2, "patience": None}
OWN = {"n_components", "clip", "residual"}  # the other settings are of the shell
RESIDUALS = pytest.mark.parametrize("residual", [1.0, 0.5, 0.0])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plane(
    n_points: int, dimension: int, noise: float = 0.1, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Two classes spread over a tilted plane, with equal noise in all directions off it."""
    draws = generator(seed)
    tilt = torch.linalg.qr(torch.randn(dimension, 2, generator=generator(99)))[0].T
    codes = torch.randn(n_points, 2, generator=draws) * torch.tensor([3.0, 2.0])
    labels = torch.arange(n_points) % 2
    codes[:, 0] += 8 * labels
    return codes @ tilt + noise * torch.randn(n_points, dimension, generator=draws) + 1, labels


def compact(points: Tensor, labels: Tensor, **changed) -> CompactShell:
    settings = {"n_components": 2} | {name: changed.pop(name) for name in OWN & changed.keys()}
    boundary = CompactShell(shell=FlowShell(**QUICK | changed), **settings)
    return boundary.fit(points, labels, FitContext(generator=generator(1)))


def edge_of(boundary: CompactShell, n_points: int, seed: int = 0) -> Tensor:
    """Edge points without the class each belongs to."""
    return boundary.sample(n_points, generator=generator(seed))[0]


@RESIDUALS
@given(
    n_points=st.sampled_from([2, 3, 7, 40]),
    dimension=st.sampled_from([1, 2, 5, 30]),
    n_components=st.sampled_from([1, 3, 64]),
    per_class=st.booleans(),
    n_edge=st.integers(0, 50),
)
@settings(max_examples=15)
def test_an_edge_of_any_size_is_finite_and_within_the_range_of_the_data(
    residual, n_points, dimension, n_components, per_class, n_edge
):
    points = torch.randn(n_points, dimension, generator=generator(n_points))
    labels = torch.arange(n_points) % 2
    boundary = compact(
        points,
        labels,
        n_components=n_components,
        per_class=per_class,
        drop_overlap=False,
        residual=residual,
    )
    assert len(boundary.basis_) == max(1, min(n_components, dimension, n_points - 1))
    edge = edge_of(boundary, n_edge)
    assert edge.shape == (n_edge, dimension)
    assert edge.isfinite().all()
    assert (edge >= points.amin(dim=0)).all()
    assert (edge <= points.amax(dim=0)).all()
    assert boundary.log_prob(points).isfinite().all()


@pytest.mark.parametrize("n_points", [20, 200])
def test_the_basis_is_orthonormal_and_spans_the_plane_of_largest_variance(n_points):
    points, labels = plane(n_points, 50, noise=0.0)
    boundary = compact(points, labels, n_components=2)
    torch.testing.assert_close(boundary.basis_ @ boundary.basis_.T, torch.eye(2))
    codes = (points - points.mean(dim=0)) @ boundary.basis_.T
    torch.testing.assert_close(points.mean(dim=0) + codes @ boundary.basis_, points)
    assert len(compact(points, labels, n_components=64).basis_) == 2  # no more are spanned


def test_without_clipping_and_residual_the_edge_is_the_shell_of_the_compact_space():
    points, labels = plane(400, 20)
    boundary = compact(
        points, labels, blocks=0, per_class=False, clip=False, residual=0.0, factors=(1.0, 1.3)
    )
    edge = edge_of(boundary, 200)
    codes = (edge - boundary.mean_) @ boundary.basis_.T
    torch.testing.assert_close(boundary.mean_ + codes @ boundary.basis_, edge)
    norms = boundary.shell_.flows_[0].to_latent(codes).norm(dim=1)
    inner = boundary.shell_.inner_radii_[0]
    for factor in (1.0, 1.3):
        within = (norms > factor * inner - 1e-3) & (norms < 1.03 * factor * inner + 1e-3)
        assert int(within.sum()) == 100
    assert (edge.std(dim=0) > points.std(dim=0)).float().mean() > 0.9


@RESIDUALS
def test_edge_points_have_the_class_of_the_shell_in_the_compact_space(residual):
    points, labels = plane(200, 10)
    boundary = compact(points, labels, clip=False, residual=residual)
    edge, edge_labels = boundary.sample(100, generator=generator())
    codes = (edge - boundary.mean_) @ boundary.basis_.T
    for label, (flow, inner) in enumerate(
        zip(boundary.shell_.flows_, boundary.shell_.inner_radii_, strict=True)
    ):
        assert int((edge_labels == label).sum()) > 20
        assert (flow.to_latent(codes[edge_labels == label]).norm(dim=1) > 0.99 * inner).all()
    assert compact(points, labels, per_class=False).sample(5, generator=generator())[1] is None


def test_drawn_residuals_are_those_of_training_points():
    points, labels = plane(60, 10)
    boundary = compact(points, labels, clip=False, residual=1.0)
    edge = edge_of(boundary, 500)
    own = points - boundary.mean_
    own = own - own @ boundary.basis_.T @ boundary.basis_
    drawn = edge - boundary.mean_
    drawn = drawn - drawn @ boundary.basis_.T @ boundary.basis_
    nearest = torch.cdist(drawn, own).min(dim=1)
    assert nearest.values.max() < 1e-3
    assert len(nearest.indices.unique()) > 50


def test_the_share_of_edge_points_with_a_residual_is_the_one_asked_for():
    points, labels = plane(60, 10)
    boundary = compact(points, labels, clip=False, residual=0.3)
    drawn = edge_of(boundary, 2000) - boundary.mean_
    left = (drawn - drawn @ boundary.basis_.T @ boundary.basis_).norm(dim=1)
    assert float((left > 1e-3).float().mean()) == pytest.approx(0.3, abs=0.05)


def test_log_prob_is_the_known_gaussian_where_the_flow_is_one():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    points = rng.normal(size=(500, 5)) * [4.0, 2.0, 0.3, 0.3, 0.3] @ rotation.T + 7
    tensor = torch.from_numpy(points)
    boundary = compact(tensor, torch.zeros(500, dtype=torch.long), blocks=0)
    # Probabilistic PCA in closed form: leading variances kept, the others replaced by their mean.
    variances, directions = np.linalg.eigh(np.cov(points.T, bias=True))
    variances[:3] = variances[:3].mean()
    law = stats.multivariate_normal(points.mean(axis=0), (directions * variances) @ directions.T)
    places = np.concatenate([points[:50], rng.normal(size=(50, 5)) * 5 + 7])
    found = boundary.log_prob(torch.from_numpy(places)).numpy()
    np.testing.assert_allclose(found, law.logpdf(places), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("blocks", [0, 2])
def test_the_density_integrates_to_one(blocks):
    points, labels = plane(300, 3, noise=0.5)
    boundary = compact(points, labels, blocks=blocks)
    law = stats.multivariate_normal(points.mean(dim=0).numpy(), 3 * np.cov(points.T.numpy()))
    places = law.rvs(200_000, random_state=0)
    log_prob = boundary.log_prob(torch.from_numpy(places).float()).double().numpy()
    weights = np.exp(log_prob - law.logpdf(places))  # importance sampling from a wider Gaussian
    assert weights.mean() == pytest.approx(1.0, abs=0.03)


def test_points_off_the_plane_are_less_likely_the_further_they_are():
    points, labels = plane(200, 10)
    boundary = compact(points, labels)
    off = torch.randn(10, generator=generator(5))
    off = off - off @ boundary.basis_.T @ boundary.basis_
    off = off / off.norm()
    steps = torch.tensor([0.0, 1.0, 2.0, 5.0, 100.0])
    log_prob = boundary.log_prob(boundary.mean_ + steps[:, None] * off)
    assert (log_prob.diff() < 0).all()
    gaussian = -0.5 * (steps / boundary.residual_scale_) ** 2
    torch.testing.assert_close(log_prob - log_prob[0], gaussian, rtol=1e-3, atol=1e-2)
    assert boundary.log_prob(torch.full((1, 10), 1e35)) == -math.inf
    assert boundary.residual_scale_ == pytest.approx(0.1, rel=0.05)


def test_unfamiliarity_looks_at_the_code_and_at_the_length_of_the_residual():
    points, labels = plane(200, 10)
    boundary = compact(points, labels)
    off = torch.randn(10, generator=generator(5))
    off = off - off @ boundary.basis_.T @ boundary.basis_
    along = torch.stack([points, points + 3 * off / off.norm(), points + 1000 * off / off.norm()])
    scores = [boundary.unfamiliarity(x) for x in along]
    for score in scores:
        assert list(score) == ["density", "gaussian", "residual"]
        assert {each.shape for each in score.values()} == {(200,)}
    torch.testing.assert_close(scores[0]["density"], scores[1]["density"], atol=1e-2, rtol=1e-2)
    assert (scores[1]["residual"] > scores[0]["residual"]).all()
    codes = (points - boundary.mean_) @ boundary.basis_.T
    torch.testing.assert_close(scores[0]["density"], -boundary.shell_.log_prob(codes))


def test_a_point_on_the_plane_has_a_finite_unfamiliarity():
    points, labels = plane(200, 10, noise=0.0)
    boundary = compact(points, labels)
    for x in (points, boundary.mean_[None], torch.full((1, 10), 1e6)):
        assert not any(score.isnan().any() for score in boundary.unfamiliarity(x).values())
        assert boundary.unfamiliarity(x)["residual"].isfinite().all()


def test_few_inputs_have_a_density_and_no_residual():
    points, labels = plane(100, 4)
    boundary = compact(points, labels, n_components="auto")
    assert list(boundary.unfamiliarity(points)) == ["density", "gaussian"]
    assert torch.equal(boundary.unfamiliarity(points)["density"], -boundary.log_prob(points))


def test_held_out_rows_are_those_of_the_shell():
    points, labels = plane(100, 6)
    boundary = compact(points, labels, patience=5)
    assert torch.equal(boundary.held_out_rows_, boundary.shell_.held_out_rows_)
    assert len(boundary.held_out_rows_) == 10
    assert len(compact(points, labels).held_out_rows_) == 0


def test_constant_inputs_stay_constant_and_have_a_density():
    points, labels = plane(100, 6)
    points[:, 4] = 2.5
    boundary = compact(points, labels, n_components=6)
    assert (edge_of(boundary, 50)[:, 4] == 2.5).all()
    assert boundary.log_prob(points).isfinite().all()
    moved = points.clone()
    moved[:, 4] += 0.5
    assert (boundary.log_prob(moved) < boundary.log_prob(points) - 100).all()


@RESIDUALS
def test_state_round_trip_keeps_every_bit(residual):
    points, labels = plane(80, 6)
    boundary = compact(points, labels, residual=residual, batch_norm=True)
    copy = clone(boundary).set_state(boundary.get_state())
    assert torch.equal(copy.log_prob(points), boundary.log_prob(points))
    edges = [edge_of(each, 30) for each in (boundary, copy)]
    assert torch.equal(*edges)


def test_same_seed_gives_same_bits_whatever_the_global_stream_which_stays_untouched():
    points, labels = plane(80, 6)
    edges = []
    for global_seed in (1, 2):
        with seeded(generator(global_seed)):
            before = torch.get_rng_state()
            edges.append(edge_of(compact(points, labels), 50, 3))
            assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*edges)
    assert not torch.equal(edges[0], edge_of(compact(points, labels), 50, 4))


def test_on_epoch_counts_through_all_flows():
    calls = []
    boundary = CompactShell(shell=FlowShell(**QUICK))
    boundary.fit(
        *plane(60, 5), FitContext(on_epoch=lambda done, planned: calls.append((done, planned)))
    )
    assert calls == [(i, 6) for i in range(1, 7)]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"n_components": 0}, r"n_components must be at least 1; got 0"),
        ({"residual": "some"}, r"residual must be a share from 0 to 1; got 'some'"),
        ({"residual": 1.5}, r"residual must be a share from 0 to 1; got 1\.5"),
        ({"mass": 1.0}, r"mass must lie between 0 and 1; got 1\.0"),
    ],
)
def test_bad_settings_are_named(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        compact(*plane(30, 4), **bad)


def test_a_classifier_of_digits_is_saved_and_loaded_to_the_bit(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = BaCOUnClassifier(
        boundary="compact-shell",
        features=LearnedFeatures(hidden=(32, 64), epochs=15, learning_rate=3e-3),
        posterior=Laplace(n_draws=30),
        n_boundary=300,
        random_state=0,
    ).set_params(boundary__shell__epochs=3, boundary__n_components=20, boundary__shell__hidden=16)
    model.fit(X[:600], y[:600])
    test, labels = X[600:1000], y[600:1000]
    assert model.score(test, labels) > 0.85
    noise = np.random.default_rng(0).permuted(test, axis=1)
    assert model.log_density(noise).mean() < model.log_density(test).mean() - 50
    assert model.uncertainty(noise).epistemic.mean() > 3 * model.uncertainty(test).epistemic.mean()
    model.save(tmp_path / "digits")
    copy = BaCOUnClassifier.load(tmp_path / "digits")
    assert np.array_equal(copy.log_density(test), model.log_density(test))
    assert np.array_equal(copy.predict_proba(test), model.predict_proba(test))
