"""The default for tables of more than 128 numbers, such as embeddings."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from bacoun import BaCOUnClassifier
from bacoun.boundary import CompactShell, DirectionShell, MixedShell
from bacoun.features import KINDS, LinearFeatures, TabularFeatures
from bacoun.fitting import Fit
from bacoun.posterior import Laplace

QUICK = {"n_members": 2, "n_trees": 10, "epochs": 3, "hidden": (16, 8)}


def vectors(n_rows=240, n_columns=140, n_classes=3, seed=0, gap=0.4):
    """Rows like embeddings: one direction for each class, noise around it, various lengths."""
    centers = gap * np.random.default_rng(99).normal(size=(n_classes, n_columns))
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    X = centers[y] + rng.normal(size=(n_rows, n_columns))
    return X * rng.lognormal(0, 0.1, size=(n_rows, 1)), y


def rng_noise(rows):
    return np.random.default_rng(len(rows)).normal(size=rows.shape)


def wide(**settings):
    """The default, with a posterior of a moment."""
    return BaCOUnClassifier(**({"posterior": Laplace(n_draws=50), "random_state": 0} | settings))


@pytest.fixture(scope="module")
def table():
    return vectors()


@pytest.fixture(scope="module")
def model(table):
    """All settings as they are by default."""
    return BaCOUnClassifier(random_state=0).fit(*table)


@pytest.fixture
def quick_networks(monkeypatch):
    """The networks that the default takes where they are better, but small ones."""
    monkeypatch.setitem(KINDS, "auto", partial(TabularFeatures, **QUICK))


# --- which steps ----------------------------------------------------------------------------------


def test_embeddings_are_learned_by_their_directions(model):
    assert isinstance(model.boundary_, DirectionShell)
    assert isinstance(model.features_, LinearFeatures)
    assert list(model.doubt_.views) == ["gaussian", "length", "energy"]
    assert model.posterior_.prior_scale_ == model.features_.prior_scale_


def test_networks_learn_what_trees_tell_better_apart(quick_networks):
    rng = np.random.default_rng(0)
    distance = rng.uniform(-2, 2, size=240)
    X = distance[:, None] + 0.1 * rng.normal(size=(240, 129))
    y = (np.abs(distance) > 1).astype(int)  # no line tells the middle from both ends
    model = wide().fit(X, y)
    assert isinstance(model.features_, TabularFeatures)
    assert isinstance(model.boundary_, CompactShell)
    assert model.score(X, y) > 0.9
    assert wide(features="linear").fit(X, y).score(X, y) < 0.8


@pytest.mark.parametrize(
    ("n_columns", "settings", "is_wide"),
    [
        (128, {}, False),
        (129, {}, True),
        (129, {"categorical_features": [0]}, False),
        (130, {"categorical_features": [0]}, True),
    ],
)
def test_a_table_is_wide_with_more_than_128_numbers(n_columns, settings, is_wide):
    X, y = vectors(30, n_columns)
    X[:, 0] = y
    fit = Fit(wide(**settings), X, y)
    shell = fit.steps[0]._part("shell") if settings else fit.steps[0]
    assert fit.is_wide == is_wide
    assert isinstance(shell, DirectionShell if is_wide else CompactShell)


def test_images_are_no_wide_tables():
    X, y = vectors(30, 144)
    fit = Fit(wide(), X.reshape(30, 12, 12), y)
    assert not fit.is_wide
    assert isinstance(fit.steps[0], CompactShell)


def test_what_is_asked_for_is_taken(table):
    X, y = table
    networks = TabularFeatures(**QUICK)
    assert isinstance(wide(features=networks).fit(X, y).features_, TabularFeatures)
    assert wide(boundary=None).fit(X, y).boundary_ is None
    few = wide(boundary="direction-shell", features="linear").fit(X[:, :8], y)
    assert isinstance(few.boundary_, DirectionShell)
    assert isinstance(few.features_, LinearFeatures)


def test_the_forest_to_compare_with_counts_rows_by_their_weights(table):
    """A row of weight 9 is nine rows, also where they decide between lines and networks."""
    X, y = vectors(gap=0.15)
    weights = np.where(y == 0, 9.0, 1.0)
    rows = np.arange(len(X)).repeat(weights.astype(int))
    weighted, copied = Fit(wide(), X, y, weights), Fit(wide(standardize=False), X[rows], y[rows])
    copied.points = weighted.points[torch.from_numpy(rows)]  # in the same units
    expected = copied._accuracy_of_forest(None)
    found = weighted._accuracy_of_forest(torch.from_numpy(weights))
    assert found == pytest.approx(expected)
    assert found > weighted._accuracy_of_forest(None) + 0.1


# --- what it answers ------------------------------------------------------------------------------


def test_new_rows_are_classified_and_familiar(model):
    X, y = vectors(600, seed=1)
    answers = model.evaluate(X)
    assert model.score(X, y) > 0.95
    assert answers.ood_probability.mean() < 0.03
    assert (answers.rows_like_this > 1).mean() > 0.9


def test_rows_of_another_direction_are_less_familiar(model):
    X, y = vectors(600, n_classes=6, seed=1, gap=0.8)  # three classes that fit did not see
    score = model.ood_score(X)
    known, unknown = score[y < 3], score[y >= 3]
    assert (unknown[:, None] > known).mean() > 0.9


@pytest.mark.parametrize("factor", [-10, 0.1, 10])
def test_rows_of_another_length_are_unfamiliar(model, factor):
    X, _ = vectors(seed=1)
    usual, scaled = model.evaluate(X), model.evaluate(factor * X)
    assert scaled.ood_score.min() > np.quantile(usual.ood_score, 0.95)
    assert scaled.ood_probability.mean() > 0.5 > 10 * usual.ood_probability.mean()
    assert scaled.total.mean() > 5 * usual.total.mean()


def test_far_rows_are_unknown_in_every_direction(model):
    X, _ = vectors(100, seed=1)
    away = np.random.default_rng(0).normal(size=X.shape)
    seen = [model.evaluate(X + distance * away) for distance in (0, 10, 1e3, 1e6, 1e30)]
    for near, far in pairwise(seen[:4]):
        assert far.ood_score.mean() > near.ood_score.mean() + 1
    for far in seen[3:]:
        assert far.ood_probability.min() > 0.9
        assert far.total.min() > 0.999 * np.log(3)
        assert far.epistemic.min() > 0.99 * far.total.min()
        np.testing.assert_allclose(far.probabilities.sum(axis=1), 1, atol=1e-6)


def test_uncertainty_keeps_its_laws(model, table):
    X = np.concatenate([factor * table[0] for factor in (0, 1, 3, 1e5)])
    parts = model.uncertainty(X, split=True)
    np.testing.assert_allclose(parts.aleatoric + parts.model + parts.ood, parts.total, atol=1e-9)
    assert min(part.min() for part in vars(parts).values()) >= 0
    assert parts.total.max() <= np.log(3) + 1e-9
    draws = model.predict_proba_samples(X)
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(X), atol=0.01)


def test_order_and_company_change_no_bit(model, table):
    X = table[0]
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X[::-1])[::-1], expected)
    np.testing.assert_array_equal(model.predict_proba(X[7:9]), expected[7:9])
    assert np.abs(model.evaluate(X).probabilities - expected).max() < 1e-4


@pytest.mark.parametrize("n_classes", [2, 30])
def test_two_classes_and_many_of_few_rows_are_learned(n_classes):
    model = wide().fit(*vectors(max(60, 3 * n_classes), 200, n_classes, gap=1.0))
    assert isinstance(model.features_, LinearFeatures)
    X, y = vectors(300, 200, n_classes, seed=1, gap=1.0)
    assert model.score(X, y) > 0.9
    assert model.uncertainty(X).total.max() <= np.log(n_classes) + 1e-9
    assert model.ood_probability(10 * X).mean() > 0.3 > model.ood_probability(X).mean()


def test_the_fewest_rows_there_can_be_are_enough():
    X, y = vectors(2, 150, 2)
    answers = wide().fit(X, y).evaluate(np.concatenate([X, -X, 100 * X]))
    assert answers.probabilities.argmax(axis=1)[:2].tolist() == [0, 1]
    assert all(np.isfinite(part).all() for part in (answers.total, answers.ood_score))


UNUSUAL = {
    "whole numbers": lambda X: np.round(3 * X),
    "constant columns": lambda X: np.concatenate([X, np.full((len(X), 5), 7.0)], axis=1),
    "columns twice": lambda X: np.concatenate([X, X[:, :20]], axis=1),
    "many zeros": lambda X: np.where(X > 1, X, 0.0),
    "one large column": lambda X: X * np.r_[1e6, np.ones(X.shape[1] - 1)],
}


@pytest.mark.parametrize("change", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_columns_are_no_obstacle(change):
    (X, y), (new, labels) = vectors(), vectors(300, seed=1)
    model = wide().fit(change(X), y)
    assert model.score(change(new), labels) > 0.9
    assert model.ood_probability(change(new)).mean() < 0.06
    assert (model.ood_score(change(10 * new)) > model.ood_score(change(new))).mean() > 0.95


def test_a_unit_of_all_columns_changes_nothing(table):
    X, y = table
    one, other = wide().fit(X, y), wide().fit(X * 2.0**20, y)
    np.testing.assert_array_equal(other.predict_proba(X * 2.0**20), one.predict_proba(X))
    np.testing.assert_array_equal(other.ood_score(X * 2.0**20), one.ood_score(X))


def test_columns_of_other_units_count_alike(table):
    """Then each is divided by its own spread, whatever the units are."""
    X, y = table
    rng = np.random.default_rng(0)
    units, others = (2.0 ** rng.integers(-30, 30, size=X.shape[1]) for _ in range(2))
    one, other = wide().fit(X * units, y), wide().fit(X * others, y)
    np.testing.assert_allclose(one.scale_, (X * units).std(axis=0))
    np.testing.assert_array_equal(other.predict_proba(X * others), one.predict_proba(X * units))
    np.testing.assert_array_equal(other.ood_score(X * others), one.ood_score(X * units))


def test_principal_components_keep_their_shares_of_the_variance():
    """Those of small variance are noise here, which would drown the others if all counted alike."""
    fade = np.r_[np.ones(10), np.full(190, 0.05)]
    (X, y), (new, labels) = vectors(150, 200, gap=0.6), vectors(600, 200, seed=1, gap=0.6)
    X, new = (np.where(fade == 1, rows, rng_noise(rows)) * fade for rows in (X, new))
    model = wide().fit(X, y)
    np.testing.assert_allclose(model.scale_, np.sqrt(X.var(axis=0).mean()))
    alike = wide().fit(X / X.std(axis=0), y)
    assert model.score(new, labels) > alike.score(new / X.std(axis=0), labels) + 0.05


def test_repeated_rows_are_not_taken_for_new_ones():
    X, y = vectors(60)
    once, often = wide().fit(X, y), wide().fit(X.repeat(5, axis=0), y.repeat(5))
    new, labels = vectors(600, seed=1)
    assert often.score(new, labels) > 0.8
    assert often.features_.accuracy_ == pytest.approx(once.features_.accuracy_, abs=0.1)
    assert often.ood_probability(new).mean() < 0.05


# --- with other settings --------------------------------------------------------------------------


def test_categories_stand_beside_directions(table):
    X, y = table
    rng = np.random.default_rng(0)
    mixed = np.column_stack([(y + (rng.random(len(y)) < 0.1)) % 3, X, rng.integers(0, 4, len(y))])
    model = wide(categorical_features=[0, 141]).fit(mixed, y)
    assert isinstance(model.boundary_, MixedShell)
    assert isinstance(model.boundary_.shell_, DirectionShell)
    assert isinstance(model.features_, LinearFeatures)
    assert list(model.doubt_.views) == ["gaussian", "length", "categories", "energy"]
    unseen = mixed.copy()
    unseen[:, 0] = 9
    far = np.column_stack([mixed[:, 0], 10 * X, mixed[:, 141]])
    usual = np.quantile(model.ood_score(mixed), 0.9)
    for changed in (unseen, far):
        assert np.isfinite(model.predict_proba(changed)).all()
        assert (model.ood_score(changed) > usual).mean() > 0.95


def test_weights_and_classes_of_weight_are_honored():
    X, y = vectors(gap=0.1)
    shares = [
        (model.predict(X) == 0).mean()
        for model in (
            wide().fit(X, y),
            wide().fit(X, y, sample_weight=np.where(y == 0, 9.0, 1.0)),
            wide(class_weight={0: 9.0}).fit(X, y),
        )
    ]
    assert shares[1] > shares[0] + 0.05
    assert shares[2] == shares[1]


def test_rows_of_weight_zero_and_outliers_are_left_out(table):
    X, y = table
    spoiled = np.concatenate([X, np.full((3, 140), 50.0)])
    labels = np.append(y, [0, 1, 2])
    weights = np.append(np.ones(len(X)), np.zeros(3))
    expected = wide().fit(X, y, sample_weight=np.ones(len(X))).predict_proba(X)
    found = wide().fit(spoiled, labels, sample_weight=weights).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_an_update_learns_from_more_rows_around_the_same_logits():
    X, y = vectors(600, gap=0.25)
    model = wide().fit(X[:90], y[:90])
    new, labels = vectors(600, seed=1, gap=0.25)
    before, score = model.score(new, labels), model.posterior_.prior_scale_
    weights = model.features_.weights_.clone()
    model.update(X, y)
    assert torch.equal(model.features_.weights_, weights)
    assert model.posterior_.prior_scale_ == score
    assert model.score(new, labels) >= before - 0.02
    same = wide().fit(X[:90], y[:90])
    np.testing.assert_array_equal(
        same.update(X[:90], y[:90]).predict_proba(X), same.update(X[:90], y[:90]).predict_proba(X)
    )


@pytest.mark.parametrize("settings", [{}, {"ood_prior": 0}, {"boundary": None}])
def test_a_loaded_model_answers_to_the_bit(table, tmp_path, settings):
    X, y = table
    model = wide(**settings).fit(X, y)
    model.save(tmp_path / "model")
    again = BaCOUnClassifier.load(tmp_path / "model")
    rows = np.concatenate([X, 10 * X, vectors(seed=1)[0]])
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(again.ood_score(rows), model.ood_score(rows))
    assert vars(again.uncertainty(rows, split=True)).keys() >= {"ood"}
    np.testing.assert_array_equal(
        again.update(X, y).predict_proba(rows), model.update(X, y).predict_proba(rows)
    )


def test_a_fit_resumes_from_a_checkpoint_with_the_same_features(table, tmp_path, monkeypatch):
    X, y = table
    expected = wide().fit(X, y, checkpoint=tmp_path / "a").predict_proba(X)
    monkeypatch.setattr(LinearFeatures, "fit", lambda *_: pytest.fail("fitted again"))
    monkeypatch.setattr(DirectionShell, "fit", lambda *_: pytest.fail("fitted again"))
    resumed = wide().fit(X, y, checkpoint=tmp_path / "a")
    np.testing.assert_array_equal(resumed.predict_proba(X), expected)


def test_one_seed_gives_one_model_and_leaves_torchs_stream_alone(table, model):
    before = torch.get_rng_state()
    again = BaCOUnClassifier(random_state=0).fit(*table)
    np.testing.assert_array_equal(again.predict_proba(table[0]), model.predict_proba(table[0]))
    assert torch.equal(torch.get_rng_state(), before)


def test_regions_of_a_network_that_there_is_not_are_refused(model, table):
    with pytest.raises(ValueError, match="must have learned a boundary class"):
        model.region_proba(table[0])
