"""The flow is a bijection with a density; both are checked in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Transform, constraints

from bacoun.boundary.flow import Flow
from bacoun.boundary.realnvp import Normalization
from bacoun.engine.randomness import seeded

GALLERY = {
    "coupling": {},
    "batch norm": {"batch_norm": True},
    "no jitter": {"jitter": 0.0},
    "Gaussian": {"blocks": 0},
}
TRAINING = {"epochs": 3, "batch_size": 64, "learning_rate": 1e-2, "l2": 0.0, "patience": None}

gallery = pytest.mark.parametrize("flow_settings", GALLERY.values(), ids=GALLERY.keys())
seeds = st.integers(0, 2**31)
dimensions = st.integers(1, 6)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(n_points: int, dimension: int, seed: int = 0) -> Tensor:
    return torch.randn(n_points, dimension, generator=generator(seed))


def cloud(dimension: int, seed: int) -> Tensor:
    """A skewed cloud away from the origin, with a different scale in each column."""
    z = normal(200, dimension, seed)
    return (z + 0.3 * z.roll(1, dims=1) ** 2) * torch.logspace(-1, 1, dimension) + 5


def fitted(points: Tensor, seed: int = 0, flow_settings: dict | None = None, **training) -> Flow:
    settings = {"blocks": 3, "hidden": 8} | (flow_settings or {})
    return Flow(**settings).fit(points, generator=generator(seed), **TRAINING | training)


def in_float64(flow: Flow) -> Flow:
    flow.module_.double()
    flow.center_, flow.scale_ = flow.center_.double(), flow.scale_.double()
    return flow


@gallery
@given(dimension=dimensions, seed=seeds)
@settings(deadline=None, max_examples=8)
def test_inverse_undoes_forward(flow_settings, dimension, seed):
    points = cloud(dimension, seed)
    flow = in_float64(fitted(points, seed, flow_settings))
    points = points.double()
    torch.testing.assert_close(flow.to_data(flow.to_latent(points)), points, atol=1e-6, rtol=1e-6)
    latent = 2 * normal(50, dimension, seed + 1).double()
    torch.testing.assert_close(flow.to_latent(flow.to_data(latent)), latent, atol=1e-6, rtol=1e-6)


@gallery
@given(dimension=dimensions, seed=seeds)
@settings(deadline=None, max_examples=8)
def test_log_det_matches_autograd(flow_settings, dimension, seed):
    points = cloud(dimension, seed)
    flow = in_float64(fitted(points, seed, flow_settings))
    points = points[:5].double()

    def latent(x: Tensor) -> Tensor:
        return flow.module_.transform()((x - flow.center_) / flow.scale_)

    torch.testing.assert_close(flow.to_latent(points), latent(points).detach())
    standard_normal = torch.distributions.Normal(0.0, 1.0)
    for point, log_prob in zip(points, flow.log_prob(points), strict=True):
        jacobian = torch.autograd.functional.jacobian(latent, point)
        log_det = torch.linalg.slogdet(jacobian).logabsdet
        expected = standard_normal.log_prob(latent(point)).sum() + log_det
        torch.testing.assert_close(log_prob, expected.detach(), atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("training", [True, False])
@given(dimension=dimensions, seed=seeds)
@settings(deadline=None, max_examples=15)
def test_normalization_log_det_matches_its_moments(training, dimension, seed):
    layer = Normalization(dimension).double().train(training)
    x = 3 * normal(20, dimension, seed).double() + 7
    y, log_det = layer.half(x.T, slice(None))
    slopes = (y[:, 0] - y[:, 1]) / (x[0] - x[1])
    torch.testing.assert_close(log_det, slopes.log().sum(), atol=1e-8, rtol=1e-8)


@given(dimension=dimensions, seed=seeds)
@settings(deadline=None, max_examples=15)
def test_the_normalization_of_halves_is_that_of_the_transform(dimension, seed):
    layer = Normalization(dimension).double()
    x = 3 * normal(20, dimension, seed).double() + 7
    layer.half(x.T, slice(None))
    y, log_det = layer.eval().half(x.T, slice(None))
    expected = layer().call_and_ladj(x)
    torch.testing.assert_close((y.T, log_det.expand(20)), expected)


def test_normalization_standardizes_a_batch_and_remembers_its_moments():
    layer = Normalization(2).double()
    x = normal(500, 2).double() * torch.tensor([2.0, 0.1]) + torch.tensor([5.0, -3.0])
    for _ in range(200):
        y = layer.half(x.T, slice(None))[0].T
    torch.testing.assert_close(y.mean(dim=0), torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(y.var(dim=0), torch.ones(2, dtype=torch.float64), atol=1e-2, rtol=0)
    torch.testing.assert_close(layer.mean, x.mean(dim=0))
    torch.testing.assert_close(layer.variance, x.var(dim=0))
    layer.eval()
    torch.testing.assert_close(layer()(x[:1]), y[:1])
    torch.testing.assert_close(layer().inv(layer()(x)), x)


@gallery
def test_density_integrates_to_one_in_the_plane(flow_settings):
    points = cloud(2, 3) / torch.tensor([0.1, 10.0])
    flow = in_float64(fitted(points, 3, flow_settings))
    low, high = points.min(dim=0).values - 4, points.max(dim=0).values + 4
    axes = [
        torch.linspace(float(a), float(b), 400).double() for a, b in zip(low, high, strict=True)
    ]
    cell = math.prod(float(axis[1] - axis[0]) for axis in axes)
    mass = flow.log_prob(torch.cartesian_prod(*axes)).exp().sum() * cell
    assert float(mass) == pytest.approx(1.0, abs=5e-3)


@gallery
@given(dimension=dimensions, seed=seeds)
@settings(deadline=None, max_examples=8)
def test_the_quick_density_is_that_of_the_module(flow_settings, dimension, seed):
    points = cloud(dimension, seed)
    flow = in_float64(fitted(points, seed, flow_settings))
    points = points.double() * 1.5
    standard = (points - flow.center_) / flow.scale_
    expected = flow.module_().log_prob(standard).detach() - flow.scale_.log().sum()
    torch.testing.assert_close(flow.log_prob(points), expected)


class BatchNormalization(Transform):
    """What `Normalization.half` does in training, for autograd."""

    bijective = True
    domain = codomain = constraints.real_vector

    def __init__(self, layer: Normalization) -> None:
        super().__init__()
        self.layer = layer

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = x.mean(dim=0), x.var(dim=0)
        with torch.no_grad():
            self.layer.mean.lerp_(mean, self.layer.momentum)
            self.layer.variance.lerp_(variance, self.layer.momentum)
        variance = variance + self.layer.eps
        return (x - mean) / variance.sqrt(), -0.5 * variance.log().sum().expand(len(x))


@pytest.mark.parametrize("batch_norm", [False, True])
@given(dimension=st.integers(2, 7), seed=seeds)
@settings(deadline=None, max_examples=10)
def test_training_follows_the_gradient_of_the_module(batch_norm, dimension, seed):
    """The derivatives written by hand, beside those autograd finds for zuko's own transforms."""
    flow = in_float64(fitted(cloud(dimension, seed), seed, {"batch_norm": batch_norm}))
    flow.module_.train()
    points = cloud(dimension, seed + 1).double()
    standard = (points - flow.center_) / flow.scale_
    found = []

    def by_autograd(x: Tensor) -> Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Normalization, "forward", lambda layer, c=None: BatchNormalization(layer))
            return flow.module_().log_prob(x)

    for log_prob in (flow._log_prob, by_autograd):
        x, module = standard.clone().requires_grad_(), flow.module_
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
        value = log_prob(x)
        weights = torch.linspace(0, 1, len(x), dtype=x.dtype)  # rows count differently
        gradients = torch.autograd.grad((weights * value).sum(), [x, *module.parameters()])
        found.append([value.detach(), *gradients, *(b.clone() for b in module.buffers())])
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])  # so that both start from the same running moments
    for quick, expected in zip(*found, strict=True):
        torch.testing.assert_close(quick, expected, rtol=1e-8, atol=1e-8)


def test_density_of_the_plain_gaussian_is_known():
    points = cloud(3, 0)
    flow = in_float64(fitted(points, flow_settings={"blocks": 0}))
    law = torch.distributions.Normal(flow.center_, flow.scale_)
    expected = law.log_prob(points.double()).sum(dim=1)
    torch.testing.assert_close(flow.log_prob(points.double()), expected)
    torch.testing.assert_close(flow.center_.float(), points.mean(dim=0))


def test_one_dimension_holds_two_modes():
    points = torch.cat([normal(400, 1, 0) - 4, normal(400, 1, 1) + 4])
    flow = fitted(points, epochs=40)
    densities = flow.log_prob(torch.tensor([[-4.0], [0.0], [4.0]])).exp()
    assert densities[0] > 0.1
    assert densities[2] > 0.1
    assert densities[1] < 0.03
    drawn = flow.to_data(normal(2000, 1, 2))
    assert float((drawn > 0).float().mean()) == pytest.approx(0.5, abs=0.06)


def test_training_raises_the_likelihood_and_whitens_the_data():
    points = cloud(2, 1).repeat(3, 1)
    before = fitted(points, epochs=0).log_prob(points).mean()
    flow = fitted(points, epochs=60, flow_settings={"hidden": 32})
    assert float(flow.log_prob(points).mean()) > float(before) + 0.3
    latent = flow.to_latent(points)
    torch.testing.assert_close(latent.mean(dim=0), torch.zeros(2), atol=0.2, rtol=0)
    torch.testing.assert_close(latent.std(dim=0), torch.ones(2), atol=0.2, rtol=0)
    assert len(flow.history_.train) == 60


@gallery
@pytest.mark.parametrize("n_points", [1, 2, 30])
def test_constant_columns_and_repeated_rows_have_a_density(flow_settings, n_points):
    points = torch.ones(n_points, 3) * torch.tensor([0.0, 7.0, -1e4])
    flow = fitted(points, flow_settings=flow_settings)
    assert flow.log_prob(points).isfinite().all()
    assert flow.to_data(flow.to_latent(points)).isfinite().all()


def test_a_given_scale_replaces_the_spread_and_zero_becomes_one():
    flow = fitted(normal(5, 3), scale=torch.tensor([2.0, 0.0, 3.0]), flow_settings={"blocks": 0})
    assert flow.scale_.tolist() == [2.0, 1.0, 3.0]


@gallery
def test_log_prob_is_minus_infinity_where_the_flow_overflows(flow_settings):
    flow = fitted(cloud(2, 0), flow_settings=flow_settings)
    far = torch.tensor([[1e30, 1e30], [-1e38, 1e38]])
    assert (flow.log_prob(far) == -math.inf).all()


def test_an_import_of_pyro_does_not_change_that():
    flow = fitted(cloud(2, 0), flow_settings={})
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)  # what the import does
    try:
        assert flow.log_prob(torch.tensor([[-1e38, 1e38]])) == -math.inf
        assert torch.distributions.Distribution._validate_args
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


@gallery
def test_state_round_trip_keeps_every_bit_and_the_global_stream(flow_settings):
    points = cloud(3, 0)
    flow = fitted(points, flow_settings=flow_settings)
    settings = {"hidden": 8} | {k: v for k, v in flow_settings.items() if k != "blocks"}
    before = torch.get_rng_state()
    copy = Flow(**settings).set_state(flow.get_state())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(copy.log_prob(points), flow.log_prob(points))
    assert torch.equal(copy.to_data(points), flow.to_data(points))


@gallery
def test_one_seed_gives_one_answer_whatever_the_global_stream_which_stays_untouched(flow_settings):
    points = cloud(2, 0)
    answers = []
    for global_seed in (1, 2):
        with seeded(generator(global_seed)):
            before = torch.get_rng_state()
            answers.append(fitted(points, 5, flow_settings, patience=2).log_prob(points))
            assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*answers)
    if flow_settings.get("blocks") != 0:
        assert not torch.equal(fitted(points, 6, flow_settings).log_prob(points), answers[0])
