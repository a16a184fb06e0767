"""The last hidden layer of a trained network, whatever its body."""

import copy

import pytest
import torch
from torch import Tensor, nn

from bacoun.features.learned import LearnedFeatures
from bacoun.randomness import seeded

QUICK = {"hidden": (8, 5), "epochs": 3, "batch_size": 32}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def corners(n_points: int = 91, dimension: int = 2) -> tuple[Tensor, Tensor]:
    """Three well separated classes."""
    labels = torch.arange(n_points) % 3
    points = torch.randn(n_points, dimension, generator=generator())
    points[:, 0] += 8.0 * labels
    return points, labels


def fitted(points: Tensor, labels: Tensor, seed: int = 0, **changed) -> LearnedFeatures:
    return LearnedFeatures(**QUICK | changed).fit(points, labels, generator=generator(seed))


class Residual(nn.Module):
    """A body no preset would give: a skip connection, batch norm and tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.norm(self.second(torch.tanh(self.first(x))))], dim=1)


def bodies() -> dict[str, nn.Module]:
    with seeded(generator()):
        return {
            "linear": nn.Linear(2, 4),
            "identity": nn.Flatten(),
            "residual": Residual(),
            "images": nn.Sequential(
                nn.Unflatten(1, (1, 1, 2)), nn.Conv2d(1, 4, kernel_size=1), nn.Flatten()
            ),
            "dropout": nn.Sequential(nn.Linear(2, 6), nn.Dropout(0.5)),
        }


widths = {"linear": 4, "identity": 2, "residual": 4, "images": 8, "dropout": 6}


@pytest.mark.parametrize("name", widths)
def test_any_module_serves_as_body_and_is_not_altered(name):
    body = bodies()[name]
    before = copy.deepcopy(body.state_dict())
    points, labels = corners()
    features = fitted(points, labels, body=body, learning_rate=0.05)
    phi = features.transform(points)
    assert phi.shape == (len(points), widths[name])
    assert not phi.requires_grad
    assert body.training
    for key, value in body.state_dict().items():
        assert torch.equal(value, before[key])
    if before:
        trained = features.module_[0].state_dict()
        assert any(not torch.equal(trained[key], before[key]) for key in before)


def test_the_network_learns_separable_classes():
    points, labels = corners()
    features = fitted(points, labels, epochs=200, learning_rate=1e-2)
    _, probabilities = features.transform_with_proba(points)
    assert float((probabilities.argmax(dim=1) == labels).float().mean()) > 0.97
    assert features.history_.train[-1] < 0.2 * features.history_.train[0]


def test_probabilities_are_the_softmax_of_the_linear_layer_on_the_features():
    points, labels = corners()
    features = fitted(points, labels, dropout=0.5)
    phi, probabilities = features.transform_with_proba(points)
    head = features.module_[1]
    expected = (phi @ head.weight.T + head.bias).softmax(dim=1).detach()
    torch.testing.assert_close(probabilities, expected)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(len(points)))
    assert probabilities.shape == (len(points), 3)
    assert torch.equal(phi, features.transform(points))  # frozen: no dropout any more


def test_convolutional_body_takes_rows_of_pixels():
    points, labels = corners(12, 256)
    features = fitted(points, labels, body="convolutional", epochs=1)
    assert features.transform(points).shape == (12, 5)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (nn.Unflatten(1, (1, 2)), r"\(2, 1, 2\)"),
        (nn.Flatten(0), r"\(4,\)"),
        (nn.Unflatten(0, (1, -1)), r"\(1, 2, 2\)"),
        (nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (1, 4))), r"\(1, 4\)"),
    ],
)
def test_a_body_of_wrong_output_shape_is_named(body, shape):
    sentence = rf"body must map points to \(N, L\); it gave shape {shape} for \(2, 2\)"
    with pytest.raises(ValueError, match=sentence):
        fitted(*corners(), body=body)


def test_an_unknown_body_is_named():
    sentence = r"one of \['auto', 'convolutional', 'perceptron'\] .* got 'tree'"
    with pytest.raises(ValueError, match=sentence):
        fitted(*corners(), body="tree")


@pytest.mark.parametrize("body", ["perceptron", *widths])
def test_state_round_trip_keeps_every_bit_and_the_global_stream(body):
    body = bodies().get(body, body)
    points, labels = corners()
    features = fitted(points, labels, body=body)
    before = torch.get_rng_state()
    again = LearnedFeatures(**QUICK, body=body).set_state(features.get_state())
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(
        features.transform_with_proba(points), again.transform_with_proba(points), strict=True
    ):
        assert torch.equal(one, other)


def test_one_seed_gives_one_answer_whatever_the_global_stream_which_stays_untouched():
    points, labels = corners()
    answers = []
    for global_seed in (1, 2):
        with seeded(generator(global_seed)):
            before = torch.get_rng_state()
            answers.append(fitted(points, labels, seed=5, dropout=0.3).transform(points))
            assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*answers)
    assert not torch.equal(
        fitted(points, labels, seed=6, dropout=0.3).transform(points), answers[0]
    )


@pytest.mark.parametrize(("n_points", "planned"), [(3, 500), (2_560, 300), (2_560_000, 10)])
def test_epochs_by_default_make_about_3000_steps(n_points, planned):
    features = LearnedFeatures(batch_size=256)
    assert features._n_epochs(n_points) == planned


def test_epochs_asked_for_are_run_and_heard():
    heard = []
    LearnedFeatures(**QUICK).fit(
        *corners(), on_epoch=lambda done, planned: heard.append((done, planned))
    )
    assert heard == [(1, 3), (2, 3), (3, 3)]
