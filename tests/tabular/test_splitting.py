"""Calibration on the latest rows, and what the model says about time."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.cli import main
from bacoun.features import LearnedFeatures
from bacoun.tabular import TableModel
from bacoun.tabular.splitting import are_events, find_groups, read_times, split, split_by_time

N = 400
QUICKER = {"features": LearnedFeatures(hidden=(16, 16), epochs=8, learning_rate=1e-2)}


def make_table(flips_at=None, seed=0):
    """Rows in random order; from the share `flips_at` of the time on, x means the opposite."""
    rng = np.random.default_rng(seed)
    day = rng.permutation(N)
    kind = rng.integers(0, 2, N)
    meant = kind if flips_at is None else np.where(day < flips_at * N, kind, 1 - kind)
    return pd.DataFrame(
        {
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(day, "D"),
            "x": rng.normal(4 * meant, 1),
            "y": rng.normal(0, 1, N),
            "ward": rng.choice(["A", "B", "C"], N),
            "label": np.where(kind == 1, "ill", "well"),
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def model(fast):
    return TableModel.fit(TABLE, "label", time="day", classifier=fast(**QUICKER))


# --- the split ------------------------------------------------------------------------------------


@given(
    n_rows=st.integers(40, 200),
    n_groups=st.integers(20, 300),
    n_times=st.integers(1, 300),
    share=st.floats(0.2, 0.5),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=60)
def test_held_out_rows_are_the_latest_and_of_groups_that_training_lacks(
    n_rows, n_groups, n_times, share, seed
):
    rng = np.random.default_rng(seed)
    groups, times = (
        rng.integers(0, n_groups, n_rows),
        rng.integers(0, n_times, n_rows).astype(float),
    )
    labels = rng.integers(0, 2, n_rows)
    try:
        train, held_out = split_by_time(labels, groups, times, share)
    except ValueError:  # with few groups, no row of a class may be left
        return
    assert times[train].max() <= times[held_out].min()
    assert not set(groups[train]) & set(groups[held_out])
    assert len(np.unique(groups[held_out])) == len(held_out)
    assert len(train) == n_rows - round(share * n_rows)
    assert set(labels[train]) == set(labels[held_out]) == set(labels)
    assert (np.diff(train) > 0).all()
    assert (np.diff(held_out) > 0).all()


def test_without_groups_all_of_the_latest_rows_are_held_out():
    times = np.random.default_rng(0).permutation(100).astype(float)
    train, held_out = split_by_time(np.arange(100) % 2, np.arange(100), times, 0.3)
    assert sorted(times[held_out]) == list(range(70, 100))
    assert sorted([*train, *held_out]) == list(range(100))


def test_of_a_new_group_the_first_row_is_held_out():
    times, groups = np.arange(12.0), np.array([0, 1, 2, 3, 4, 5, 6, 6, 7, 0, 7, 8])
    train, held_out = split_by_time(np.array([0, 1] * 6), groups, times, 0.5)
    assert train.tolist() == [0, 1, 2, 3, 4, 5]
    assert held_out.tolist() == [6, 8, 11]  # 9 is of a group that training has


def test_a_class_that_is_only_early_or_only_late_is_named():
    labels = (np.arange(100) >= 90).astype(int)
    for given_labels in (labels, 1 - labels[::-1]):
        with pytest.raises(ValueError, match="the latest 20% of the rows do not") as info:
            split_by_time(given_labels, np.arange(100), np.arange(100.0), 0.2)
        assert "\n" not in str(info.value)


# --- times ----------------------------------------------------------------------------------------


def test_times_are_days_or_numbers():
    table = pd.DataFrame(
        {
            "stamp": pd.to_datetime(["1970-01-02", "1970-01-03 12:00:00"], format="ISO8601"),
            "text": ["03.01.1970", "31.01.1970"],
            "number": [7, -2],
        }
    )
    assert read_times(table, "stamp").tolist() == [1.0, 2.5]
    assert read_times(table, "text").tolist() == [2.0, 30.0]
    assert read_times(table, "number").tolist() == [7.0, -2.0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"time": "when"}, "time must be a column of the table; 'when' is not"),
        ({"time": "ward"}, "the time column 'ward' must hold dates or numbers; it holds text"),
        ({"time": "gap"}, "the time column 'gap' must have no missing values"),
        ({"group": "who"}, "group must be a column of the table; 'who' is not"),
        ({"group": "gap"}, "the group column 'gap' must have no missing values"),
    ],
)
def test_a_column_that_is_no_time_is_named_in_one_sentence(fast, changed, words):
    table = TABLE.assign(gap=TABLE["x"].where(TABLE.index != 5))
    with pytest.raises(ValueError, match=re.escape(words)) as info:
        TableModel.fit(table, "label", classifier=fast(), **changed)
    assert "\n" not in str(info.value)


def test_groups_are_named_or_equal_rows():
    table = pd.DataFrame({"a": [1, 2, 1, 1], "who": ["x", "y", "y", "x"]})
    assert find_groups(table, None).tolist() == [0, 1, 2, 0]
    assert find_groups(table, "who").tolist() == [0, 1, 1, 0]


# --- the model ------------------------------------------------------------------------------------


def test_the_model_is_calibrated_on_the_latest_rows(model):
    assert model.facts["calibrated_on"] == "the latest rows, day from 2020-11-16 to 2021-02-03"
    assert model.facts["training_rows"] == 320
    assert model.facts["calibration_rows"] == 80
    latest = TABLE.sort_values("day").tail(80).sort_index()
    scored = model.classifier.evaluate(model.encoder.transform(latest))
    np.testing.assert_allclose(model.calibration["total"], scored.total, atol=1e-5)


def test_the_time_is_no_input(model):
    assert model.encoder.feature_names_ == ["x", "y", "ward"]
    pd.testing.assert_frame_equal(model.score(TABLE), model.score(TABLE.drop(columns="day")))


def test_a_number_as_time_keeps_its_digits(fast):
    table = TABLE.assign(day=1_700_000_000 + 3600 * np.arange(N))
    model = TableModel.fit(table, "label", time="day", classifier=fast(**QUICKER))
    expected = "the latest rows, day from 1701152000 to 1701436400"
    assert model.facts["calibrated_on"] == expected


def test_a_group_and_a_time_are_both_respected(fast):
    who = np.arange(N) // 3
    table = TABLE.sort_values("day").assign(who=who)
    model = TableModel.fit(table, "label", time="day", group="who", classifier=fast(**QUICKER))
    assert model.encoder.feature_names_ == ["x", "y", "ward"]
    assert model.facts["training_rows"] == 320
    fresh = set(who[320:]) - set(who[:320])
    assert model.facts["calibration_rows"] == len(fresh) == 27


def test_a_relation_that_flips_late_is_drift(fast):
    model = TableModel.fit(make_table(flips_at=0.9), "label", time="day", classifier=fast())
    found = re.fullmatch(
        r"Among the calibration rows, in the order of time, (ood_score rises \(p = \S+\) and )?"
        r"errors become more frequent \(p = (\S+)\)\. The guarantees do not cover such drift\.",
        model.facts["drift"],
    )
    assert found is not None, model.facts["drift"]
    assert float(found[2]) < 0.005


def test_values_that_move_away_late_are_drift(fast):
    table = TABLE.copy()
    table.loc[table["day"] >= "2021-01-01", "y"] += 30
    model = TableModel.fit(table, "label", time="day", classifier=fast(**QUICKER))
    assert "ood_score rises (p = " in model.facts["drift"]


def test_without_drift_nothing_is_said(model, fast):
    assert model.facts["drift"] == ""
    at_random = TableModel.fit(make_table(0.9), "label", classifier=fast(**QUICKER))
    assert at_random.facts["drift"] == ""
    assert at_random.facts["calibrated_on"] == "random rows"


def test_the_command_line_says_what_it_calibrated_on(tmp_path, capsys):
    make_table(flips_at=0.9).to_csv(tmp_path / "train.csv", index=False)
    out = str(tmp_path / "model")
    words = ["fit", str(tmp_path / "train.csv"), "--target", "label", "--out", out, "--quick"]
    main([*words, "--time", "day"])
    shown = capsys.readouterr().out
    assert "the latest rows, day from 2020-11-16 to 2021-02-03" in shown
    assert "Among the calibration rows, in the order of time, " in shown
    assert TableModel.load(out).facts["calibrated_on"].endswith("2021-02-03")


def test_a_wrong_time_on_the_command_line_is_one_line(tmp_path, capsys):
    TABLE.to_csv(tmp_path / "train.csv", index=False)
    words = ["fit", str(tmp_path / "train.csv"), "--target", "label", "--out", str(tmp_path / "m")]
    with pytest.raises(SystemExit) as info:
        main([*words, "--time", "when"])
    assert info.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "m").exists()


# --- repeated rows (30.4, 30.7) -------------------------------------------------------------------


def test_identical_rows_with_different_labels_are_events():
    groups = np.repeat(np.arange(50), 10)
    rng = np.random.default_rng(0)
    noisy = (groups % 2) ^ (rng.random(500) < 0.1)
    assert are_events(noisy, groups)
    assert not are_events(groups % 2, groups)  # copies
    assert not are_events(noisy, np.arange(500))  # nothing is repeated


def test_many_rows_of_many_classes_are_looked_at_without_a_table_of_both():
    rng = np.random.default_rng(0)
    groups, labels = np.arange(300_000), rng.integers(0, 2000, 300_000)
    assert not are_events(labels, groups)
    assert are_events(labels, groups // 2)


def test_a_few_contradictions_do_not_make_copies_events():
    groups = np.repeat(np.arange(200), 5)
    labels = groups % 2
    labels[:10:5] = 1 - labels[:10:5]
    assert not are_events(labels, groups)


def test_one_row_that_is_a_third_of_the_table_leaves_enough_to_calibrate_on():
    groups = np.concatenate([np.zeros(130, int), np.arange(1, 271)])
    labels = groups % 2
    for seed in range(20):
        train, held_out = split(labels, groups, 0.2, seed)
        assert len(held_out) == round(0.2 * 271)
        assert not set(groups[train]) & set(groups[held_out])
        assert len(np.unique(groups[held_out])) == len(held_out)


@pytest.mark.parametrize("seed", range(3))
def test_the_error_bound_of_a_discrete_table_is_about_rows(fast, seed):
    """30.4: common sheets are noisier; with one row of each sheet nobody would notice."""
    rng = np.random.default_rng(seed)

    def sheets(n_rows):
        answers = np.minimum(rng.geometric(0.5, (n_rows, 4)) - 1, 9)
        is_common = answers.sum(axis=1) <= 3
        wrong = rng.random(n_rows) < np.where(is_common, 0.15, 0.0)
        right = answers[:, 0] + answers[:, 1] > answers[:, 2] + answers[:, 3]
        return pd.DataFrame(answers, columns=list("abcd")).assign(y=(right ^ wrong).astype(int))

    model = TableModel.fit(sheets(1500), "y", classifier=fast())
    assert model.facts["repeated_rows"] == "events"
    assert model.facts["calibration_rows"] == 300
    new = sheets(4000)
    scored = model.score(new.drop(columns="y"))
    accepted = (scored["decision"] == "accept").to_numpy()
    wrong = (scored["prediction"].to_numpy() != new["y"].to_numpy())[accepted]
    if model.rule.acceptance is not None:
        assert wrong.mean() <= model.rule.acceptance.max_error + 0.02
