"""Forest: votes of trees that have not seen a row."""

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

from bacoun.engine.randomness import hash_rows
from bacoun.features.forest import Forest, _in_bag, _nodes


def data(n_points=300, n_classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n_points, 4, generator=generator)
    labels = (points[:, 0] > 0).long() + (points[:, 1] > 0.5).long() * (n_classes - 2)
    return points, labels


def grown(points, labels, seed=0, **settings):
    forest = Forest(**({"n_trees": 30, "depth": 6} | settings))
    return forest.fit(points, labels, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("splitter", ["best", "random"])
def test_nodes_give_the_frequencies_of_the_tree(splitter):
    points, labels = data()
    table = points.round(decimals=1).numpy()  # many values equal a threshold
    tree = DecisionTreeClassifier(splitter=splitter, max_depth=7, random_state=0)
    tree.fit(table, labels.numpy())
    nodes = _nodes(tree, 3)
    place = np.zeros(len(table), dtype=int)
    for _ in range(7):
        values = table[np.arange(len(table)), nodes.features[place]]
        place = nodes.children[place] + (values > nodes.thresholds[place])
    np.testing.assert_allclose(nodes.values[place], tree.predict_proba(table), atol=1e-7)


def test_out_of_bag_votes_of_a_row_do_not_depend_on_its_label():
    points, labels = data()
    changed = labels.clone()
    changed[7] = (labels[7] + 1) % 3
    before, after = grown(points, labels), grown(points, changed)
    shares = [forest._shares(points[7:8], out_of_bag=True) for forest in (before, after)]
    prior = [forest.frequencies_ for forest in (before, after)]
    n_votes = [
        30 - sum(bool(_in_bag(hash_rows(points[7:8]), f.seed_, t, f.share_)[0]) for t in range(30))
        for f in (before, after)
    ]
    sums = [s * (n + 1) - p for s, n, p in zip(shares, n_votes, prior, strict=True)]
    torch.testing.assert_close(*sums)
    assert not torch.equal(before.votes(points[7:8]), after.votes(points[7:8]))


def test_bags_do_not_depend_on_order_or_other_rows_and_copies_share_them():
    points, _ = data()
    hashes = hash_rows(points)
    np.testing.assert_array_equal(hash_rows(points.flip(0))[::-1], hashes)
    np.testing.assert_array_equal(hash_rows(points[5:6]), hashes[5:6])
    assert len(np.unique(hashes)) == len(points)
    zeros = torch.tensor([[0.0, 1.0], [-0.0, 1.0]])
    assert len(np.unique(hash_rows(zeros))) == 1


def test_a_tree_sees_about_63_percent_of_the_rows_and_different_ones():
    hashes = hash_rows(torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)))
    bags = np.stack([_in_bag(hashes, 5, tree, 0.63) for tree in range(20)])
    np.testing.assert_allclose(bags.mean(axis=1), 0.63, atol=0.02)
    together = (bags[:, None] & bags[None]).mean(axis=2)[~np.eye(20, dtype=bool)]
    np.testing.assert_allclose(together, 0.63**2, atol=0.02)


def test_large_tables_are_sampled():
    points = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0))
    forest = grown(points, (points[:, 0] > 0).long(), n_trees=2, depth=2)
    assert forest.share_ == 0.5


def test_votes_of_two_classes_are_one_column_and_of_more_sum_to_zero():
    points, labels = data()
    votes = grown(points, labels).votes(points)
    assert votes.shape == (300, 3)
    torch.testing.assert_close(votes.sum(dim=1), torch.zeros(300), atol=1e-5, rtol=0)
    binary = grown(points, (labels > 0).long()).votes(points)
    assert binary.shape == (300, 1)
    assert ((binary[:, 0] > 0) == (labels > 0)).float().mean() > 0.95


def test_out_of_bag_votes_are_honest_about_noise():
    points, _ = data(400)
    noise = torch.randint(2, (400,), generator=torch.Generator().manual_seed(1))
    forest = grown(points, noise, n_trees=100, depth=10)
    in_bag = ((forest.votes(points)[:, 0] > 0).long() == noise).float().mean()
    out_of_bag = ((forest.votes(points, out_of_bag=True)[:, 0] > 0).long() == noise).float().mean()
    assert in_bag > 0.85
    assert 0.4 < out_of_bag < 0.6


def test_threads_do_not_change_the_forest():
    points, labels = data()
    one, two = (
        Forest(n_trees=10).fit(
            points, labels, generator=torch.Generator().manual_seed(0), n_jobs=n_jobs
        )
        for n_jobs in (1, 2)
    )
    assert torch.equal(one.votes(points), two.votes(points))


def test_weights_move_votes_to_heavy_rows():
    points = torch.zeros(200, 1)
    points[:, 0] = torch.arange(200) % 7
    labels = torch.arange(200) % 2
    weights = torch.where(labels == 1, 3.0, 1.0)
    forest = Forest(n_trees=20, depth=3).fit(
        points, labels, sample_weight=weights, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(forest.frequencies_, torch.tensor([0.25, 0.75]))
    assert forest.votes(points).mean() > 0.3


def test_a_state_gives_the_same_votes():
    points, labels = data()
    forest = grown(points, labels)
    again = Forest(n_trees=30, depth=6).set_state(forest.get_state())
    for out_of_bag in (False, True):
        assert torch.equal(
            again.votes(points, out_of_bag=out_of_bag), forest.votes(points, out_of_bag=out_of_bag)
        )


def test_rows_that_are_all_alike_give_the_class_frequencies():
    points, labels = torch.ones(50, 2), torch.arange(50) % 3
    votes = grown(points, labels).votes(points, out_of_bag=True)
    torch.testing.assert_close(votes, votes[:1].expand(50, -1))
    assert votes.isfinite().all()
