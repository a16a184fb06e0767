"""One density of numbers and categories, and edge points that have both."""

import pytest
import torch
from torch import Tensor

from bacoun.boundary import CompactShell, FlowShell, MixedShell
from bacoun.boundary.categories import CategoryTree
from bacoun.protocols import FitContext
from bacoun.uncertainty import Doubt

SMALL = {"blocks": 2, "hidden": 8, "epochs": 5, "learning_rate": 1e-2}
SIZES = [0, 3, 0, 4]  # number, category, number, category


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table(n_rows: int = 600, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of two classes; the second category follows the first in all but a few rows."""
    source = generator(seed)
    labels = torch.randint(2, (n_rows,), generator=source)
    numbers = torch.randn(n_rows, 2, generator=source) + 6 * labels[:, None]
    first = torch.randint(3, (n_rows,), generator=source)
    anything = torch.randint(4, (n_rows,), generator=source)
    second = torch.where(torch.rand(n_rows, generator=source) < 0.98, first, anything)
    return torch.stack([numbers[:, 0], first, numbers[:, 1], second], dim=1), labels


def fitted(points: Tensor, labels: Tensor, sizes=SIZES, **settings) -> MixedShell:
    shell = FlowShell(**SMALL | settings)
    return MixedShell(shell=shell).fit(
        points, labels, FitContext(n_categories=sizes, generator=generator(1))
    )


@pytest.fixture(scope="module")
def data():
    return table()


@pytest.fixture(scope="module")
def mixed(data):
    return fitted(*data)


# --- the density ----------------------------------------------------------------------------------


def test_the_density_of_a_row_is_that_of_its_numbers_times_that_of_its_categories(mixed, data):
    points, _ = data
    numbers, codes = points[:, [0, 2]], points[:, [1, 3]]
    each = mixed.shell_.class_log_prob(numbers) + mixed.tree_.log_prob(codes, numbers)
    assert each.shape == (2, len(points))
    torch.testing.assert_close(mixed.class_log_prob(points), each)
    torch.testing.assert_close(mixed.log_prob(points), torch.logsumexp(each, dim=0))


@pytest.mark.parametrize("per_class", [True, False])
def test_independent_numbers_and_categories_have_the_product_of_their_densities(per_class):
    points, labels = table()
    points[:, 3] = 0  # constant, so that no category tells about another
    points[:, 1] = torch.arange(len(points)) % 3
    mixed = fitted(points, labels, [0, 3, 0, 1], per_class=per_class)
    mixed.tree_ = CategoryTree().fit(
        points[:, [1, 3]], [3, 1], points[:, :0], labels if per_class else 0 * labels
    )
    mixed.tree_.cuts_ = mixed.tree_.cuts_.new_zeros(2, 5)  # the tree has no use for the numbers
    product = mixed.shell_.log_prob(points[:, [0, 2]])
    for row in range(20):
        own = mixed.tree_.log_prob(points[row : row + 1, [1, 3]], points[row : row + 1, [0, 2]])
        within = mixed.shell_.class_log_prob(points[row : row + 1, [0, 2]]).log_softmax(dim=0)
        expected = product[row] + torch.logsumexp(within + own, dim=0)
        torch.testing.assert_close(mixed.log_prob(points[row : row + 1]), expected)


def test_the_flows_are_those_of_the_numbers_alone(mixed, data):
    points, labels = data
    alone = FlowShell(**SMALL).fit(points[:, [0, 2]], labels, FitContext(generator=generator(1)))
    assert torch.equal(
        mixed.shell_.class_log_prob(points[:, [0, 2]]), alone.class_log_prob(points[:, [0, 2]])
    )
    assert torch.equal(mixed.held_out_rows_, alone.held_out_rows_)


def test_the_tree_does_not_see_the_rows_that_are_held_out(mixed, data):
    points, labels = data
    kept = torch.ones(len(points), dtype=torch.bool)
    kept[mixed.held_out_rows_] = False
    assert 0 < int((~kept).sum()) < len(points) / 5
    numbers, codes = points[:, [0, 2]], points[:, [1, 3]]
    again = CategoryTree().fit(codes[kept], [3, 4], numbers[kept], labels[kept])
    assert torch.equal(again.log_prob(codes, numbers), mixed.tree_.log_prob(codes, numbers))


def test_only_the_wanted_densities_are_computed(mixed, data):
    points, _ = data
    wanted = torch.rand(2, len(points), generator=generator()) < 0.5
    found, everything = mixed.class_log_prob(points, wanted), mixed.class_log_prob(points)
    torch.testing.assert_close(found[wanted], everything[wanted])
    assert (found[~wanted] == -torch.inf).all()
    nothing = mixed.class_log_prob(points, torch.zeros_like(wanted))
    assert (nothing == -torch.inf).all()


@pytest.mark.parametrize("n_rows", [12, 200])
def test_a_table_without_numbers_has_a_density_and_an_edge(n_rows):
    points, labels = table(n_rows)
    codes = points[:, [1, 3]]
    mixed = fitted(codes, labels, [3, 4])
    assert mixed.shell_ is None
    sizes = torch.bincount(labels).float()
    expected = mixed.tree_.log_prob(codes, codes[:, :0]) + (sizes / len(labels)).log()[:, None]
    torch.testing.assert_close(mixed.class_log_prob(codes), expected)
    assert list(mixed.unfamiliarity(codes)) == ["categories"]
    torch.testing.assert_close(mixed.unfamiliarity(codes)["categories"], -mixed.log_prob(codes))
    assert len(mixed.held_out_rows_) == n_rows // 10
    edge, source = mixed.sample(50, generator=generator())
    assert edge.shape == (50, 2)
    assert (source == -1).all()


def test_a_class_whose_rows_are_all_held_out_is_kept():
    points, labels = table(40)
    labels = torch.where(torch.arange(40) == 0, 2, labels)
    for seed in range(5):  # some of these hold out the one row of the third class
        mixed = MixedShell().fit(
            points[:, [1, 3]], labels, FitContext(n_categories=[3, 4], generator=generator(seed))
        )
        assert mixed.class_log_prob(points[:, [1, 3]]).shape == (3, 40)


# --- the edge -------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_class", [True, False])
def test_edge_points_have_numbers_of_the_edge_and_known_categories(data, per_class):
    mixed = fitted(*data, per_class=per_class)
    edge, source = mixed.sample(1000, generator=generator())
    assert edge.shape == (1000, 4)
    assert edge.isfinite().all()
    codes = edge[:, [1, 3]]
    assert ((codes >= 0) & (codes < torch.tensor([3, 4])) & (codes == codes.round())).all()
    flows, inner = mixed.shell_.flows_, torch.tensor(mixed.shell_.inner_radii_)
    norms = torch.stack([flow.to_latent(edge[:, [0, 2]]).norm(dim=1) for flow in flows])
    on_shell = (norms > 0.999 * inner[:, None]) & (norms < 1.031 * inner[:, None])
    assert on_shell.any(dim=0).all()
    known = source >= 0
    assert on_shell[source[known], torch.arange(1000)[known]].all()
    if per_class:
        assert 0.4 < float(known.double().mean()) < 0.6
    else:
        assert not known.any()


def test_categories_of_an_edge_point_with_a_class_are_likely_and_of_others_at_random(mixed):
    edge, source = mixed.sample(4000, generator=generator())
    agree = (edge[:, 1] == edge[:, 3]).double()
    assert 0.92 < float(agree[source >= 0].mean()) < 1  # as in the data
    # Half of the codes are replaced: both stay in a quarter, otherwise they agree by chance.
    assert 0.3 < float(agree[source < 0].mean()) < 0.55
    uniform = torch.bincount(edge[source < 0, 3].long(), minlength=4) / int((source < 0).sum())
    assert float(uniform[3]) > 0.1  # rare in the data


def test_one_seed_gives_one_edge(mixed):
    (first, a), (again, b), (other, _) = (
        mixed.sample(100, generator=generator(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert torch.equal(a, b)
    assert not torch.equal(first, other)


# --- what is unusual ------------------------------------------------------------------------------


def spoil(points: Tensor, how: str) -> Tensor:
    changed = points.clone()
    if how == "unseen":
        changed[:, 1] = 9
    elif how == "pair":  # each category is frequent, the two together are not
        changed[:, 3] = (changed[:, 1] + 1) % 3
    else:
        changed[:, 0] += 8 * torch.where(changed[:, 0] > 3, 1, -1)
    return changed


@pytest.mark.parametrize("how", ["unseen", "pair", "far"])
@pytest.mark.parametrize("n_ordinary", [0, 40])
def test_a_row_with_one_unusual_thing_is_unfamiliar_whatever_else_it_has(how, n_ordinary):
    points, labels = table(1500)
    source = generator(7)
    half = n_ordinary // 2
    ordinary = torch.cat(
        [
            torch.randn(len(points), half, generator=source),
            torch.randint(2, (len(points), n_ordinary - half), generator=source),
        ],
        dim=1,
    )
    points = torch.cat([points, ordinary], dim=1)
    sizes = [*SIZES, *[0] * half, *[2] * (n_ordinary - half)]
    mixed = fitted(points[:1000], labels[:1000], sizes)
    new = points[1000:]
    new = new[new[:, 1] == new[:, 3]]
    reference = mixed.unfamiliarity(points[1000:])
    agreed = torch.zeros(500)
    doubt = Doubt.learn(reference, agreed, ood_prior=0.01, n_rows=500)
    before = doubt.surprise(mixed.unfamiliarity(new), agreed[: len(new)])
    after = doubt.surprise(mixed.unfamiliarity(spoil(new, how)), agreed[: len(new)])
    assert (after >= before).all()
    share = float((after > before.quantile(0.95)).double().mean())
    assert share > 0.9


@pytest.mark.parametrize(("how", "part"), [("unseen", "categories"), ("far", "density")])
def test_the_part_that_is_unusual_says_so_and_the_other_does_not(mixed, data, how, part):
    points = data[0][:100]
    before, after = (mixed.unfamiliarity(each) for each in (points, spoil(points, how)))
    assert list(before) == ["density", "categories"]
    assert (after["density"] > before["density"]).all()
    assert (after[part] > before[part]).all()


def test_many_numbers_add_the_score_of_their_residual():
    points, labels = table()
    wide = torch.cat([points, torch.randn(len(points), 6, generator=generator())], dim=1)
    shell = CompactShell(n_components=2, shell=FlowShell(**SMALL))
    mixed = MixedShell(shell=shell)
    mixed.fit(wide, labels, FitContext(n_categories=[*SIZES, *[0] * 6], generator=generator()))
    assert list(mixed.unfamiliarity(wide)) == ["density", "gaussian", "residual", "categories"]
    numbers = wide[:, [0, 2, *range(4, 10)]]
    torch.testing.assert_close(
        mixed.unfamiliarity(wide)["residual"], mixed.shell_.unfamiliarity(numbers)["residual"]
    )


# --- settings and state ---------------------------------------------------------------------------


@pytest.mark.parametrize("shell", [FlowShell(**SMALL), CompactShell(shell=FlowShell(**SMALL))])
def test_the_state_rebuilds_the_shell(data, shell):
    points, labels = data
    mixed = MixedShell(shell=shell)
    mixed.fit(points, labels, FitContext(n_categories=SIZES, generator=generator()))
    again = MixedShell(shell=shell).set_state(mixed.get_state())
    assert torch.equal(again.log_prob(points), mixed.log_prob(points))
    assert torch.equal(again.held_out_rows_, mixed.held_out_rows_)
    for ours, theirs in zip(
        again.sample(30, generator=generator(2)),
        mixed.sample(30, generator=generator(2)),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


def test_the_state_without_numbers_rebuilds_the_shell(data):
    codes = data[0][:, [1, 3]]
    mixed = fitted(codes, data[1], [3, 4])
    again = MixedShell().set_state(mixed.get_state())
    assert again.shell_ is None
    assert torch.equal(again.log_prob(codes), mixed.log_prob(codes))


def test_settings_nest():
    mixed = MixedShell()
    assert mixed.get_params()["shell__shell__epochs"] == FlowShell().epochs
    mixed.set_params(shell__shell__epochs=7, shell__residual=0.1)
    assert (mixed.shell.shell.epochs, mixed.shell.residual) == (7, 0.1)
    assert mixed.get_params()["shell__shell__epochs"] == 7
    flat = MixedShell(shell=FlowShell()).set_params(shell__epochs=3)
    assert flat.shell.epochs == 3


def test_fitting_leaves_the_given_shell_alone(data):
    shell = FlowShell(**SMALL)
    mixed = MixedShell(shell=shell).fit(
        *data, FitContext(n_categories=SIZES, generator=generator())
    )
    assert not hasattr(shell, "flows_")
    assert mixed.shell_ is not shell


def test_without_numbers_of_categories_it_says_what_to_use():
    with pytest.raises(ValueError, match=r"needs n_categories in its FitContext.*CompactShell"):
        MixedShell().fit(torch.zeros(10, 2), torch.arange(10) % 2)


def test_a_known_unfamiliarity_saves_the_flows_a_question(mixed, data):
    points = data[0][:50]
    known = mixed.unfamiliarity(points)
    torch.testing.assert_close(mixed.log_prob_from(points, known), mixed.log_prob(points))
