"""Rows farther from all known rows than these are from each other, and only those, are outside."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import OneHotEncoder

from bacoun.files.persistence import from_state, to_state
from bacoun.tabular.neighbors import Neighborhood

SIZES = [0, 4, 0, 3]  # number, category, number, category


def rows_of(n_rows, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((n_rows, 2)) * [spread, 30 * spread] + [5, -700]
    codes = np.column_stack([rng.integers(0, size, n_rows) for size in (4, 3)])
    return np.column_stack([numbers[:, 0], codes[:, 0], numbers[:, 1], codes[:, 1]])


def one_hot(rows, known):
    """Standardized numbers, and categories by scikit-learn; all zero if one is unknown."""
    numbers, codes = [0, 2], [1, 3]
    encoder = OneHotEncoder(
        categories=[np.arange(4.0), np.arange(3.0)], sparse_output=False, handle_unknown="ignore"
    ).fit(known[:, codes])
    standard = (rows[:, numbers] - known[:, numbers].mean(axis=0)) / known[:, numbers].std(axis=0)
    return np.column_stack([standard, encoder.transform(rows[:, codes])])


def brute_force(known, new):
    """Limits of the known rows, and which of the new ones are outside, by scikit-learn."""
    ours, theirs = one_hot(known, known), one_hot(new, known)
    search = NearestNeighbors(n_neighbors=6, algorithm="brute").fit(ours)
    own = search.kneighbors(ours)[0][:, [1, 5]]  # a row is its own nearest neighbor
    limits = own.max(axis=0)
    beyond = search.kneighbors(theirs)[0][:, [0, 4]] > limits * (1 + 1e-4)  # more than rounding
    return limits, beyond.any(axis=1)


@pytest.mark.parametrize("n_rows", [6, 40, 1000])
@pytest.mark.parametrize("spread", [1.0, 1.5, 4.0])
def test_it_agrees_with_a_search_among_one_hot_encoded_rows(n_rows, spread):
    known, new = rows_of(n_rows), rows_of(500, 1, spread)
    new[::50, 1] = -1  # unseen
    found = Neighborhood.fit(known, SIZES, 0)
    limits, outside = brute_force(known, new)
    np.testing.assert_allclose(found.limits, limits, rtol=1e-4)
    np.testing.assert_array_equal(found.is_outside(new), outside)
    if spread == 4.0:
        assert outside.any()
    if n_rows > 6:
        assert not outside.all()


def test_the_fifth_neighbor_finds_a_small_cluster_of_its_own():
    known = rows_of(300)
    known[:3] = [100, 0, -700, 0]  # three equal rows far from all others
    found = Neighborhood.fit(known, SIZES, 0)
    assert found.limits[1] > 5 * found.limits[0]
    assert not found.is_outside(known).any()


def test_trying_few_rows_first_changes_nothing():
    known, new = rows_of(2000), rows_of(5000, 1, 1.6)
    found = Neighborhood.fit(known, SIZES, 0)
    outside = found.is_outside(new)
    assert 0 < outside.sum() < 1000
    # Kept rows in any other order make another choice of those that are tried first.
    order = np.random.default_rng(5).permutation(len(found.rows))
    arguments = vars(found) | {"rows": found.rows[order]}
    np.testing.assert_array_equal(Neighborhood(**arguments).is_outside(new), outside)
    np.testing.assert_array_equal(outside, brute_force(known, new)[1])


def test_rows_are_judged_one_by_one():
    found, new = Neighborhood.fit(rows_of(300), SIZES, 0), rows_of(2500, 1, 2.0)
    whole = found.is_outside(new)
    assert whole.any()
    parts = [found.is_outside(part) for part in np.split(new, [1, 700])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert found.is_outside(new[:0]).shape == (0,)


def test_a_new_row_like_the_others_is_rarely_outside():
    n_rows, n_new, n_trials = 50, 200, 100
    shares = [
        Neighborhood.fit(rows_of(n_rows, seed), SIZES, 0).is_outside(rows_of(n_new, 999 - seed))
        for seed in range(n_trials)
    ]
    # Each of n + 1 rows is as likely to be the farthest from its nearest, or fifth, neighbor.
    assert 0 < np.mean(shares) <= 2 / n_rows


def test_known_rows_are_not_outside():
    known = rows_of(700)
    assert not Neighborhood.fit(known, SIZES, 0).is_outside(known).any()


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_few_rows_have_nobody_outside(n_rows):
    found = Neighborhood.fit(rows_of(n_rows), SIZES, 0)
    assert found.limits == []
    assert not found.is_outside(rows_of(50, 1, 100.0)).any()


def test_a_number_far_away_is_outside_however_far():
    found = Neighborhood.fit(rows_of(100), SIZES, 0)
    for far in (1e3, -1e6, 1e30, 1e300, -1e308):
        (row,) = rows_of(1)
        row[0] = far
        assert found.is_outside(row[None]).all()


def test_equal_categories_and_an_unknown_one():
    known = np.zeros((30, 2))
    found = Neighborhood.fit(known, [3, 3], 0)
    assert found.limits == [0, 0]
    new = np.array([[0, 0], [1, 0], [-1, 0], [7, 7]])
    assert found.is_outside(new).tolist() == [False, True, True, True]


def test_a_category_of_many_levels_has_no_part_in_distances():
    rng = np.random.default_rng(0)
    known = np.column_stack([rng.standard_normal(200), np.arange(200)])
    found = Neighborhood.fit(known, [0, 200], 0)
    alone = Neighborhood.fit(known[:, :1], [0], 0)
    assert found.limits == alone.limits
    assert not found.is_outside(known + np.array([0, 1])).any()


def test_the_seed_chooses_the_order_and_of_many_rows_ten_thousand():
    known = np.arange(10_050.0)[:, None]
    kept = Neighborhood.fit(known, [0], 3).rows
    assert kept.shape == (10_000, 1)
    assert len(np.unique(kept)) == 10_000
    few = known[:50]
    first, again, other = (Neighborhood.fit(few, [0], seed).rows for seed in (3, 3, 4))
    np.testing.assert_array_equal(again, first)
    assert not np.array_equal(other, first)
    np.testing.assert_array_equal(np.sort(other, axis=0), np.sort(first, axis=0))


def test_the_state_rebuilds_it():
    found, new = Neighborhood.fit(rows_of(300), SIZES, 0), rows_of(400, 1, 2.0)
    again = from_state(Neighborhood, to_state(found))
    assert again.limits == found.limits
    np.testing.assert_array_equal(again.is_outside(new), found.is_outside(new))
