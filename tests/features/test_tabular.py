"""TabularFeatures: members that hold out different rows, with the votes of a forest."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from bacoun import BaCOUnClassifier
from bacoun.engine.training import assign_folds
from bacoun.features import TabularFeatures
from bacoun.features.perceptrons import BIN_SCALE, ParallelPerceptrons, PiecewiseLinear
from bacoun.posterior.prior_scale import held_out_prior_scale
from bacoun.protocols import FitContext

SMALL = {"n_members": 3, "hidden": (16, 8), "n_trees": 20, "epochs": 30, "learning_rate": 5e-3}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def steps(n_points=400, seed=0):
    points = torch.randn(n_points, 3, generator=generator(seed))
    labels = (points[:, 0] > 0.3).long() ^ (points[:, 1] > -0.2).long()
    return points, labels


def fitted(points, labels, seed=0, **settings):
    named = {field.name for field in fields(FitContext)}
    given = {name: settings.pop(name) for name in named & settings.keys()}
    features = TabularFeatures(**(SMALL | settings))
    context = FitContext(
        generator=generator(seed), choose_prior_scale=held_out_prior_scale, **given
    )
    return features.fit(points, labels, context)


# --- encoding -------------------------------------------------------------------------------------


def test_bins_hold_equal_shares_and_numbers_go_on_beyond_them():
    numbers = torch.arange(101.0)[:, None]
    encoding = PiecewiseLinear(1, 4)
    encoding.learn_bins(numbers)
    asked = encoding(torch.tensor([[0.0], [37.5], [100.0], [1000.0]]))
    torch.testing.assert_close(
        asked[:, 1:] / BIN_SCALE,
        torch.tensor([[0, 0, 0, 0], [1, 0.5, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1.0]]),
    )
    assert asked[3, 0] > asked[2, 0]


def test_a_column_of_two_values_has_one_bin_and_a_constant_none():
    numbers = torch.stack([torch.arange(100) % 2, torch.ones(100)], dim=1).float()
    encoding = PiecewiseLinear(2, 8)
    encoding.learn_bins(numbers)
    encoded = encoding(numbers)
    assert encoded.isfinite().all()
    assert (encoding.slopes > 0).sum(dim=1).tolist() == [1, 0]


def test_members_do_not_influence_each_other():
    members = ParallelPerceptrons(
        3, [0, 4], 1, 2, hidden=(8, 4), n_bins=2, embedding=3, category_dropout=0, input_dropout=0
    )
    points = torch.tensor([[0.5, 2.0], [1.5, 0.0]])
    outputs = members.outputs(members.features(points, torch.ones(2, 1)))
    outputs[1].sum().backward()
    gradients = {name: weight.grad for name, weight in members.named_parameters()}
    assert gradients["layers.0"][[0, 2]].abs().max() == 0
    assert gradients["embedding"][:, [0, 2]].abs().max() == 0
    assert gradients["layers.0"][1].abs().max() > 0


# --- learning -------------------------------------------------------------------------------------


def test_steps_are_learned_which_a_plain_network_of_this_size_misses():
    (points, labels), (asked, truth) = steps(), steps(2000, seed=1)
    accuracy = {
        n_trees: (fitted(points, labels, n_trees=n_trees).region_proba(asked).argmax(1) == truth)
        .float()
        .mean()
        for n_trees in (0, 100)
    }
    assert accuracy[100] > 0.95
    assert accuracy[100] > accuracy[0]


def test_what_cannot_be_learned_is_not_claimed_to_be():
    points = torch.randn(300, 5, generator=generator())
    labels = torch.randint(2, (300,), generator=generator(1))
    model = BaCOUnClassifier(
        boundary=None, features=TabularFeatures(**SMALL), posterior="laplace", random_state=0
    )
    model.fit(points.numpy(), labels.numpy())
    asked = torch.randn(1000, 5, generator=generator(2)).numpy()
    truth = torch.randint(2, (1000,), generator=generator(3)).numpy()
    log_loss = -np.log(model.predict_proba(asked)[np.arange(1000), truth]).mean()
    assert log_loss < np.log(2) + 0.06
    assert model.posterior_.prior_scale_ == model.features_.prior_scale_ <= 0.2


def test_rows_are_judged_by_the_member_that_holds_them_out():
    points, labels = steps(200)
    features = fitted(points, labels, n_trees=0, epochs=1)
    data = points, torch.zeros(200, 0), labels, torch.ones(200)
    logits = features.module_.outputs(features.module_.features(points, data[1]))
    for member in range(3):
        folds = torch.full((200,), member)
        expected = torch.nn.functional.cross_entropy(logits[member], labels)
        torch.testing.assert_close(features._held_out_loss(*data, folds), expected)


def test_a_member_learns_nothing_from_rows_that_it_holds_out():
    points, labels = steps(200)
    features = fitted(points, labels, n_trees=0, epochs=1)
    folds = torch.zeros(200, dtype=torch.int64)  # all are held out by the first
    features.module_.zero_grad()
    loss = features._loss(points, torch.zeros(200, 0), labels, torch.ones(200), folds)
    loss.backward()
    gradient = features.module_.layers[0].grad
    assert gradient[0].abs().max() == 0
    assert gradient[1].abs().max() > 0


def test_folds_are_of_equal_size_and_keep_copies_together():
    points = torch.randn(100, 2, generator=generator()).repeat(3, 1)
    folds = assign_folds(points, 5, generator())
    assert folds.bincount().tolist() == [60] * 5
    assert torch.equal(folds[:100], folds[100:200])


def test_boundary_points_are_told_from_data():
    points = 0.3 * torch.randn(300, 2, generator=generator())
    angle = torch.rand(300, generator=generator(1)) * 6.283
    boundary = 3 * torch.stack([angle.cos(), angle.sin()], dim=1)
    features = fitted(
        points,
        (points[:, 0] > 0).long(),
        boundary_points=boundary,
        boundary_weight=1.0,
        boundary_gradient=1.0,
    )
    inside, outside = (features.transform_with_log_odds(each)[1] for each in (points, boundary))
    assert inside.median() < 0 < outside.median()
    regions = features.region_proba(boundary)
    assert regions.shape == (300, 3)
    torch.testing.assert_close(regions.sum(dim=1), torch.ones(300))
    assert (regions.argmax(dim=1) == 2).float().mean() > 0.9


def test_without_boundary_there_are_no_log_odds():
    features = fitted(*steps())
    assert features.transform_with_log_odds(steps()[0])[1] is None


def test_categories_are_learned_and_an_unseen_one_is_harmless():
    codes = torch.randint(4, (400,), generator=generator())
    labels = torch.tensor([0, 1, 1, 0])[codes]
    points = torch.stack([torch.randn(400, generator=generator(1)), codes.float()], dim=1)
    features = fitted(points, labels, n_categories=[0, 4], n_trees=0, epochs=60)
    assert (features.region_proba(points).argmax(dim=1) == labels).float().mean() > 0.99
    assert features.transform(torch.tensor([[0.0, 9.0], [0.0, -1.0]])).isfinite().all()


def test_a_weight_counts_as_copies_in_the_loss():
    points, labels = steps(50)
    features = fitted(points, labels, n_trees=0, epochs=1)
    votes, folds = torch.zeros(50, 0), torch.zeros(50, dtype=torch.int64)
    weights = torch.ones(50)
    weights[:10] = 3
    rows = torch.cat([torch.arange(50), torch.arange(10), torch.arange(10)])
    weighted = features._loss(points, votes, labels, weights, folds) * 50
    copied = features._loss(points[rows], votes[rows], labels[rows], torch.ones(70), folds[rows])
    torch.testing.assert_close(weighted, copied * 70)


# --- transform ------------------------------------------------------------------------------------


def test_seen_rows_get_features_from_trees_that_did_not_see_them():
    points, labels = steps()
    features = fitted(points, labels)
    assert features.transform(points).shape == (400, 24)
    assert not torch.allclose(features.transform(points), features.transform_seen(points))
    alone = fitted(points, labels, n_trees=0)
    assert torch.equal(alone.transform(points), alone.transform_seen(points))


def test_the_inner_product_of_features_is_the_mean_of_the_members():
    points, labels = steps()
    features = fitted(points, labels, n_trees=0)
    members = features.module_.features(points, torch.zeros(400, 0)).detach()
    joined = features.transform(points)
    torch.testing.assert_close(joined @ joined.T, (members @ members.mT).mean(dim=0))


def test_a_state_gives_the_same_features_and_the_same_seed_the_same_state():
    points, labels = steps()
    for settings in ({}, {"n_trees": 0}):
        features = fitted(points, labels, **settings)
        again = TabularFeatures(**(SMALL | settings)).set_state(features.get_state())
        assert torch.equal(again.transform(points), features.transform(points))
        assert torch.equal(again.transform_seen(points), features.transform_seen(points))
        assert again.prior_scale_ == features.prior_scale_
        same = fitted(points, labels, **settings)
        assert torch.equal(same.transform(points), features.transform(points))


def test_images_and_a_single_member_are_refused():
    with pytest.raises(ValueError, match=r"needs a table.*features='learned'"):
        TabularFeatures().fit(torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="n_members must be at least 2; got 1"):
        fitted(*steps(), n_members=1)


@pytest.mark.parametrize("n_rows", [4, 6, 12])
def test_a_few_rows_are_enough(n_rows):
    points = torch.randn(n_rows, 2, generator=generator())
    features = fitted(points, torch.arange(n_rows) % 2, n_members=5)
    assert features.transform(points).isfinite().all()


def test_rows_that_are_all_alike_can_be_fitted():
    features = fitted(torch.ones(30, 2), torch.arange(30) % 2)
    assert features.transform(torch.ones(1, 2)).isfinite().all()
    assert features.prior_scale_ > 0
