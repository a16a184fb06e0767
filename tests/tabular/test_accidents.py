"""What happens to tables in real life: nothing that a model cannot know is accepted silently."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, make_classification

from bacoun.tabular import TableModel
from bacoun.tabular.encoding import find_ids

CANCER = load_breast_cancer(as_frame=True).frame


def fitted(frame, fast, **options):
    return TableModel.fit(frame, "target", classifier=fast(), **options)


def reasons(model, frame):
    return model.score(frame)["reason"]


def noisy(n_rows, seed):
    """Two classes whose labels are wrong in a tenth of the rows."""
    X, y = make_classification(n_rows, 5, flip_y=0.2, class_sep=2.0, random_state=seed)
    return pd.DataFrame(X, columns=list("abcde")).assign(target=y)


# --- gaps -----------------------------------------------------------------------------------------


def test_a_row_without_any_value_is_unfamiliar(fast):
    with_gaps = CANCER.copy()
    with_gaps.iloc[::7, 0] = np.nan
    model = fitted(with_gaps, fast, impute=True)
    empty = pd.DataFrame(np.nan, index=range(3), columns=CANCER.columns[:-1])
    assert set(reasons(model, empty)) == {"unfamiliar"}


def test_a_gap_where_training_had_none_is_unfamiliar(fast):
    with_gaps = CANCER.copy()
    with_gaps.iloc[::7, 0] = np.nan
    model = fitted(with_gaps, fast, impute=True)
    known = with_gaps.drop(columns="target").head(40)
    assert (reasons(model, known) == "unfamiliar").mean() < 0.2
    assert set(reasons(model, known.assign(**{"mean texture": np.nan}))) == {"unfamiliar"}


def test_more_gaps_than_in_any_training_row_are_unfamiliar(fast):
    with_gaps = CANCER.copy()
    for number in range(30):  # every column has gaps, and no row more than one
        with_gaps.iloc[number::60, number] = np.nan
    model = fitted(with_gaps, fast, impute=True)
    row = with_gaps.drop(columns="target").head(1)
    for n_gaps in (2, 29, 30):
        spoiled = row.copy()
        spoiled.iloc[0, :n_gaps] = np.nan
        assert list(reasons(model, spoiled)) == ["unfamiliar"]


# --- columns --------------------------------------------------------------------------------------


def test_unseen_categories_in_calibration_do_not_switch_unfamiliar_off(fast):
    rng = np.random.default_rng(0)
    names = CANCER.assign(ward=rng.integers(0, 250, len(CANCER)).astype(str) + "w")
    model = fitted(names, fast)
    assert model.facts["unseen_in_calibration"] > 0.05 * model.facts["calibration_rows"]
    known = names.drop(columns="target")
    far = known.assign(**{"mean radius": 300 * known["mean radius"].std()})
    assert set(reasons(model, far)) == {"unfamiliar"}


@pytest.mark.parametrize(("value", "changed"), [("mg", "kg"), (1, 1000), (True, False)])
def test_a_constant_column_that_changes_is_unfamiliar(fast, value, changed):
    model = fitted(CANCER.assign(unit=value), fast)
    known = CANCER.drop(columns="target").head(20)
    same = reasons(model, known.assign(unit=value))
    pd.testing.assert_series_equal(same, reasons(model, known))  # it may also be left out
    pd.testing.assert_series_equal(same, reasons(model, known.assign(unit=str(value).lower())))
    assert set(reasons(model, known.assign(unit=changed))) == {"unfamiliar"}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("patient_id", [*range(5, 305, 3)], True),
        ("customerId", [*range(500, 0, -5)], True),
        ("Unnamed: 0", [*np.cumsum(np.arange(1, 101) % 7 + 1)], True),
        ("price", [*np.cumsum(np.arange(1, 101) % 7 + 1)], False),
        ("acid", [*np.random.default_rng(0).permutation(500)[:100]], False),
        ("weight in g", [*np.random.default_rng(0).permutation(5000)[:100]], False),
        ("visit id", [*range(50)] * 2, False),
    ],
)
def test_integers_are_an_id_if_unique_and_called_so(name, values, expected):
    table = pd.DataFrame({name: values, "x": 1.5})
    assert (name in find_ids(table)) == expected


# --- calibration ----------------------------------------------------------------------------------


def test_copies_of_a_row_do_not_void_the_error_bound(fast):
    rows = noisy(2300, 0)
    frame, fresh = pd.concat([rows.head(300)] * 5, ignore_index=True), rows.tail(2000)
    model = fitted(frame, fast)
    assert model.facts["copies"] == 1200
    assert model.facts["calibration_rows"] < 100  # one of each
    scored = model.score(fresh.drop(columns="target"))
    accepted = scored["decision"] == "accept"
    wrong = (scored["prediction"] != fresh["target"])[accepted].mean()
    bound = 1.0 if model.rule.acceptance is None else model.rule.acceptance.max_error
    assert accepted.mean() > 0.1
    assert 0.05 < wrong <= bound


def test_copies_are_found_though_each_has_an_id_of_its_own(fast):
    frame = pd.concat([noisy(100, 0)] * 3, ignore_index=True)
    frame["id"] = range(300)
    frame["sample"] = [f"s{number}" for number in range(300)]
    assert fitted(frame, fast).facts["copies"] == 200


def test_rows_of_a_group_stay_on_one_side_and_its_column_is_no_input(fast):
    rng = np.random.default_rng(0)
    people = noisy(120, 1)
    visits = pd.concat([people] * 4, ignore_index=True)
    visits[list("abcde")] += rng.normal(scale=0.01, size=(480, 5))
    visits["person"] = [*range(120)] * 4
    model = fitted(visits, fast, group="person")
    assert "person" not in model.encoder.feature_names_
    assert model.facts["copies"] == 360
    assert model.facts["calibration_rows"] == len(model.calibration["total"]) <= 30
    with pytest.raises(ValueError, match="group must be a column of the table; 'nobody' is not"):
        fitted(visits, fast, group="nobody")


def test_without_evidence_for_a_bound_what_is_likely_wrong_is_deferred(fast, tmp_path):
    rows = noisy(1120, 2)
    model = fitted(rows.head(120), fast)
    assert model.rule.acceptance is None
    assert "No error bound is guaranteed" in model.rule.summary()
    assert "wrong with more than 20 % probability is always deferred" in model.rule.summary()
    assert "Not enough evidence that at most 20 %" in model.facts["error_bound"]
    scored = model.score(rows.tail(1000).drop(columns="target"))
    accepted = scored[scored["decision"] == "accept"]
    assert accepted[["p_0", "p_1"]].max(axis=1).min() >= 0.8 - 1e-3
    assert (scored["reason"] == "ambiguous").any()
    model.save(tmp_path / "model")
    assert TableModel.load(tmp_path / "model").rule == model.rule


def test_the_tightest_bound_that_there_is_evidence_for_is_given(fast):
    rows = noisy(4000, 4)
    model = fitted(rows, fast)
    assert model.rule.acceptance.max_error in (0.1, 0.2)
    assert model.rule.acceptance.statement == model.facts["error_bound"]
    assert "wrong with more than 20 % probability is always deferred" in model.rule.summary()
