"""LinearFeatures: a ridge logistic regression on directions, each row by one that lacks it."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from bacoun.engine.directions import directions
from bacoun.features import LinearFeatures
from bacoun.protocols import FitContext


def cloud(n_points=150, dimension=30, n_classes=3, seed=0, gap=0.3):
    """Rows around one center for each class, of different lengths."""
    centers = gap * torch.randn(n_classes, dimension, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n_points) % n_classes
    points = centers[labels] + torch.randn(n_points, dimension, generator=generator)
    return points * torch.rand(n_points, 1, generator=generator).add(0.5), labels


def fitted(points, labels, **known):
    context = FitContext(generator=torch.Generator().manual_seed(0), **known)
    return LinearFeatures().fit(points, labels, context)


@pytest.fixture(scope="module")
def rows():
    return cloud()


@pytest.fixture(scope="module")
def features(rows):
    return fitted(*rows)


def by_scikit_learn(features, points, labels, without, weights):
    """Logits of points by scikit-learn's ridge of the same scale, without some of the rows."""
    design = torch.cat([directions(points), torch.ones(len(points), 1)], dim=1).double().numpy()
    model = LogisticRegression(
        C=features.ridge_scale_**2, fit_intercept=False, tol=1e-8, max_iter=10_000
    )
    kept = ~without.numpy()
    model.fit(design[kept], labels.numpy()[kept], sample_weight=weights.numpy()[kept])
    logits = torch.from_numpy(design @ model.coef_.T)
    return (logits - logits.mean(dim=1, keepdim=True)).float()


@pytest.mark.parametrize("is_weighted", [False, True])
def test_every_fold_and_all_rows_have_the_weights_that_scikit_learn_finds(rows, is_weighted):
    points, labels = rows
    weights = torch.where(labels == 0, 3.0, 1.0) if is_weighted else torch.ones(len(labels))
    features = fitted(points, labels, sample_weight=weights if is_weighted else None)
    folds, weights = features._folds(points), weights / weights.mean()
    of_all = by_scikit_learn(features, points, labels, folds < 0, weights)
    torch.testing.assert_close(features.transform(points), of_all, rtol=0, atol=0.1)
    seen = features.transform_seen(points)
    assert folds.unique().tolist() == [0, 1, 2, 3, 4]
    for fold in range(5):
        own = folds == fold
        expected = by_scikit_learn(features, points, labels, own, weights)[own]
        torch.testing.assert_close(seen[own], expected, rtol=0, atol=0.1)
    assert (seen - of_all).abs().mean() > 0.2  # they do not know their own rows


def test_weights_and_logits_sum_to_zero_over_the_classes(rows, features):
    assert features.weights_.shape == (6, 31, 3)
    for numbers in (
        features.weights_,
        features.transform(rows[0]),
        features.transform_seen(rows[0]),
    ):
        torch.testing.assert_close(
            numbers.sum(dim=-1), torch.zeros(numbers.shape[:-1]), atol=1e-4, rtol=0
        )


def test_a_row_that_is_seen_does_not_know_its_own_label(rows, features):
    """All held-out rows choose the ridge; but with the same ridge, its label is in no answer."""
    points, labels = rows
    for row in range(20):
        changed = labels.clone()
        changed[row] = (labels[row] + 1) % 3
        after = fitted(points, changed)
        if after.ridge_scale_ == features.ridge_scale_:
            break
    assert after.ridge_scale_ == features.ridge_scale_
    own = features._folds(points) == features._folds(points)[row]
    for transform, is_told in (("transform_seen", False), ("transform", True)):
        before, now = (getattr(each, transform)(points) for each in (features, after))
        change = (now - before).abs().amax(dim=1)
        assert change[~own].max() > 0.1  # others learn from it
        assert bool(change[row] > 0.1) == bool(change[own].max() > 0.1) == is_told


def test_folds_depend_on_the_row_alone_so_copies_share_one(rows, features):
    points, labels = rows
    folds = features._folds(points)
    assert torch.bincount(folds, minlength=5).min() > 15
    assert torch.equal(features._folds(points.flip(0)).flip(0), folds)
    assert torch.equal(features._folds(points[7:8]), folds[7:8])
    twice = fitted(points.repeat(2, 1), labels.repeat(2))
    seen = twice.transform_seen(points.repeat(2, 1))
    assert torch.equal(seen[: len(points)], seen[len(points) :])


def test_copies_do_not_make_a_row_known(rows):
    """Labels at random, each row five times: whoever had seen a copy would be right."""
    points, _ = rows
    noise = torch.randint(3, (60,), generator=torch.Generator().manual_seed(1))
    copied = fitted(points[:60].repeat(5, 1), noise.repeat(5))
    assert copied.accuracy_ < 0.6


def test_only_the_direction_of_a_row_counts(rows, features):
    points, _ = rows
    for factor in (1e-3, 7.0, 1e5):
        torch.testing.assert_close(
            features.transform(factor * points), features.transform(points), rtol=1e-3, atol=1e-3
        )
    assert (features.transform(-points) - features.transform(points)).abs().mean() > 1


def test_a_row_without_a_direction_has_the_logits_of_the_intercept(features):
    zeros = torch.zeros(2, 30)
    expected = features.weights_[-1, -1].expand(2, -1)
    torch.testing.assert_close(features.transform(zeros), expected)


def test_the_accuracy_is_that_of_rows_that_were_held_out(rows, features):
    points, labels = rows
    held_out = (features.transform_seen(points).argmax(dim=1) == labels).double().mean()
    known = (features.transform(points).argmax(dim=1) == labels).double().mean()
    assert features.accuracy_ == pytest.approx(float(held_out))
    new_points, new_labels = cloud(2000, seed=1)
    new = (features.transform(new_points).argmax(dim=1) == new_labels).double().mean()
    assert abs(features.accuracy_ - new) < 0.1 < known - held_out
    weights = torch.where(labels == 0, 9.0, 1.0)
    weighted = fitted(points, labels, sample_weight=weights)
    is_right = weighted.transform_seen(points).argmax(dim=1) == labels
    expected = float((weights * is_right).sum() / weights.sum())
    assert weighted.accuracy_ == pytest.approx(expected)


def test_noise_gets_a_stronger_ridge_than_what_can_be_told_apart(rows):
    points, labels = rows
    noise = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    scales = [fitted(*each).ridge_scale_ for each in ((points, noise), cloud(gap=3.0))]
    assert scales[0] < 0.1 < scales[1]


def test_weights_count_relative_to_each_other(rows, features):
    points, labels = rows
    same = fitted(points, labels, sample_weight=torch.full((len(labels),), 7.0))
    assert torch.equal(same.weights_, features.weights_)


def test_the_prior_of_the_last_layer_leaves_a_typical_logit_about_one_of_freedom(rows, features):
    assert torch.equal(features.prior_mean_, torch.eye(3))
    logits = features.transform_seen(rows[0])
    length = float(logits.square().sum(dim=1).mean().sqrt())
    assert features.prior_scale_ * length == pytest.approx(1.0, abs=0.01)
    weak = fitted(*cloud(gap=0.0))
    assert weak.prior_scale_ <= 1


def test_the_energy_is_high_where_nothing_speaks_for_a_class():
    features = fitted(*cloud(gap=1.0))
    indifferent, sure = torch.zeros(1, 3), torch.tensor([[20.0, -10.0, -10.0]])
    energy = features.unfamiliarity_from(torch.cat([indifferent, sure]))["energy"]
    torch.testing.assert_close(energy, torch.tensor([-math.log(3), -20.0]).double())
    others = torch.randn(150, 30, generator=torch.Generator().manual_seed(3))
    known, unknown = (
        features.unfamiliarity_from(features.transform(each))["energy"]
        for each in (cloud(gap=1.0, seed=1)[0], others)
    )
    assert (unknown[:, None] > known).double().mean() > 0.8


def test_categories_are_one_hot_and_an_unseen_one_counts_for_nothing(rows):
    points, labels = rows
    codes = torch.stack([labels, torch.arange(150) % 2], dim=1).float()
    mixed = torch.cat([codes[:, :1], points, codes[:, 1:]], dim=1)
    features = fitted(mixed, labels, n_categories=[3, *[0] * 30, 2])
    assert features.accuracy_ > 0.98  # the first column tells
    assert features.weights_.shape == (6, 30 + 1 + 3 + 2, 3)
    unseen = mixed.repeat(4, 1)
    unseen[:, 0] = torch.tensor([-1.0, 3.0, 0.5, 99.0]).repeat_interleave(150)
    logits = features.transform(unseen).view(4, 150, 3)
    torch.testing.assert_close(logits, logits[:1].expand(4, -1, -1))
    of_code = features.weights_[-1, 31:34]
    torch.testing.assert_close(logits[0] + of_code[labels], features.transform(mixed))


@pytest.mark.parametrize(("n_points", "n_classes"), [(2, 2), (3, 2), (20, 20), (60, 30)], ids=str)
def test_very_few_rows_are_enough_for_finite_logits(n_points, n_classes):
    points, labels = cloud(n_points, 200, n_classes, gap=2.0)
    features = fitted(points, labels)
    for logits in (features.transform(points), features.transform_seen(points)):
        assert logits.shape == (n_points, n_classes)
        assert logits.isfinite().all()
    assert (features.transform(points).argmax(dim=1) == labels).all()
    assert 0 < features.prior_scale_ <= 1


def test_rows_that_are_all_alike_have_one_answer():
    points, labels = torch.ones(50, 5), torch.arange(50) % 3
    seen = fitted(points, labels).transform_seen(points)
    assert torch.equal(seen, seen[:1].expand(50, -1))
    assert seen.isfinite().all()


def test_one_seed_gives_one_map_and_its_state_rebuilds_it(rows, features):
    points, labels = rows
    again = fitted(points, labels)
    loaded = clone(features).set_state(features.get_state())
    for other in (again, loaded):
        assert torch.equal(other.transform(points), features.transform(points))
        assert torch.equal(other.transform_seen(points), features.transform_seen(points))
        assert (other.ridge_scale_, other.prior_scale_, other.accuracy_) == (
            features.ridge_scale_,
            features.prior_scale_,
            features.accuracy_,
        )
    np.testing.assert_array_equal(again._folds(points), features._folds(points))
