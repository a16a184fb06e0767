"""The probability of categories: tables that sum to one, and a tree that finds what depends."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bacoun.boundary.categories import CategoryTree


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(size: int, n_rows: int, seed: int = 0) -> Tensor:
    return torch.randint(size, (n_rows,), generator=generator(seed)).double()


def copied(column: Tensor, size: int, share: float, seed: int) -> Tensor:
    """The column, with all but a share of its entries drawn again."""
    kept = torch.rand(len(column), generator=generator(seed)) < share
    return torch.where(kept, column, uniform(size, len(column), seed + 1))


def nothing(n_rows: int) -> Tensor:
    return torch.zeros(n_rows, 0, dtype=torch.float64)


def one_class(n_rows: int) -> Tensor:
    return torch.zeros(n_rows, dtype=torch.int64)


def fitted(codes: Tensor, numbers: Tensor | None = None, groups: Tensor | None = None):
    sizes = [int(column.max()) + 1 for column in codes.T]
    numbers = nothing(len(codes)) if numbers is None else numbers
    groups = one_class(len(codes)) if groups is None else groups
    return CategoryTree().fit(codes, sizes, numbers, groups)


def edges(tree: CategoryTree) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in enumerate(tree.parents_) if pair[1] >= 0}


# --- probabilities --------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    n_numbers=st.integers(0, 2),
    n_groups=st.integers(1, 3),
    n_rows=st.integers(3, 60),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=40)
def test_probabilities_sum_to_one_over_the_levels(sizes, n_numbers, n_groups, n_rows, seed):
    codes = torch.stack([uniform(size, n_rows, seed + j) for j, size in enumerate(sizes)], dim=1)
    numbers = torch.randn(n_rows, n_numbers, generator=generator(seed), dtype=torch.float64)
    groups = torch.arange(n_rows) % n_groups
    tree = CategoryTree().fit(codes, sizes, numbers, groups)
    for size, table in zip(sizes, tree.tables_, strict=True):
        assert table.shape[::2] == (n_groups, size + 1)  # what is unseen is the last one
        total = table.exp().sum(dim=2)
        torch.testing.assert_close(total, torch.ones_like(total))
    # So do those of all rows there could be.
    values = [torch.arange(size + 1).double() for size in sizes]
    rows = torch.cartesian_prod(*values).reshape(-1, len(sizes))
    there = numbers[:1].expand(len(rows), n_numbers)
    total = tree.log_prob(rows, there).exp().sum(dim=1)
    torch.testing.assert_close(total, torch.ones(n_groups, dtype=torch.float64))


def test_log_prob_is_the_product_of_smoothed_frequencies():
    codes = torch.tensor([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1], [0, 1], [1, 0]]).double()
    codes, groups = codes.repeat(10, 1), torch.tensor([0, 0, 0, 0, 0, 1, 1]).repeat(10)
    tree = fitted(codes, groups=groups)
    assert tree.parents_ == [-1, 0]

    def smoothed(column, level, inside, towards):  # as many pseudo-rows as different values
        values = codes[inside, column]
        n_pseudo = max(len(values.unique()), 1)
        return (float((values == level).sum()) + n_pseudo * towards) / (len(values) + n_pseudo)

    def given_class(column, level, k):  # in all, half a row for each level and for what is unseen
        overall = (float((codes[:, column] == level).sum()) + 0.5) / (len(codes) + 1.5)
        return smoothed(column, level, groups == k, overall)

    for a, b, k in itertools.product(range(3), range(3), range(2)):  # 2 is unseen
        row = torch.tensor([[a, b]]).double()
        same = (groups == k) & (codes[:, 0] == a)
        expected = given_class(0, a, k) * smoothed(1, b, same, given_class(1, b, k))
        assert float(tree.log_prob(row, nothing(1))[k, 0].exp()) == pytest.approx(expected)


def test_surprise_has_one_term_for_each_category():
    codes = torch.stack([uniform(3, 50, 0), uniform(4, 50, 1)], dim=1)
    numbers = torch.randn(50, 1, generator=generator(), dtype=torch.float64)
    tree = fitted(codes, numbers, torch.arange(50) % 2)
    surprise = tree.surprise(codes, numbers)
    assert surprise.shape == (2, 50, 2)
    assert (surprise > 0).all()
    torch.testing.assert_close(-surprise.sum(dim=2), tree.log_prob(codes, numbers))


@pytest.mark.parametrize("code", [-1, 4, 7, 1e6, 0.5, 2.5, math.nan])
@pytest.mark.parametrize("n_rows", [50, 5000])
def test_what_is_unseen_is_unlikely_but_not_impossible(code, n_rows):
    codes = uniform(3, n_rows)
    codes[0] = 3  # seen once
    tree = fitted(codes[:, None])
    unseen, rare, usual = tree.log_prob(torch.tensor([[code], [3.0], [1.0]]).double(), nothing(3))[
        0
    ]
    assert math.log(1 / n_rows**3) < unseen < math.log(0.5 / n_rows)
    assert unseen < rare < usual


def test_a_class_of_few_rows_leans_on_the_others():
    codes = torch.tensor([0.0] * 90 + [1.0] * 10 + [1.0]).double()[:, None]
    tree = fitted(codes, groups=torch.tensor([0] * 100 + [1]))
    large, small = tree.log_prob(torch.zeros(1, 1).double(), nothing(1)).exp()[:, 0].tolist()
    assert large == pytest.approx(0.9, abs=0.01)
    # Its one row is a 1, yet a 0 is almost as likely: the others have many.
    assert small == pytest.approx(0.885 / 2, abs=0.01)


def test_categories_without_rows_of_one_level_are_finite():
    tree = CategoryTree().fit(torch.zeros(9, 2), [1, 4], torch.zeros(9, 1), one_class(9))
    rows = torch.tensor([[0.0, 3.0], [-1.0, -1.0]])
    assert tree.log_prob(rows, torch.zeros(2, 1)).isfinite().all()


# --- the tree -------------------------------------------------------------------------------------


def test_columns_with_exactly_independent_counts_have_no_parent():
    codes = torch.cartesian_prod(*(torch.arange(size).double() for size in (2, 3, 4)))
    tree = fitted(codes.repeat(5, 1))
    assert tree.parents_ == [-1, -1, -1]


def test_independent_columns_have_no_parent():
    codes = torch.stack([uniform(4, 1000, seed) for seed in range(10)], dim=1)
    numbers = torch.randn(1000, 3, generator=generator(20), dtype=torch.float64)
    tree = fitted(codes, numbers, uniform(2, 1000, 30).long())
    assert tree.parents_ == [-1] * 10


def test_of_independent_columns_most_pairs_are_not_joined():
    """Mutual information of a sample is above zero; what chance gives on average is taken off."""
    trees = [
        fitted(torch.stack([uniform(5, 300, seed), uniform(5, 300, seed + 500)], dim=1))
        for seed in range(100)
    ]
    assert sum(tree.parents_ == [-1, -1] for tree in trees) > 45


def test_columns_that_depend_only_through_the_class_have_no_parent():
    each = torch.cartesian_prod(torch.arange(2).double(), torch.arange(2).double())
    first, second = torch.repeat_interleave(each, 5, dim=0), 2 + torch.repeat_interleave(each, 5, 0)
    codes = torch.cat([first, second])
    groups = (torch.arange(len(codes)) >= len(first)).long()
    assert fitted(codes, groups=groups).parents_ == [-1, -1]
    assert fitted(codes).parents_ == [-1, 0]  # without the class, one tells about the other


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_a_chain_is_recovered(order):
    a = uniform(4, 2000, 0)
    b = copied(a, 4, 0.8, 10)
    c = copied(b, 4, 0.8, 20)
    chain = [a, b, c]
    tree = fitted(torch.stack([chain[link] for link in order], dim=1))
    place = {link: column for column, link in enumerate(order)}
    expected = {frozenset({place[0], place[1]}), frozenset({place[1], place[2]})}
    assert edges(tree) == expected
    assert tree.parents_.count(-1) == 1


def test_a_category_that_depends_on_a_number_has_it_as_its_parent():
    numbers = torch.randn(2000, 3, generator=generator(), dtype=torch.float64)
    codes = torch.stack([uniform(2, 2000, 1), (numbers[:, 1] > 0.5).double()], dim=1)
    tree = fitted(codes, numbers)
    assert tree.parents_[1] == 2 + 1  # columns are the categories, then the numbers
    low, high = (torch.tensor([[0.0, value, 0.0]]).double() for value in (-2.0, 2.0))
    one = torch.tensor([[0.0, 1.0]]).double()
    assert tree.surprise(one, low)[0, 0, 1] > 3
    assert tree.surprise(one, high)[0, 0, 1] < 0.1


def test_no_category_is_its_own_ancestor():
    columns = [uniform(3, 500, 0)]
    for seed in range(1, 12):
        columns.append(copied(columns[seed // 2], 3, 0.6, 100 * seed))
    numbers = torch.randn(500, 2, generator=generator(), dtype=torch.float64)
    tree = fitted(torch.stack(columns, dim=1), numbers)
    for child in range(len(columns)):
        seen = set()
        while 0 <= child < len(columns):
            assert child not in seen
            seen.add(child)
            child = tree.parents_[child]


# --- draws ----------------------------------------------------------------------------------------


def test_draws_have_the_frequencies_and_dependencies_of_the_data():
    n_rows = 4000
    groups = uniform(2, n_rows, 5).long()
    numbers = torch.randn(n_rows, 1, generator=generator(6), dtype=torch.float64)
    a = torch.where(groups == 0, 0.0, uniform(3, n_rows, 7))
    codes = torch.stack([a, copied(a, 3, 0.7, 8), (numbers[:, 0] > 0).double()], dim=1)
    tree = fitted(codes, numbers, groups)
    drawn = tree.sample(numbers, groups, generator(9))
    assert drawn.shape == codes.shape
    sizes = torch.tensor([3, 3, 2])
    assert ((drawn >= 0) & (drawn < sizes) & (drawn == drawn.round())).all()

    def shares(rows):
        cells = (groups * 3 + rows[:, 0].long()) * 3 + rows[:, 1].long()
        return torch.bincount(cells, minlength=18) / n_rows

    torch.testing.assert_close(shares(drawn), shares(codes), atol=0.025, rtol=0)
    agree = (drawn[:, 2] == (numbers[:, 0] > 0)).double().mean()
    assert agree > 0.97


def test_a_category_is_drawn_after_its_parent_wherever_that_is():
    numbers = torch.randn(2000, 1, generator=generator(), dtype=torch.float64)
    second = (numbers[:, 0] > 0.2).double()  # which six bins do not know exactly
    codes = torch.stack([copied(second, 2, 0.9, 3), second], dim=1)
    tree = fitted(codes, numbers)
    assert tree.parents_ == [1, 2]
    drawn = tree.sample(numbers, one_class(2000), generator(4))
    assert (drawn[:, 0] == drawn[:, 1]).double().mean() > 0.9


def test_one_seed_gives_one_draw():
    codes = torch.stack([uniform(5, 200, 0), uniform(3, 200, 1)], dim=1)
    tree = fitted(codes)
    first, again, other = (
        tree.sample(nothing(200), one_class(200), generator(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_state_rebuilds_the_tree():
    codes = torch.stack([uniform(5, 200, 0), uniform(3, 200, 1)], dim=1)
    numbers = torch.randn(200, 2, generator=generator(), dtype=torch.float64)
    groups = torch.arange(200) % 3
    tree = fitted(codes, numbers, groups)
    again = CategoryTree().set_state(tree.get_state())
    assert again.parents_ == tree.parents_
    assert torch.equal(again.log_prob(codes, numbers), tree.log_prob(codes, numbers))
    draws = [each.sample(numbers, groups, generator(3)) for each in (tree, again)]
    assert torch.equal(*draws)
