"""The last hidden layer of a trained network, whatever its body."""

import copy

import pytest
import torch
from torch import Tensor, nn

from bacoun.engine.randomness import seeded
from bacoun.features.learned import LearnedFeatures
from bacoun.features.networks import Dropout, default_epochs
from bacoun.protocols import FitContext

OF_CONTEXT = {"boundary_points", "boundary_labels"}
QUICK = {"hidden": (8, 5), "epochs": 3, "batch_size": 32}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def corners(n_points: int = 91, dimension: int = 2) -> tuple[Tensor, Tensor]:
    """Three well separated classes."""
    labels = torch.arange(n_points) % 3
    points = torch.randn(n_points, dimension, generator=generator())
    points[:, 0] += 8.0 * labels
    return points, labels


def above(n_points: int = 120) -> tuple[Tensor, Tensor]:
    """Boundary points, all on one side of the three classes, and the class each one is next to."""
    points, labels = corners(n_points)
    return points + torch.tensor([0.0, 8.0]), labels


def fitted(points: Tensor, labels: Tensor, seed: int = 0, **changed) -> LearnedFeatures:
    given = {name: changed.pop(name) for name in OF_CONTEXT & changed.keys()}
    features = LearnedFeatures(**QUICK | changed)
    return features.fit(points, labels, FitContext(generator=generator(seed), **given))


def fitted_with_boundary(labeled: bool = True, **changed) -> LearnedFeatures:
    boundary, labels_of_boundary = above()
    told = {"boundary_points": boundary} | (
        {"boundary_labels": labels_of_boundary} if labeled else {}
    )
    slow = {"hidden": (32, 32), "epochs": 200, "learning_rate": 1e-2, "l2": 0.0, "patience": None}
    return fitted(*corners(), **told | slow | changed)


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


JOINT = pytest.mark.parametrize("joint_softmax", [True, False], ids=["joint", "two questions"])
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
    probabilities = features.region_proba(points)
    assert float((probabilities.argmax(dim=1) == labels).float().mean()) > 0.97
    assert features.history_.train[-1] < 0.2 * features.history_.train[0]


def test_probabilities_are_the_softmax_of_the_linear_layer_on_the_features():
    points, labels = corners()
    features = fitted(points, labels, dropout=0.5)
    phi, probabilities = features.transform(points), features.region_proba(points)
    head = features.module_[1]
    expected = (phi @ head.weight.T + head.bias).softmax(dim=1).detach()
    torch.testing.assert_close(probabilities, expected)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(len(points)))
    assert probabilities.shape == (len(points), 3)
    assert torch.equal(phi, features.transform(points))  # frozen: no dropout any more


# --- the boundary ---------------------------------------------------------------------------------


@JOINT
def test_regions_are_the_classes_and_the_boundary_and_sum_to_one(joint_softmax):
    points, labels = corners()
    boundary, labels_of_boundary = above()
    features = fitted(
        points,
        labels,
        boundary_points=boundary,
        boundary_labels=labels_of_boundary,
        joint_softmax=joint_softmax,
    )
    regions = features.region_proba(boundary)
    assert regions.shape == (len(boundary), 4)
    torch.testing.assert_close(regions.sum(dim=1), torch.ones(len(boundary)))


@JOINT
def test_log_odds_are_those_of_boundary_against_data(joint_softmax):
    features = fitted_with_boundary(joint_softmax=joint_softmax, epochs=3)
    points = torch.cat([corners()[0], above()[0]])
    phi, log_odds = features.transform_with_log_odds(points)
    assert torch.equal(phi, features.transform(points))
    assert log_odds.shape == (len(points),)
    is_boundary = features.region_proba(points)[:, -1]
    torch.testing.assert_close(log_odds.sigmoid(), is_boundary)


def test_two_questions_are_answered_by_one_linear_layer_each():
    features = fitted_with_boundary(epochs=3)
    points, _ = corners()
    head = features.module_[1]
    logits = (features.transform(points) @ head.weight.T + head.bias).detach()
    regions = features.region_proba(points)
    torch.testing.assert_close(features.transform_with_log_odds(points)[1], logits[:, -1])
    known = regions[:, :-1] / regions[:, :-1].sum(dim=1, keepdim=True)
    torch.testing.assert_close(known, logits[:, :-1].softmax(dim=1))


@JOINT
@pytest.mark.parametrize("labeled", [True, False])
def test_boundary_and_data_are_told_apart_with_and_without_labels_of_the_boundary(
    joint_softmax, labeled
):
    features = fitted_with_boundary(labeled, joint_softmax=joint_softmax)
    (points, labels), (boundary, _) = corners(), above()
    inside, outside = (features.transform_with_log_odds(x)[1] for x in (points, boundary))
    assert float((inside < 0).float().mean()) > 0.8
    assert float((outside > 0).float().mean()) > 0.8
    assert (
        float((features.region_proba(points)[:, :3].argmax(dim=1) == labels).float().mean()) > 0.9
    )


def test_labels_of_the_boundary_are_learned_and_only_as_an_answer_to_which_class():
    """The boundary is said to be of the next class: learned, or ignored with one softmax."""
    boundary, labels_of_boundary = above()
    wrong = (labels_of_boundary + 1) % 3
    two, one = (
        fitted_with_boundary(boundary_labels=wrong, joint_softmax=joint) for joint in (False, True)
    )
    learned = two.region_proba(boundary)[:, :3].argmax(dim=1) == wrong
    assert float(learned.float().mean()) > 0.8
    same = fitted_with_boundary(labeled=False, joint_softmax=True)
    assert torch.equal(one.region_proba(boundary), same.region_proba(boundary))


@JOINT
def test_the_likelier_class_can_be_told_however_sure_the_network_is_of_the_boundary(joint_softmax):
    features = fitted_with_boundary(joint_softmax=joint_softmax, epochs=3)
    points, _ = above()
    head = features.module_[1]
    order = (features.transform(points) @ head.weight.T + head.bias)[:, :3].argmax(dim=1)
    with torch.no_grad():
        head.bias[-1] += 40
    assert torch.equal(features.region_proba(points)[:, :3].argmax(dim=1), order)


def test_the_weight_of_the_boundary_is_that_of_as_many_copies():
    """In one step, two copies of each boundary point at half the weight teach what one does."""
    points, labels = corners()
    boundary, labels_of_boundary = above()
    once = {"body": nn.Flatten(), "epochs": 1, "batch_size": 1000, "l2": 0.0, "patience": None}
    heads = []
    for copies, weight in ((1, 1.0), (2, 0.5), (1, 0.0)):
        told = {
            "boundary_points": boundary.repeat(copies, 1),
            "boundary_labels": labels_of_boundary.repeat(copies),
        }
        heads.append(
            fitted(points, labels, **told, boundary_weight=weight, **once).module_[1].weight
        )
    torch.testing.assert_close(heads[0], heads[1])
    assert not torch.allclose(heads[0], heads[2])


@JOINT
def test_training_is_stopped_by_the_classes_of_held_out_points_alone(joint_softmax):
    points, labels = corners()
    boundary, labels_of_boundary = above()
    told = {
        "boundary_points": boundary,
        "boundary_labels": labels_of_boundary,
        "joint_softmax": joint_softmax,
    }
    features = fitted(points, labels, **told, epochs=1, patience=5)
    rows = features.held_out_rows_
    head = features.module_[1]
    logits = features.transform(points[rows]) @ head.weight.T + head.bias
    expected = nn.functional.cross_entropy(logits.detach()[:, :3], labels[rows])
    assert features.history_.held_out == pytest.approx([float(expected)], rel=1e-5)


def test_a_boundary_without_labels_does_not_affect_the_classes():
    """One epoch in one batch: the classes' own weights move as if there was no boundary."""
    points, labels = corners()
    once = {"body": nn.Flatten(), "epochs": 1, "batch_size": 1000, "l2": 0.0, "patience": None}
    heads = [
        fitted(points, labels, boundary_points=boundary, **once).module_[1].weight[:3]
        for boundary in (above()[0], -above()[0])
    ]
    torch.testing.assert_close(*heads)


def test_without_a_boundary_there_are_no_log_odds():
    points, labels = corners()
    features = fitted(points, labels)
    assert features.transform_with_log_odds(points)[1] is None
    assert features.region_proba(points).shape == (len(points), 3)


def test_held_out_rows_are_points_that_the_weights_do_not_depend_on():
    points, labels = corners()
    boundary, labels_of_boundary = above()
    told = {"boundary_points": boundary, "boundary_labels": labels_of_boundary, "patience": 100}
    features = fitted(points, labels, **told)
    rows = features.held_out_rows_
    assert 0 < len(rows) < len(points) / 3
    assert len(rows.unique()) == len(rows)
    assert int(rows.max()) < len(points)
    n_all = len(features.history_.held_out_rows)
    assert n_all == (len(points) + len(boundary)) // 10
    moved = points.clone()
    moved[rows] += 0.01
    assert torch.equal(
        fitted(moved, labels, **told).transform(boundary), features.transform(boundary)
    )
    other = (set(range(len(points))) - set(rows.tolist())).pop()
    moved = points.clone()
    moved[other] += 0.01
    assert not torch.equal(
        fitted(moved, labels, **told).transform(boundary), features.transform(boundary)
    )


def test_nothing_is_held_out_from_a_training_that_runs_to_the_end():
    assert len(fitted(*corners(), patience=None).held_out_rows_) == 0


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
    assert torch.equal(again.transform(points), features.transform(points))
    assert torch.equal(again.region_proba(points), features.region_proba(points))
    assert again.transform_with_log_odds(points)[1] is None


@JOINT
def test_state_round_trip_keeps_what_was_learned_of_the_boundary(joint_softmax):
    points, labels = corners()
    boundary, labels_of_boundary = above()
    settings = QUICK | {"joint_softmax": joint_softmax}
    features = fitted(
        points, labels, boundary_points=boundary, boundary_labels=labels_of_boundary, **settings
    )
    again = LearnedFeatures(**settings).set_state(features.get_state())
    for one, other in zip(
        features.transform_with_log_odds(boundary),
        again.transform_with_log_odds(boundary),
        strict=True,
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
    assert default_epochs(n_points, batch_size=256) == planned


def test_epochs_asked_for_are_run_and_reported():
    calls = []
    LearnedFeatures(**QUICK).fit(
        *corners(), FitContext(on_epoch=lambda done, planned: calls.append((done, planned)))
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(("shape", "rate"), [((3,), 0.0), ((1, 8, 8), 0.5)])
def test_images_are_learned_with_dropout_and_tables_without(shape, rate):
    points = torch.randn(20, *shape, generator=generator())
    learned = LearnedFeatures(epochs=1).fit(
        points, torch.arange(20) % 2, FitContext(generator=generator())
    )
    rates = {layer.rate for layer in learned.module_.modules() if isinstance(layer, Dropout)}
    assert rates == {rate}


def test_without_its_gradient_the_boundary_question_does_not_shape_the_features():
    points, labels = corners()
    boundary, _ = above(len(points))
    settings = {"patience": None, "l2": 0.0, "boundary_weight": 1.0}

    def features(boundary_gradient: float, shift: float) -> Tensor:
        changed = settings | {"boundary_gradient": boundary_gradient}
        return fitted(points, labels, boundary_points=boundary + shift, **changed).transform(points)

    assert torch.equal(features(0.0, shift=0.0), features(0.0, shift=5.0))
    assert not torch.allclose(features(1.0, shift=0.0), features(1.0, shift=5.0), atol=1e-3)


def test_the_boundary_question_is_learned_without_its_gradient_too():
    model = fitted_with_boundary(boundary_gradient=0.0)
    boundary, _ = above()
    log_odds = [model.transform_with_log_odds(points)[1] for points in (corners()[0], boundary)]
    assert (log_odds[0] < 0).float().mean() > 0.8
    assert (log_odds[1] > 0).float().mean() > 0.8


@pytest.mark.parametrize(("n_inputs", "rate"), [(50, 0.0), (51, 0.5)])
def test_many_numbers_are_hidden_half_of_the_time_in_training(n_inputs, rate):
    points, labels = torch.randn(40, n_inputs), torch.arange(40) % 2
    for n_categories in (None, [0] * n_inputs + [2]):
        rows = points if n_categories is None else torch.cat([points, labels[:, None]], dim=1)
        features = LearnedFeatures(epochs=1, hidden=(8,))
        features.fit(rows, labels, FitContext(n_categories=n_categories, generator=generator(0)))
        inputs = features.module_[0][0]
        found = inputs if n_categories is None else inputs.number_dropout
        assert getattr(found, "rate", 0.0) == rate
    plain = LearnedFeatures(epochs=1, hidden=(8,), input_dropout=0.0).fit(points, labels)
    assert not isinstance(plain.module_[0][0], Dropout)
