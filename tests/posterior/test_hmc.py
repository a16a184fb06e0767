import functools
import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_blobs
from torch import nn

from bacoun.files.checkpoint import Checkpoint
from bacoun.posterior import HMC, NUTS
from bacoun.posterior.hmc import integrate, sample_chains
from bacoun.posterior.logistic import SoftmaxRegression, contrasts
from bacoun.posterior.nuts import run_nuts
from bacoun.protocols import FitContext
from bacoun.uncertainty import decompose, from_moments


def gaussian(scales):
    precision = 1 / torch.as_tensor(scales, dtype=torch.float64)[:, None] ** 2

    def density(x, want_value):
        return -(precision * x.square()).sum(dim=0) / 2, -precision * x

    return density


def seed(value):
    return torch.Generator().manual_seed(value)


def test_trajectories_run_backwards():
    density = gaussian([1.0, 0.5, 2.0])
    x = torch.randn(3, 7, dtype=torch.float64)
    momentum = torch.randn(3, 7, dtype=torch.float64)
    there, turned, _, gradient = integrate(density, x, momentum, density(x, True)[1], 2.7, 9)
    back, returned, _, _ = integrate(density, there, -turned, gradient, 2.7, 9)
    torch.testing.assert_close(back, x)
    torch.testing.assert_close(-returned, momentum)


def test_the_motion_of_a_whitened_gaussian_is_exact_in_one_step():
    density = gaussian([1.0, 1.0, 1.0])
    x, momentum = torch.randn(2, 3, 5, dtype=torch.float64, generator=seed(0))
    there, turned, _, _ = integrate(density, x, momentum, density(x, True)[1], 1.6, 1)
    torch.testing.assert_close(there, math.cos(1.6) * x + math.sin(1.6) * momentum)
    torch.testing.assert_close(turned, math.cos(1.6) * momentum - math.sin(1.6) * x)


def nearly_gaussian(x, want_value):
    """N(0, I) with a small remainder, as after whitening."""
    value = (-0.5 * x.square() - 0.1 * (1 + x.square()).sqrt()).sum(dim=0)
    return value, -x - 0.1 * x / (1 + x.square()).sqrt()


def test_a_trajectory_keeps_the_volume():
    x, momentum = torch.randn(2, 3, 1, dtype=torch.float64, generator=seed(0))

    def moved(state):
        place, speed = state.chunk(2)
        return torch.cat(
            integrate(nearly_gaussian, place, speed, nearly_gaussian(place, True)[1], 2.0, 3)[:2]
        )

    jacobian = torch.autograd.functional.jacobian(moved, torch.cat([x, momentum]))
    determinant = torch.linalg.det(jacobian.view(6, 6))
    torch.testing.assert_close(determinant, torch.ones((), dtype=torch.float64))
    assert (jacobian.view(6, 6) - torch.eye(6)).abs().max() > 0.5


def test_half_the_step_makes_a_quarter_of_the_error():
    x, momentum = torch.randn(2, 3, 500, dtype=torch.float64, generator=seed(0))
    gradient = nearly_gaussian(x, True)[1]

    def after(n_steps):
        there, turned, value, _ = integrate(nearly_gaussian, x, momentum, gradient, 2.0, n_steps)
        return torch.cat([there, turned]), momentum_energy(turned) - value

    exact, _ = after(2000)
    before = momentum_energy(momentum) - nearly_gaussian(x, True)[0]
    (few, few_energy), (many, many_energy) = after(4), after(8)
    for coarse, fine in (
        (few - exact, many - exact),
        (few_energy - before, many_energy - before),
    ):
        assert float(coarse.norm() / fine.norm()) == pytest.approx(4, rel=0.1)


def momentum_energy(momentum):
    return momentum.square().sum(dim=0) / 2


def test_every_draw_of_a_whitened_gaussian_is_accepted_and_one_of_it():
    """Its motion is exact at any step size, so nothing is left to a correction."""
    start = torch.full((3, 500), 5.0, dtype=torch.float64)
    run = sample_chains(
        gaussian([1.0, 1.0, 1.0]),
        start,
        n_warmup=30,
        n_iterations=40,
        target_accept=0.8,
        generator=seed(0),
    )
    assert run.acceptance == pytest.approx(1.0)
    draws = run.draws.transpose(0, 1).flatten(1)
    eye = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(draws.cov(), eye, atol=0.05, rtol=0)
    torch.testing.assert_close(draws.mean(dim=1), torch.zeros_like(eye[0]), atol=0.03, rtol=0)
    assert stats.kstest(draws[0, ::7].numpy(), "norm").pvalue > 1e-3


def test_energy_is_kept_three_times_better_than_by_leapfrog_at_the_same_cost():
    density = nearly_gaussian
    x, momentum = torch.randn(2, 3, 500, dtype=torch.float64, generator=seed(0))

    def energy(x, momentum):
        return momentum_energy(momentum) - density(x, True)[0]

    there, turned, _, _ = integrate(density, x, momentum, density(x, True)[1], 1.6, 8)
    ours = energy(there, turned) - energy(x, momentum)
    size, p, y = 0.2, momentum, x
    for _ in range(8):
        p = p + size / 2 * density(y, True)[1]
        y = y + size * p
        p = p + size / 2 * density(y, True)[1]
    leapfrog = energy(y, p) - energy(x, momentum)
    assert 3 * ours.abs().mean() < leapfrog.abs().mean()


def test_chains_recover_a_gaussian_they_are_given():
    scales = [1.0, 0.5, 2.0]
    start = torch.zeros(3, 64, dtype=torch.float64)
    run = sample_chains(
        gaussian(scales),
        start,
        n_warmup=60,
        n_iterations=200,
        target_accept=0.8,
        generator=seed(0),
    )
    draws = run.draws.transpose(0, 1).flatten(1)
    assert run.divergences == 0
    assert run.acceptance > 0.6
    torch.testing.assert_close(draws.std(dim=1), torch.tensor(scales).double(), rtol=0.05, atol=0)
    assert (draws.mean(dim=1).abs() / torch.tensor(scales)).max() < 0.06


def test_an_iteration_takes_no_more_steps_than_allowed():
    asked = []

    def counting(x, want_value):
        asked.append(want_value)
        return gaussian([0.01, 1.0])(x, want_value)

    start, options = torch.zeros(2, 3, dtype=torch.float64), {"target_accept": 0.8}
    sizes = {"n_warmup": 5, "n_iterations": 0}
    sample_chains(counting, start, **sizes, **options, generator=seed(0), most_steps=4)
    assert len(asked) <= 1 + 5 * 4
    asked.clear()
    sample_chains(counting, start, **sizes, **options, generator=seed(0))
    assert len(asked) > 1 + 5 * 4


@pytest.mark.parametrize("stop_after", [1, 3, 4, 8])
def test_chains_resume_from_a_checkpoint_to_the_same_bits(tmp_path, stop_after):
    def run(folder, on_epoch=None):
        generator = seed(0)
        made = sample_chains(
            gaussian(torch.tensor([0.5, 1.0, 3.0])),
            torch.zeros(3, 6),
            n_warmup=3,
            n_iterations=5,
            target_accept=0.8,
            generator=generator,
            on_epoch=on_epoch,
            checkpoint=Checkpoint(folder, every_seconds=0),
        )
        return made, torch.rand(1, generator=generator)

    def stop(done, planned):
        if done == stop_after:
            raise KeyboardInterrupt

    whole, after = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", stop)
    resumed, same_after = run(tmp_path / "stopped")
    for name, value in vars(whole).items():
        again = getattr(resumed, name)
        assert torch.equal(again, value) if isinstance(value, torch.Tensor) else again == value
    assert torch.equal(same_after, after)


@pytest.mark.parametrize(("sufficient", "kept"), [(4, 4), (7, 8), (12, 12), (99, 24)])
def test_iterations_are_added_until_they_are_enough_up_to_six_times_as_many(
    tmp_path, sufficient, kept
):
    def run(**settings):
        return sample_chains(
            gaussian([1.0, 2.0]),
            torch.zeros(2, 5, dtype=torch.float64),
            n_warmup=3,
            n_iterations=4,
            target_accept=0.8,
            generator=seed(0),
            enough=lambda draws: len(draws) >= sufficient,
            **settings,
        )

    def stop(done, planned):
        if done == 3 + kept:
            raise KeyboardInterrupt

    whole = run()
    assert len(whole.draws) == kept
    assert 0 < whole.acceptance <= 1
    with pytest.raises(KeyboardInterrupt):
        run(on_epoch=stop, checkpoint=Checkpoint(tmp_path, every_seconds=0))
    resumed = run(checkpoint=Checkpoint(tmp_path, every_seconds=0))
    assert torch.equal(resumed.draws, whole.draws)
    assert resumed.acceptance == pytest.approx(whole.acceptance)


@pytest.mark.parametrize("stop_after", [2, 9, 12, 19])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_resumes_from_a_checkpoint_in_any_part_of_its_iterations(
    tmp_path, stop_after, small_head
):
    """The whitening is updated three times in ten warm-up iterations; then ten are kept."""
    features, labels, _ = small_head

    def fit(on_epoch=None):
        head = HMC(n_draws=20, n_chains=4, n_warmup=10, n_iterations=10)
        return head.fit(
            features,
            labels,
            FitContext(
                generator=seed(0),
                on_epoch=on_epoch,
                checkpoint=Checkpoint(tmp_path, every_seconds=0),
            ),
        )

    def stop(done, planned):
        if done == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(stop)
    resumed = fit()
    whole = HMC(n_draws=20, n_chains=4, n_warmup=10, n_iterations=10)
    whole.fit(features, labels, FitContext(generator=seed(0)))
    assert torch.equal(resumed.chains_, whole.chains_)
    assert resumed.health_.acceptance == whole.health_.acceptance


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_iterations_are_counted_through_all_parts(small_head):
    calls = []
    HMC(n_draws=20, n_chains=4, n_warmup=10, n_iterations=10).fit(
        *small_head[:2], FitContext(generator=seed(0), on_epoch=lambda done, _: calls.append(done))
    )
    assert calls == list(range(1, len(calls) + 1))
    assert len(calls) >= 20


def raw_nuts_probabilities(features, labels, asked, n_classes, prior_scale):
    """A reference that shares nothing with ours: NUTS on all L x K weights, written in NumPy."""
    design = np.c_[features.numpy(), np.ones(len(features))]
    one_hot = np.eye(n_classes)[labels.numpy()]

    def density(flat):
        weights = flat.reshape(design.shape[1], n_classes)
        logits = design @ weights
        exponentials = np.exp(logits - logits.max())
        total = exponentials.sum(axis=1, keepdims=True)
        log_sum = np.log(total).sum() + len(logits) * logits.max()
        value = (one_hot * logits).sum() - log_sum - flat @ flat / (2 * prior_scale**2)
        gradient = design.T @ (one_hot - exponentials / total) - weights / prior_scale**2
        return float(value), gradient.ravel()

    draws, _ = run_nuts(
        density,
        design.shape[1] * n_classes,
        n_chains=2,
        n_warmup=300,
        n_iterations=1500,
        target_accept=0.8,
        seed=5,
    )
    weights = draws.reshape(-1, design.shape[1], n_classes)
    logits = np.c_[asked.numpy(), np.ones(len(asked))] @ weights
    return torch.from_numpy(logits).softmax(dim=2)


def assert_same_predictive(first, second):
    """Same means and epistemic uncertainty within the Monte-Carlo error of thousands of draws."""
    torch.testing.assert_close(first.mean(0), second.mean(0), atol=0.03, rtol=0, check_dtype=False)
    torch.testing.assert_close(
        decompose(first).epistemic, decompose(second).epistemic, atol=0.03, rtol=0
    )


def test_reduced_hmc_equals_nuts_on_all_raw_weights(small_head):
    features, labels, asked = small_head
    wide = torch.cat([features, features[:, :2], torch.zeros_like(features)], dim=1)
    wide_asked = torch.cat([asked, asked[:, 2:], asked], dim=1)  # leaves the span of the data
    reference = raw_nuts_probabilities(wide, labels, wide_asked, 3, 1.0)
    for tol in (0.0, 0.01):
        ours = HMC(n_draws=4000, prior_scale=1.0, tol=tol).fit(
            wide, labels, FitContext(generator=seed(1))
        )
        assert ours.health_.dimensions == 2 * 5
        assert_same_predictive(ours.predict_proba_samples(wide_asked), reference)


def test_reduced_hmc_equals_hmc_on_all_contrasts(small_head):
    """Chains on every direction, null space included, against the reduced ones."""
    features, labels, asked = small_head
    wide = torch.cat([features, features], dim=1)
    wide_asked = torch.cat([asked, -asked], dim=1)
    posterior = SoftmaxRegression(wide, labels, 3, 1.0)

    def density(x, want_value):
        value, gradient = posterior.value_and_gradient(x.reshape(2, 8, -1))
        return value, gradient.flatten(0, 1)

    run = sample_chains(
        density,
        torch.zeros(16, 64, dtype=torch.float64),
        n_warmup=150,
        n_iterations=150,
        target_accept=0.8,
        generator=seed(2),
    )
    weights = run.draws.permute(0, 2, 1).reshape(-1, 2, 8)
    logits = torch.einsum("nr,sjr,kj->snk", wide_asked, weights, contrasts(3))
    ours = HMC(n_draws=4000, prior_scale=1.0, fit_intercept=False).fit(
        wide, labels, FitContext(generator=seed(3))
    )
    assert_same_predictive(ours.predict_proba_samples(wide_asked), logits.softmax(dim=2))


def test_factors_of_classes_draw_from_the_same_posterior(small_head, monkeypatch):
    """As with so many classes that one factor for all of them would cost too much."""
    features, labels, asked = small_head
    whole = HMC(n_draws=4000, prior_scale=1.0).fit(features, labels, FitContext(generator=seed(5)))
    monkeypatch.setattr("bacoun.posterior.whitening._FULL_ANYWAY", 0)
    monkeypatch.setattr("bacoun.posterior.whitening._MOST_FULL", 0)
    ours = HMC(n_draws=4000, prior_scale=1.0).fit(features, labels, FitContext(generator=seed(6)))
    assert ours.chains_.shape[2:] == whole.chains_.shape[2:] == (2, 5)
    assert_same_predictive(ours.predict_proba_samples(asked), whole.predict_proba_samples(asked))


def test_a_planted_weak_direction_aligned_with_the_labels_is_not_lost(small_head):
    """Weak by its eigenvalue (information < tol), yet the labels pull it away from its prior."""
    features, labels, asked = small_head
    repeated, repeated_labels = features.repeat(5, 1), labels.repeat(5)
    sign = (repeated_labels == 0).double() * 2 - 1
    weak = 0.007 * sign[:, None]
    planted = torch.cat([repeated, weak], dim=1)
    along = torch.cat([asked, 5 * torch.ones(len(asked), 1)], dim=1)
    assert len(planted) * 0.007**2 / 2 < 0.01
    ours = HMC(n_draws=4000, prior_scale=1.0).fit(
        planted, repeated_labels, FitContext(generator=seed(4))
    )
    reference = raw_nuts_probabilities(planted, repeated_labels, along, 3, 1.0)
    assert_same_predictive(ours.predict_proba_samples(along), reference)


def test_nuts_on_the_whitened_density_agrees_with_hmc(small_head):
    features, labels, asked = small_head
    hmc = HMC(n_draws=4000).fit(features, labels, FitContext(generator=seed(5)))
    nuts = NUTS(n_draws=2000, n_warmup=150, n_iterations=600).fit(
        features, labels, FitContext(generator=seed(6))
    )
    assert_same_predictive(hmc.predict_proba_samples(asked), nuts.predict_proba_samples(asked))


@pytest.mark.parametrize(
    ("head", "repeats"),
    [
        (HMC(prior_scale=1.0, n_draws=64, n_chains=32, n_warmup=25, n_iterations=16), 36),
        (NUTS(prior_scale=1.0, n_draws=64, n_chains=1, n_warmup=100, n_iterations=128), 20),
    ],
    ids=["hmc", "nuts"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ranks_of_the_truth_among_posterior_draws_are_uniform(head, repeats):
    """Simulation-based calibration: draw weights from the prior, labels from them, fit, rank."""
    generator = seed(7)
    ranks = []
    for repeat in range(repeats):
        features = torch.randn(25, 3, generator=generator, dtype=torch.float64)
        weights = torch.randn(4, 3, generator=generator, dtype=torch.float64)
        logits = torch.cat([features, torch.ones(25, 1).double()], dim=1) @ weights
        labels = torch.distributions.Categorical(logits=logits).probs
        labels = torch.multinomial(labels, 1, generator=generator)[:, 0]
        if labels.unique().numel() < 3:
            continue
        asked = 2 * torch.randn(1, 3, generator=generator, dtype=torch.float64)
        true = torch.cat([asked, torch.ones(1, 1).double()], dim=1)[0] @ weights
        head.fit(features, labels, FitContext(generator=seed(repeat)))
        log_p = head.predict_proba_samples(asked)[:, 0].log()
        for a, b in ((0, 1), (1, 2)):
            ranks.append(int((log_p[:, a] - log_p[:, b] < true[a] - true[b]).sum()))
    counts = np.histogram(ranks, bins=8, range=(0, 65))[0]
    assert stats.chisquare(counts).pvalue > 0.001, counts


def test_one_generator_gives_one_answer(small_head):
    features, labels, asked = small_head
    first, second = (HMC().fit(features, labels, FitContext(generator=seed(9))) for _ in range(2))
    assert torch.equal(first.predict_proba_samples(asked), second.predict_proba_samples(asked))


def test_well_separated_classes_trap_no_chain():
    """Their posterior falls off steeply on one side, which the curvature at the mode misses."""
    generator = seed(0)
    labels = torch.arange(400) % 2
    sign = (2 * labels - 1).double()[:, None]
    noise = 0.3 * torch.randn(400, 5, generator=generator, dtype=torch.float64)
    features = torch.cat([4 * sign, torch.full_like(sign, 3), torch.zeros(400, 3)], dim=1) + noise
    health = HMC().fit(features, labels, FitContext(generator=generator)).health_
    assert health.ess > 400
    assert health.ess_squares > 400


def count_gradients(monkeypatch):
    """A list that grows by one with each gradient of all chains together."""
    evaluate, counted = SoftmaxRegression._evaluate, []

    def counting(self, weights, **wanted):
        if wanted["want_gradient"] and weights.shape[2] > 1:
            counted.append(1)
        return evaluate(self, weights, **wanted)

    monkeypatch.setattr(SoftmaxRegression, "_evaluate", counting)
    return counted


def test_many_well_separated_classes_converge_at_a_moderate_cost(monkeypatch):
    """A ConvergenceWarning is an error here; whitening at the mode alone takes 6000 gradients."""
    points, labels = make_blobs(600, 32, centers=10, center_box=(-3.0, 3.0), random_state=0)
    points, labels = torch.from_numpy(points), torch.from_numpy(labels)
    counted = count_gradients(monkeypatch)
    head = HMC(prior_scale=1.0).fit(points, labels, FitContext(generator=seed(1)))
    assert head.health_.dimensions == 9 * 33
    assert len(counted) < 3500
    assert (head.predict_moments(points)[0].argmax(dim=1) == labels).double().mean() > 0.99


@pytest.fixture(scope="module")
def skewed():
    """Separable classes and a wide prior: a skewed posterior.

    The predictive is computed by summing over a grid of both weights.
    """
    labels = torch.arange(16) % 2
    signs = (2 * labels - 1).double()
    features = 4 * signs + torch.randn(16, generator=seed(4), dtype=torch.float64)
    asked = torch.linspace(-3, 3, 13, dtype=torch.float64)
    axis = torch.linspace(-18, 18, 401, dtype=torch.float64)
    slope, intercept = torch.cartesian_prod(axis, axis).T
    log_density = -(slope.square() + intercept.square()) / (2 * 3.0**2)
    for x, sign in zip(features, signs, strict=True):
        log_density += nn.functional.logsigmoid(math.sqrt(2) * sign * (slope * x + intercept))
    share = log_density.softmax(dim=0)
    p = torch.stack([(math.sqrt(2) * (slope * x + intercept)).sigmoid() for x in asked])
    p = torch.stack([1 - p, p], dim=2)
    mean = (share[:, None] * p).sum(dim=1)
    entropy = (share * torch.special.entr(p).sum(dim=2)).sum(dim=1)
    return features[:, None], labels, asked[:, None], from_moments(mean, entropy), mean


@pytest.mark.parametrize(
    "head",
    [HMC(), NUTS(target_accept=0.95, n_chains=2, n_warmup=150, n_iterations=1200)],
    ids=["hmc", "nuts"],
)
def test_a_skewed_posterior_is_the_one_found_by_integration(skewed, head):
    features, labels, asked, expected, mean = skewed
    head = clone(head).set_params(prior_scale=3.0, n_draws=2000)
    head.fit(features, labels, FitContext(generator=seed(5)))
    skew = stats.skew(head.chains_.flatten(0, 1).flatten(1).double().numpy(), axis=0)
    assert np.abs(skew).max() > 0.5
    found = head.predict_moments(asked)
    torch.testing.assert_close(found[0], mean, atol=0.03, rtol=0)
    torch.testing.assert_close(
        from_moments(*found).epistemic, expected.epistemic, atol=0.03, rtol=0
    )


def test_blocks_of_chains_on_threads_of_their_own_change_nothing_but_rounding():
    runs = [
        sample_chains(
            lambda x, want_value: (-x.square().sum(dim=0).double() / 2, -x),
            torch.zeros(3, 8),
            n_warmup=5,
            n_iterations=10,
            target_accept=0.8,
            generator=torch.Generator().manual_seed(0),
            n_blocks=n_blocks,
        )
        for n_blocks in (1, 4)
    ]
    torch.testing.assert_close(runs[0].draws, runs[1].draws)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_large_head_does_not_depend_on_the_number_of_threads(n_threads, large_answer):
    assert torch.equal(large_answer(n_threads), large_answer(1))


@pytest.fixture(scope="module")
def large_answer():
    """Draws of a head that is large enough for several threads, by number of threads."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3000, 24, generator=generator)
    labels = torch.randint(0, 13, (3000,), generator=generator)

    @functools.cache
    def answer(n_threads):
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            head = HMC(n_warmup=5, n_iterations=5, n_draws=20, prior_scale=1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # so few iterations do not converge
                return head.fit(
                    features, labels, FitContext(generator=torch.Generator().manual_seed(1))
                ).weights_
        finally:
            torch.set_num_threads(before)

    return answer


def test_chains_end_where_their_last_draw_is():
    run = sample_chains(
        gaussian([1.0, 2.0]),
        torch.zeros(2, 5, dtype=torch.float64),
        n_warmup=3,
        n_iterations=4,
        target_accept=0.8,
        generator=seed(0),
    )
    assert torch.equal(run.last, run.draws[-1])


def test_the_predictive_is_that_of_the_prior_if_all_features_are_zero():
    """Logits have variance |phi|^2 times the prior variance, times 2 for their difference."""
    labels = torch.arange(10) % 2
    head = HMC(n_draws=4000, prior_scale=0.5, fit_intercept=False)
    head.fit(torch.zeros(10, 3), labels, FitContext(generator=seed(0)))
    p = head.predict_proba_samples(torch.tensor([[3.0, 4.0, 0.0]]))[:, 0].double()
    logit = p[:, 0].log() - p[:, 1].log()
    assert abs(float(logit.std()) / (0.5 * 5 * math.sqrt(2)) - 1) < 0.06
