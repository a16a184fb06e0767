"""Laws that every head keeps."""

import math
import warnings

import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from bacoun.posterior import HMC, KINDS, NUTS, Laplace, MeanField
from bacoun.protocols import FitContext
from bacoun.uncertainty import decompose

HEADS = {
    "hmc": HMC(),
    "nuts": NUTS(n_chains=2, n_warmup=200, n_iterations=800),
    "mean-field": MeanField(n_iterations=3000),
    "laplace": Laplace(),
}


def seed(value):
    return torch.Generator().manual_seed(value)


def test_every_kind_is_tested_here():
    assert HEADS.keys() == KINDS.keys()


@pytest.fixture(params=HEADS, scope="module")
def fitted(request):
    generator = seed(3)
    features = torch.randn(80, 4, generator=generator)
    labels = (features[:, :3] + torch.randn(80, 3, generator=generator)).argmax(dim=1)
    return clone(HEADS[request.param]).fit(
        features, labels, FitContext(generator=seed(0))
    ), features


def test_probabilities_have_the_promised_shape_and_sum_to_one(fitted):
    head, features = fitted
    for joint in (False, True):
        probabilities = head.predict_proba_samples(features[:7], joint=joint)
        assert probabilities.shape == (500, 7, 3)
        torch.testing.assert_close(probabilities.sum(dim=2), torch.ones(500, 7))


def test_joint_draws_have_the_same_predictive_for_each_point(fitted):
    head, features = fitted
    far = 4 * features[:6]
    alone = head.predict_proba_samples(far)
    joint = head.predict_proba_samples(far, joint=True)
    torch.testing.assert_close(alone.mean(0), joint.mean(0), atol=0.07, rtol=0)
    torch.testing.assert_close(
        decompose(alone).epistemic, decompose(joint).epistemic, atol=0.08, rtol=0
    )


def test_a_joint_draw_is_one_linear_classifier(fitted):
    """Log-odds along a line are linear in the position, draw by draw."""
    head, features = fitted
    start, direction = features[0], 3 * torch.randn(4, generator=seed(1))
    line = torch.stack([start, start + direction, start + 2 * direction]).double()
    log_p = head.predict_proba_samples(line, joint=True).log()
    odds = log_p[:, :, 0] - log_p[:, :, 1]
    first, second = odds[:, 1] - odds[:, 0], odds[:, 2] - odds[:, 1]
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


def test_state_survives_a_round_trip(fitted):
    head, features = fitted
    twin = clone(head).set_state(head.get_state())
    for joint in (False, True):
        expected = head.predict_proba_samples(features, joint=joint)
        assert torch.equal(twin.predict_proba_samples(features, joint=joint), expected)
    assert twin.health_ == head.health_


def test_health_names_the_inference(fitted):
    head, features = fitted
    assert type(head).__name__ in str(head.health_)
    assert head.diagnose(features[:5]).inference == type(head).__name__


def test_health_after_a_second_fit_is_that_of_the_second_fit(small_head):
    features, labels, _ = small_head
    head = Laplace(prior_scale=1.0, fit_intercept=False).fit(features, labels)
    head.set_params(prior_scale=0.5).fit(features[:, :2], labels)
    assert (head.health_.dimensions, head.health_.prior_scale) == (2 * 2, 0.5)


@pytest.mark.parametrize("kind", [HMC, Laplace])
def test_chains_are_handed_to_arviz_and_not_kept_in_files(kind, small_head):
    features, labels, _ = small_head
    head = kind().fit(features, labels, FitContext(generator=seed(0)))
    weights = head.to_arviz().posterior["weights"]
    assert weights.shape == tuple(head.chains_.shape)
    loaded = clone(head).set_state(head.get_state())
    for question in (loaded.to_arviz, lambda: loaded.diagnose(features)):
        with pytest.raises(NotFittedError, match="not kept in files"):
            question()


@pytest.mark.parametrize("name", HEADS)
def test_predicting_before_fitting_is_refused(name):
    with pytest.raises(NotFittedError, match="call fit first"):
        clone(HEADS[name]).predict_proba_samples(torch.zeros(2, 3))


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (torch.full((4, 2), math.nan), torch.tensor([0, 1, 0, 1]), "finite"),
        (torch.ones(4, 2), torch.zeros(4).long(), "2 classes"),
        (torch.ones(4, 2), torch.tensor([0, 1]), r"\(N, L\)"),
    ],
)
def test_what_no_head_can_be_fitted_to_is_refused(name, features, labels, message):
    with pytest.raises(ValueError, match=message):
        clone(HEADS[name]).fit(features, labels)


@pytest.mark.parametrize("name", HEADS)
def test_a_prior_without_width_is_refused(name):
    with pytest.raises(
        ValueError, match=r"prior_scale must be a positive number, 'auto' or 'evidence'; got -1\."
    ):
        clone(HEADS[name]).set_params(prior_scale=-1).fit(torch.ones(4, 2), torch.arange(4) % 2)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_the_usual_prior_lets_logits_grow_to_three_however_small_the_features(name, size):
    features = size * torch.randn(40, 6, generator=seed(0), dtype=torch.float64)
    features[-1] *= 5
    labels = torch.arange(40) % 2
    short = {"n_iterations": 50} if name in ("mean-field", "nuts") else {}
    head = clone(HEADS[name]).set_params(fit_intercept=False, **short)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scale = head.fit(features, labels, FitContext(generator=seed(0))).health_.prior_scale
    norm = float(features.square().sum(dim=1).mean().sqrt())
    assert scale == pytest.approx(max(0.3, 3 / norm), rel=1e-6)
    assert head.prior_scale == "auto"


def test_the_units_of_small_features_do_not_matter(small_head):
    features, labels, asked = small_head
    one, other = (
        Laplace(fit_intercept=False).fit(size * features, labels, FitContext(generator=seed(0)))
        for size in (1.0, 1e-3)
    )
    torch.testing.assert_close(
        other.predict_proba_samples(1e-3 * asked),
        one.predict_proba_samples(asked),
        atol=1e-5,
        rtol=1e-4,
    )


def test_mean_field_needs_a_number_or_the_usual_prior():
    with pytest.raises(ValueError, match="must be a number for MeanField; got 'evidence'"):
        MeanField(prior_scale="evidence").fit(torch.ones(4, 2), torch.arange(4) % 2)


HARD = {
    "separable": (torch.linspace(-9, 9, 40)[:, None], (torch.arange(40) >= 20).long()),
    "duplicated columns": (
        torch.randn(50, 1, generator=seed(0)).repeat(1, 6),
        torch.arange(50) % 3,
    ),
    "all zero": (torch.zeros(30, 4), torch.arange(30) % 2),
    "ten points": (torch.randn(10, 20, generator=seed(1)), torch.arange(10) % 3),
    "two classes": (torch.randn(60, 5, generator=seed(2)), torch.arange(60) % 2),
    "twenty classes": (torch.randn(120, 8, generator=seed(3)), torch.arange(120) % 20),
    "huge features": (1e4 * torch.randn(60, 5, generator=seed(4)), torch.arange(60) % 2),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("name", ["hmc", "laplace", "mean-field"])
def test_hard_problems_give_finite_results_and_no_warning(name, case):
    features, labels = HARD[case]
    head = clone(HEADS[name])
    if name == "mean-field":
        head.set_params(n_iterations=300)
    head.fit(features, labels, FitContext(generator=seed(0)))
    asked = torch.cat([features[:5], 100 * features[:5] + 1])
    uncertainty = decompose(head.predict_proba_samples(asked))
    assert uncertainty.total.isfinite().all()
    assert (uncertainty.epistemic >= 0).all()


def test_laplace_with_a_factor_for_each_contrast_is_close_to_the_full_one(fitted):
    _, features = fitted
    labels = features[:, :3].argmax(dim=1)
    full, blocks = (
        Laplace(n_draws=4000, full=full).fit(features, labels, FitContext(generator=seed(1)))
        for full in (True, False)
    )
    first, second = (head.predict_proba_samples(features[:9]).mean(0) for head in (full, blocks))
    torch.testing.assert_close(first, second, atol=0.1, rtol=0)


def test_mean_field_recovers_the_prior_when_the_data_says_nothing():
    head = MeanField(prior_scale=0.5, n_iterations=2000, fit_intercept=False)
    head.fit(torch.zeros(50, 3), torch.arange(50) % 2, FitContext(generator=seed(0)))
    torch.testing.assert_close(head.mean_, torch.zeros(3, 2), atol=0.02, rtol=0)
    torch.testing.assert_close(head.scale_, torch.full((3, 2), 0.5), atol=0.02, rtol=0)


def test_the_evidence_bound_rises():
    generator = seed(5)
    features = torch.randn(200, 3, generator=generator)
    labels = (features[:, 0] > 0).long()
    head = MeanField(n_iterations=2000, batch_size=50).fit(
        features, labels, FitContext(generator=generator)
    )
    assert sum(head.elbo_[-20:]) / 20 > head.elbo_[0]


# --- the mean of the prior ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known_weights():
    """Features with a null space, labels without sense, and weights that some other fit found."""
    generator = seed(5)
    features = torch.randn(60, 4, generator=generator).double()
    features[:, 3] = features[:, 0]
    labels = torch.randint(3, (60,), generator=generator)
    asked = torch.randn(20, 4, generator=generator).double()  # which leave the span of the data
    return features, labels, asked, torch.randn(4, 3, generator=generator).double()


def with_prior(name, prior_scale, **settings):
    quick = {
        "hmc": {"n_iterations": 30},
        "nuts": {"n_chains": 1, "n_warmup": 100, "n_iterations": 300},
        "mean-field": {"n_iterations": 1000},
    }
    settings = quick.get(name, {}) | {"prior_scale": prior_scale, "n_draws": 100} | settings
    return clone(HEADS[name]).set_params(**settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # one short chain
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_under_a_narrow_prior_the_logits_are_those_of_its_mean(known_weights, name, fit_intercept):
    features, labels, asked, mean = known_weights
    head = with_prior(name, 1e-3, fit_intercept=fit_intercept)
    head.fit(features, labels, FitContext(generator=seed(0), prior_mean=mean))
    for points in (features, asked):
        expected = (points @ mean).softmax(dim=1)
        for joint in (False, True):
            found = head.predict_proba_samples(points, joint=joint).mean(dim=0)
            torch.testing.assert_close(found, expected, atol=5e-3, rtol=0)
    without = with_prior(name, 1e-3).fit(features, labels, FitContext(generator=seed(0)))
    assert (without.predict_proba_samples(asked).mean(dim=0) - 1 / 3).abs().max() < 5e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # one short chain
@pytest.mark.parametrize("name", HEADS)
def test_enough_rows_outweigh_a_wrong_mean(name):
    features, labels = torch.eye(2).double().repeat(500, 1), torch.tensor([0, 1]).repeat(500)
    wrong = torch.tensor([[-1.0, 1.0], [1.0, -1.0]]).double()
    head = with_prior(name, 3.0, fit_intercept=False)
    head.fit(features, labels, FitContext(generator=seed(0), prior_mean=wrong))
    likely = head.predict_proba_samples(torch.eye(2).double()).mean(dim=0)
    assert likely.diagonal().min() > 0.97


def test_all_rows_have_the_prior_mean_of_the_sample(known_weights):
    features, labels, asked, mean = known_weights

    class Chunks:
        n_rows = 60

        def reduce(self, function, merge):
            return merge(
                [function(features[:25], labels[:25]), function(features[25:], labels[25:])]
            )

    for prior_scale in (1e-3, 0.5):
        head = with_prior("laplace", prior_scale, n_draws=2000)
        whole = clone(head).fit(features, labels, FitContext(generator=seed(0), prior_mean=mean))
        context = FitContext(generator=seed(0), prior_mean=mean, all_rows=Chunks())
        found = clone(head).fit(features[:40], labels[:40], context)
        means = [each.predict_proba_samples(asked).mean(dim=0) for each in (found, whole)]
        torch.testing.assert_close(*means, atol=0.03, rtol=0)


def test_the_evidence_of_a_right_mean_is_for_a_narrow_prior_and_of_a_wrong_one_for_a_wide_prior():
    generator = seed(1)
    features = torch.randn(300, 4, generator=generator).double()
    mean = 2 * torch.randn(4, 3, generator=generator).double()
    labels = torch.multinomial((features @ mean).softmax(dim=1), 1, generator=generator)[:, 0]
    right, wrong = (
        Laplace(prior_scale="evidence").fit(
            features, labels, FitContext(generator=seed(0), prior_mean=sign * mean)
        )
        for sign in (1, -1)
    )
    assert 3 * right.prior_scale_ < wrong.prior_scale_
