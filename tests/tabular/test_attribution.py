"""Why a row is deferred: columns that were spoiled are named, and what they should have been."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator

from bacoun.boundary import FlowShell
from bacoun.tabular import TableModel
from bacoun.tabular.explanation import Explanation, Pull, Surprise

N = 600
ALL = ["x", "y", "z", "u", "v", "dose", "seen", "ward"]


def make_table(n_rows=N, seed=0):
    """y = 2 x and z = -x; u and v tell a from b, ward tells c from both."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    x = rng.normal(0, 1, n_rows)
    side = np.array([2, -2, 0])[kind]
    dose = rng.normal(0, 1, n_rows)
    dose[rng.random(n_rows) < 0.2] = np.nan
    return pd.DataFrame(
        {
            "x": x,
            "y": 2 * x + rng.normal(0, 0.05, n_rows),
            "z": -x + rng.normal(0, 0.05, n_rows),
            "u": rng.normal(side, 1.5),
            "v": rng.normal(side, 1.5),
            "dose": dose,
            "seen": pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 200, n_rows), "D"),
            "ward": np.where(kind == 2, "C", rng.choice(["A", "B"], n_rows)),
            "site": "north",
            "label": np.array(["a", "b", "c"])[kind],
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def model(fast):
    flows = FlowShell(epochs=40, blocks=4, hidden=32, learning_rate=5e-3)
    return TableModel.fit(TABLE, "label", classifier=fast(boundary=flows))


@pytest.fixture(scope="module")
def ordinary(model):
    """New rows that the model accepts."""
    new = make_table(200, 1)
    accepted = new[(model.score(new)["decision"] == "accept").to_numpy()]
    assert len(accepted) > 40
    return accepted.head(40)


def explained(model, rows):
    """Explanations of rows that should all be unfamiliar."""
    found = model.explain(rows)
    assert [why.reason for why in found] == ["unfamiliar"] * len(rows)
    return found


def named(why):
    """Columns that the text about a row names."""
    return [part.split(" = ")[0] for part in str(why).split("; ") if " = " in part]


# --- unfamiliar rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "by"), [("u", 20), ("dose", -9), ("x", 5), ("seen", pd.Timedelta(days=900))]
)
def test_a_moved_column_is_named_first_and_one_repair_suffices(model, ordinary, column, by):
    rows = ordinary.assign(dose=ordinary["dose"].fillna(0.0))
    found = explained(model, rows.assign(**{column: rows[column] + by}))
    first = [why.surprises[0].column == column for why in found]
    assert np.mean(first) > 0.95
    assert np.mean([why.n_repairs == 1 for why in found]) > 0.9
    for why in found:
        assert sorted(each.column for each in why.surprises) == sorted(ALL)
        assert all(each.nats >= 0 for each in why.surprises)


def test_two_moved_columns_need_two_repairs(model, ordinary):
    found = explained(model, ordinary.assign(u=ordinary["u"] + 20, dose=-9.0))
    both = [{each.column for each in why.surprises[:2]} == {"u", "dose"} for why in found]
    assert np.mean(both) > 0.95
    assert np.mean([why.n_repairs == 2 for why in found]) > 0.9
    assert np.mean([set(named(why)) == {"u", "dose"} for why in found]) > 0.9


def test_four_moved_columns_are_more_than_three_repairs(model, ordinary):
    far = {"u": 30.0, "v": -30.0, "dose": 15.0, "z": 30.0}
    for why in explained(model, ordinary.assign(**far)):
        assert why.n_repairs == 0
        assert {each.column for each in why.surprises[:3]} < far.keys()


def test_the_expected_value_follows_a_linear_relation(model, ordinary):
    away = np.where(ordinary["y"] > 0, -2.5, 2.5)
    found = explained(model, ordinary.assign(y=ordinary["y"] + away))
    right = [
        abs(float(why.surprises[0].expected) - 2 * x) < 0.5
        for why, x in zip(found, ordinary["x"], strict=True)
        if why.surprises[0].column == "y"
    ]
    assert len(right) > 0.9 * len(found)
    assert np.mean(right) > 0.9


def test_the_value_is_shown_as_it_is_in_the_row(model, ordinary):
    (why,) = explained(model, ordinary.head(1).assign(u=12.5))
    assert why.surprises[0].column == "u"
    assert why.surprises[0].value == "12.5"
    assert -8 < float(why.surprises[0].expected) < 8


def test_a_date_is_shown_as_a_date(model, ordinary):
    (why,) = explained(model, ordinary.head(1).assign(seen=pd.Timestamp("2024-02-29")))
    assert why.surprises[0].column == "seen"
    assert why.surprises[0].value == "2024-02-29"
    assert "2021-01-01" <= why.surprises[0].expected <= "2021-07-19"
    assert "seen = 2024-02-29 (" in str(why)


def test_a_gap_is_shown_as_missing(model, ordinary):
    (why,) = explained(model, ordinary.head(1).assign(dose=np.nan, u=40.0))
    shown = {each.column: each.value for each in why.surprises}
    assert shown["dose"] == "missing"
    assert why.unseen == () or {each.column for each in why.unseen} == {"u"}


# --- what training did not have -------------------------------------------------------------------


def test_an_unseen_category_is_named_once(model, ordinary):
    for why in explained(model, ordinary.assign(ward="Q")):
        assert [each.column for each in why.unseen] == ["ward"]
        assert str(why).startswith("ward = Q (not seen in training")
        assert str(why).count("ward") == 1


@pytest.mark.parametrize("change", [{"site": "south"}, {"v": np.nan}], ids=["constant", "gap"])
def test_what_is_unseen_blames_no_ordinary_column(model, ordinary, change):
    (column,) = change
    rows = ordinary.dropna().assign(**change)
    found = explained(model, rows)
    assert all([each.column for each in why.unseen] == [column] for why in found)
    alone = [named(why) == [column] and "; " not in str(why) for why in found]
    assert np.mean(alone) > 0.9
    assert np.mean([why.surprises == () for why in found]) > 0.9


def test_what_is_unseen_does_not_hide_what_else_is_wrong(model, ordinary):
    found = explained(model, ordinary.assign(site="south", u=25.0))
    for why in found:
        assert {"site", "u"} <= set(named(why))
        assert why.surprises[0].column == "u"
    assert np.mean([why.n_repairs == 1 for why in found]) > 0.8


def test_an_empty_row_is_explained(model, ordinary):
    empty = ordinary.head(2).copy()
    empty[ALL] = [np.nan] * 6 + [pd.NaT, None]
    for why in explained(model, empty):
        assert len(why.unseen) == 1 + len(ALL) - 1  # their number, and all but dose
        assert "8 " in str(why) or "= 8" in str(why)
        assert "5 more not seen in training" in str(why)
        assert all(each.value == "missing" for each in why.surprises)


# --- ambiguous and accepted rows ------------------------------------------------------------------


def test_an_ambiguous_row_names_its_classes_and_the_columns_between_them(model, ordinary):
    torn = ordinary.assign(u=1.5, v=-1.5, ward="A").head(10)
    found = [why for why in model.explain(torn) if why.reason == "ambiguous"]
    assert len(found) >= 5
    for why in found:
        (first, p), (second, q) = why.classes
        assert {first, second} == {"a", "b"}
        assert p >= q > 0.01
        strongest = {each.column: each.label for each in why.pulls[:2]}
        assert strongest == {"u": "a", "v": "b"}
        assert sorted(each.column for each in why.pulls) == sorted(ALL)
        assert str(why).startswith(f"{first} ({p:.2f}) or {second} ({q:.2f}); ")
        assert "u = 1.5 speaks for a" in str(why)
        assert "v = -1.5 speaks for b" in str(why)
        assert why.surprises == why.unseen == ()


def test_an_accepted_row_has_an_empty_explanation(model, ordinary):
    for why in model.explain(ordinary):
        assert why == Explanation(reason="")
        assert str(why) == ""


def test_because_is_what_explain_says(model):
    rows = make_table(60, 2)
    rows.loc[::5, "u"] = 30.0
    rows.loc[1::5, "ward"] = "Q"
    scored, found = model.score(rows, because=True), model.explain(rows)
    assert scored["because"].tolist() == list(map(str, found))
    assert scored["reason"].tolist() == [why.reason for why in found]
    assert set(scored["reason"]) == {"", "unfamiliar", "ambiguous"}


def test_a_row_is_scored_once_and_explained_from_that(model, monkeypatch):
    rows = make_table(40, 5)
    rows.loc[::2, "u"] = 30.0
    rows.loc[1::4, "ward"] = "Q"
    evaluate, seen = model.classifier.evaluate, []
    monkeypatch.setattr(
        model.classifier, "evaluate", lambda X: seen.append(X.copy()) or evaluate(X), raising=False
    )
    scored = model.score(rows, because=True)
    assert (scored["reason"] == "unfamiliar").sum() >= 30
    first, later = seen[0], np.concatenate(seen[1:])
    assert len(first) == len(rows)
    unfamiliar = first[(scored["reason"] == "unfamiliar").to_numpy()]
    again = [(later == row).all(axis=1).any() for row in unfamiliar]
    assert not any(again)


def test_a_row_is_explained_by_itself(model):
    rows = make_table(12, 3)
    rows.loc[::3, "u"] = 30.0
    for why, index in zip(model.explain(rows), rows.index, strict=True):
        (alone,) = model.explain(rows.loc[[index]])
        assert alone.reason == why.reason
        assert [each.column for each in alone.surprises[: alone.n_repairs]] == [
            each.column for each in why.surprises[: why.n_repairs]
        ]


def test_a_saved_model_explains_the_same(model, ordinary, tmp_path):
    model.save(tmp_path / "model")
    again = TableModel.load(tmp_path / "model")
    rows = pd.concat([ordinary.assign(u=30.0).head(5), ordinary.assign(ward="Q").head(5)])
    assert again.explain(rows) == model.explain(rows)


def test_a_table_without_rows_is_refused(model):
    with pytest.raises(ValueError, match="0 sample"):
        model.explain(TABLE.head(0))


# --- words ----------------------------------------------------------------------------------------


def test_words():
    surprises = (Surprise("age", "7", "40", 12.345), Surprise("ward", "A", "B", 0.1))
    one = Explanation(reason="unfamiliar", surprises=surprises, n_repairs=1)
    assert str(one) == "age = 7 (expected 40, 12.3 nats)"
    none = Explanation(reason="unfamiliar", surprises=surprises)
    assert str(none) == (
        "age = 7 (expected 40, 12.3 nats); ward = A (expected B, 0.1 nats); no 3 columns explain it"
    )
    pulls = tuple(Pull(column, "1", "ill", 0.5) for column in "abcd")
    both = Explanation(reason="ambiguous", classes=(("ill", 0.504), ("well", 0.496)), pulls=pulls)
    spoken = "; ".join(f"{column} = 1 speaks for ill" for column in "abc")
    assert str(both) == f"ill (0.50) or well (0.50); {spoken}"


class OwnBoundary(BaseEstimator):
    """A Gaussian, with no more than the interface asks for."""

    def fit(self, points, labels, context):
        self.n_inputs_ = points.shape[1]
        return self

    def sample(self, n_points, *, generator):
        return 4 * torch.randn(n_points, self.n_inputs_, generator=generator)

    def log_prob(self, points):
        return -0.5 * points.square().sum(dim=1)


def test_a_boundary_of_ones_own_explains_too(fast):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    table["y"] = (table["a"] > 0).astype(int)
    model = TableModel.fit(table, "y", classifier=fast(boundary=OwnBoundary()))
    (why,) = model.explain(pd.DataFrame({"a": [0.1], "b": [40.0], "c": [0.2]}))
    assert why.surprises[0].column == "b"
