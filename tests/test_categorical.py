"""Columns of codes: learned whatever their order, unusual if unseen, refused if they are none."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone

from bacoun import BaCOUnClassifier
from bacoun.boundary import CompactShell, FlowShell, MixedShell
from bacoun.features import LearnedFeatures
from bacoun.files.checkpoint import Checkpoint

RNG = np.random.default_rng(0)
THOROUGH = {
    "features": LearnedFeatures(hidden=(32, 32), epochs=60, batch_size=64, learning_rate=1e-2)
}


def xor_table(n_rows=300, seed=0):
    """Two categories of three levels, of which one is odd, and two numbers that say nothing."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (n_rows, 2))
    numbers = rng.normal(50, 9, (n_rows, 2))
    y = (codes[:, 0] % 2) ^ (codes[:, 1] % 2)
    return np.column_stack([codes[:, 0], numbers[:, 0], codes[:, 1], numbers[:, 1]]), y


@pytest.fixture(scope="module")
def table():
    return xor_table()


@pytest.fixture(scope="module")
def model(fast, table):
    return fast(categorical_features=[0, 2], **THOROUGH).fit(*table)


def answers(model, X):
    found = model.evaluate(X)
    return np.column_stack([found.probabilities, found.total, found.ood_score, found.log_density])


def test_an_exclusive_or_of_categories_is_learned(model):
    assert model.score(*xor_table(500, 1)) > 0.95
    assert model.n_categories_ == [3, 0, 3, 0]
    assert isinstance(model.boundary_, MixedShell)


def test_probabilities_sum_to_one_and_uncertainty_keeps_its_laws(model):
    X, _ = xor_table(200, 2)
    X[:20, 0] = 9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    parts = model.uncertainty(X)
    np.testing.assert_allclose(parts.aleatoric + parts.epistemic, parts.total, atol=1e-6)
    assert (parts.epistemic >= 0).all()
    assert (parts.total <= np.log(2) + 1e-6).all()


@pytest.mark.parametrize("code", [3, 77, -1, 0.5, 1e9])
def test_an_unseen_code_is_no_error_but_unfamiliar(model, code):
    X, _ = xor_table(200, 3)
    changed = X.copy()
    changed[:, 2] = code
    before, after = model.evaluate(X), model.evaluate(changed)
    assert (after.ood_score > before.ood_score.max()).mean() > 0.95
    assert after.total.mean() > before.total.mean() + 0.1
    assert (after.log_density < before.log_density).all()
    assert np.isfinite(answers(model, changed)).all()


def test_all_unseen_codes_are_alike(model):
    X, _ = xor_table(20, 4)
    found = []
    for code in (3, 77, -1, 0.5):
        X[:, 0] = code
        found.append(answers(model, X))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-5)


def test_the_order_of_the_codes_does_not_matter(fast):
    X, y = xor_table()
    new, truth = xor_table(500, 1)
    scores = []
    for order in ([1, 0, 2], [2, 0, 1]):
        named, other = X.copy(), new.copy()
        for column in (0, 2):
            named[:, column] = np.array(order)[X[:, column].astype(int)]
            other[:, column] = np.array(order)[new[:, column].astype(int)]
        model = fast(categorical_features=[0, 2], **THOROUGH).fit(named, y)
        scores.append(model.score(other, truth))
    assert min(scores) > 0.95


def test_only_numbers_are_standardized(model, table):
    X, _ = table
    assert model.mean_[[0, 2]].tolist() == [0, 0]
    assert model.scale_[[0, 2]].tolist() == [1, 1]
    np.testing.assert_allclose(model.mean_[[1, 3]], X[:, [1, 3]].mean(axis=0))
    np.testing.assert_allclose(model.scale_[[1, 3]], X[:, [1, 3]].std(axis=0))


def test_a_table_of_categories_alone(fast, table):
    X, y = table
    model = fast(categorical_features=[0, 1], **THOROUGH).fit(X[:, [0, 2]], y)
    assert model.score(X[:, [0, 2]], y) > 0.95
    assert list(model.doubt_.views) == ["categories"]
    usual, unseen = model.ood_score([[0, 1], [9, 9]])
    assert unseen > usual + 1


@pytest.mark.parametrize("boundary", [None, "flow-shell"])
def test_categories_work_with_and_without_a_boundary(fast, table, boundary):
    shell = None if boundary is None else FlowShell(epochs=2, blocks=1, hidden=8)
    model = fast(categorical_features=[0, 2], boundary=shell, ood_prior=0.0, **THOROUGH)
    model.fit(*table)
    assert model.score(*table) > 0.95
    assert (model.boundary_ is None) == (boundary is None)


def test_features_may_be_named_by_an_array(fast, model, table):
    X, y = table
    again = fast(categorical_features=np.array([0, 2]), **THOROUGH).fit(X, y)
    np.testing.assert_array_equal(answers(again, X), answers(model, X))


def test_a_mixed_shell_without_categories_is_its_shell(fast, moons):
    shell = FlowShell(epochs=3, blocks=2, hidden=16)
    plain = fast(boundary=shell).fit(*moons)
    for none in (None, []):
        mixed = fast(boundary=MixedShell(shell=shell), categorical_features=none).fit(*moons)
        assert mixed.n_categories_ is None
        np.testing.assert_array_equal(answers(mixed, moons[0]), answers(plain, moons[0]))


# --- refusals -------------------------------------------------------------------------------------


def spoiled(value):
    X, y = xor_table(60)
    X[3, 0] = value
    return X, y


@pytest.mark.parametrize(
    ("columns", "data", "words"),
    [
        ([0, 4], xor_table(60), r"must be columns of X, from 0 to 3; got \[0, 4\]"),
        ([-1], xor_table(60), r"must be columns of X, from 0 to 3; got \[-1\]"),
        ([0], spoiled(0.5), "must hold whole numbers 0, 1, ..., at most 100000; got others"),
        ([0], spoiled(-1), "must hold whole numbers 0, 1, ..., at most 100000; got others"),
        ([0], spoiled(100_001), "must hold whole numbers 0, 1, ..., at most 100000; got others"),
        ([1], xor_table(60), "Encode them, for instance with sklearn.preprocessing.OrdinalEncoder"),
        (
            [0],
            (RNG.random((20, 4, 4)), np.arange(20) % 2),
            "categorical_features must be None for images",
        ),
    ],
    ids=["too large", "negative", "fraction", "code -1", "huge", "numbers", "images"],
)
def test_what_is_no_column_of_codes_is_named_in_one_sentence(fast, columns, data, words):
    with pytest.raises(ValueError, match=words) as info:
        fast(categorical_features=columns).fit(*data)
    assert "\n" not in str(info.value)


class Box(BaseEstimator):
    """A boundary of one's own, of numbers only."""

    def fit(self, points, labels, context):
        self.reach_ = 2 * points.abs().amax(dim=0)
        return self

    def sample(self, n_points, *, generator):
        return self.reach_ * torch.randn(n_points, len(self.reach_), generator=generator).sign()


def test_a_boundary_that_knows_no_categories_is_refused(fast, table):
    model = fast(categorical_features=[0, 2], boundary=Box(), ood_prior=0)
    with pytest.raises(ValueError, match="categorical_features; got Box") as info:
        model.fit(*table)
    assert "\n" not in str(info.value)


# --- settings, files, checkpoints -----------------------------------------------------------------


def test_settings_are_kept_and_cloned(fast):
    model = fast(categorical_features=[0, 2])
    assert model.get_params()["categorical_features"] == [0, 2]
    assert clone(model).categorical_features == [0, 2]


def test_fitting_changes_no_setting(model):
    assert isinstance(model.boundary, FlowShell)
    assert model.categorical_features == [0, 2]


@pytest.mark.parametrize(
    "boundary",
    [
        FlowShell(epochs=2, blocks=1, hidden=8),
        CompactShell(shell=FlowShell(epochs=2, blocks=1, hidden=8)),
        MixedShell(shell=CompactShell(shell=FlowShell(epochs=2, blocks=1, hidden=8))),
        None,
    ],
    ids=["flows", "compact", "mixed", "none"],
)
@pytest.mark.parametrize("columns", [[0, 1], [0]], ids=["categories alone", "mixed"])
def test_a_saved_model_is_the_same_and_can_be_fitted_again(
    fast, table, tmp_path, boundary, columns
):
    X, y = table[0][:150, [0, 2] if len(columns) == 2 else [0, 1, 3]], table[1][:150]
    settings = {"ood_prior": 0.0} if boundary is None else {}
    model = fast(categorical_features=columns, boundary=boundary, **settings).fit(X, y)
    model.save(tmp_path / "model")
    again = BaCOUnClassifier.load(tmp_path / "model")
    new = X.copy()
    new[:9, 0] = 7
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(again.ood_score(new), model.ood_score(new))
    assert again.n_categories_ == model.n_categories_
    assert list(again.categorical_features) == columns
    refitted = clone(again).fit(X, y)
    np.testing.assert_array_equal(refitted.predict_proba(new), model.predict_proba(new))


def test_a_checkpoint_changes_nothing_and_is_resumed(fast, tmp_path, monkeypatch):
    X, y = xor_table(150)
    settings = {
        "categorical_features": [0, 2],
        "features": LearnedFeatures(hidden=(8,), epochs=4, learning_rate=1e-2),
    }
    expected = answers(fast(**settings).fit(X, y), X)
    kept = fast(**settings).fit(X, y, checkpoint=Checkpoint(tmp_path / "a", every_seconds=0))
    np.testing.assert_array_equal(answers(kept, X), expected)
    monkeypatch.setattr(
        "bacoun.engine.training._one_epoch", lambda *args: pytest.fail("trained again")
    )
    resumed = fast(**settings).fit(X, y, checkpoint=tmp_path / "a")
    np.testing.assert_array_equal(answers(resumed, X), expected)


def test_a_checkpoint_of_other_categories_is_refused(fast, tmp_path):
    table = xor_table(60)
    settings = {"features": LearnedFeatures(hidden=(8,), epochs=2)}
    fast(categorical_features=[0, 2], **settings).fit(*table, checkpoint=tmp_path / "a")
    with pytest.raises(ValueError, match="settings"):
        fast(categorical_features=[0], **settings).fit(*table, checkpoint=tmp_path / "a")


def test_update_learns_new_rows(fast):
    X, y = xor_table(400)
    model = fast(categorical_features=[0, 2], **THOROUGH).fit(X[:300], y[:300])
    density, weights = model.log_density(X), model.posterior_.weights_
    model.update(X, y)
    np.testing.assert_array_equal(model.log_density(X), density)
    assert not torch.equal(model.posterior_.weights_, weights)
    assert model.score(*xor_table(300, 5)) > 0.9
    X[:5, 0] = 8  # a code that fit did not see
    np.testing.assert_allclose(model.update(X, y).predict_proba(X).sum(axis=1), 1)


def test_one_seed_gives_one_model(fast, model, table):
    X, y = table
    again = fast(categorical_features=[0, 2], **THOROUGH).fit(X, y)
    np.testing.assert_array_equal(answers(again, X), answers(model, X))
    other = fast(categorical_features=[0, 2], random_state=1).fit(X, y)
    assert not np.array_equal(other.log_density(X), model.log_density(X))
