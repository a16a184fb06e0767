"""The benchmark of accidents: each spoils what it says, and rivals get a fair chance."""

import json

import numpy as np
import pandas as pd
import pytest
from benchmarks.detectors import Outside, Preprocessing, fit_rivals, fit_schema
from benchmarks.spoil import ACCIDENTS, changed_rows

from bacoun.comparison.record import as_text
from benchmarks import accidents, explanations, rankers, record

SEVERAL_COLUMNS = {
    "two columns swapped",
    "empty rows",
    "numbers of another table",
    "half of another row",
    "copy of a training row",
    "off by one column",
    "all numbers x 1.5",
}


def mixed(n_rows, seed):
    """A table of numbers, a flag, categories with gaps, and dates."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(730, size=n_rows), unit="D")
    ward = rng.choice(["North", "South", "East"], n_rows).astype(object)
    ward[rng.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "weight": rng.normal(70.0, 9.0, n_rows),
            "height": rng.normal(1.7, 0.1, n_rows),
            "age": rng.integers(20, 90, n_rows),
            "smoker": rng.integers(0, 2, n_rows),
            "ward": pd.array(ward, dtype="str"),
            "sex": rng.choice(["female", "male"], n_rows),
            "date": days.strftime("%Y-%m-%d"),
        },
        index=range(100, 100 + n_rows),
    )


ROWS, KNOWN = mixed(60, 0), mixed(400, 1)


def happen(name, seed=0, rows=ROWS, known=KNOWN):
    return ACCIDENTS[name](np.random.default_rng(seed), rows, known)


def changed_columns(after, before=ROWS):
    return [name for name in before if changed_rows(before[[name]], after[[name]]).any()]


# --- accidents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_accident_keeps_columns_and_index_and_the_rows_it_is_given(name):
    rows, known = ROWS.copy(), KNOWN.copy()
    spoiled = happen(name, rows=rows, known=known)
    assert list(spoiled) == list(ROWS)
    assert spoiled.index.equals(ROWS.index)
    pd.testing.assert_frame_equal(rows, ROWS)
    pd.testing.assert_frame_equal(known, KNOWN)


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_accident_changes_something_and_most_only_one_column(name):
    for seed in range(5):
        changed = changed_columns(happen(name, seed))
        assert len(changed) > 1 if name in SEVERAL_COLUMNS else len(changed) == 1


@pytest.mark.parametrize("name", ACCIDENTS)
def test_one_seed_gives_one_accident(name):
    pd.testing.assert_frame_equal(happen(name, 3), happen(name, 3))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("unit: x 1000", lambda old: 1000 * old),
        ("unit: x 2.54", lambda old: 2.54 * old),
        ("unit: Fahrenheit", lambda old: 1.8 * old + 32),
        ("sign flipped", lambda old: -old),
        ("all zero", lambda old: 0 * old),
        ("rounded to integers", lambda old: old.round()),
        ("other case", lambda old: old.str.swapcase()),
        (
            "dates as day.month.year",
            lambda old: old.str[8:] + "." + old.str[5:7] + "." + old.str[:4],
        ),
    ],
)
def test_a_column_becomes_what_the_name_says(name, expected):
    spoiled = happen(name)
    (column,) = changed_columns(spoiled)
    pd.testing.assert_series_equal(
        spoiled[column], expected(ROWS[column]), check_dtype=False, check_names=False
    )


@pytest.mark.parametrize(("name", "share"), [("10 %", 0.1), ("50 %", 0.5), ("100 %", 1.0)])
def test_gaps_are_as_many_as_the_name_says(name, share):
    spoiled = happen(f"gaps in {name}", rows=KNOWN.head(60).dropna(axis=1))
    assert spoiled.isna().sum().sum() == share * 60


def test_shuffling_keeps_the_values_and_recoding_the_categories():
    shuffled = happen("column shuffled")
    (column,) = changed_columns(shuffled)
    assert sorted(shuffled[column].dropna()) == sorted(ROWS[column].dropna())
    recoded = happen("categories recoded")
    (column,) = changed_columns(recoded)
    assert (recoded[column] != ROWS[column])[ROWS[column].notna()].all()
    assert set(recoded[column].dropna()) <= set(KNOWN[column].dropna())


def test_decimal_commas_and_points_say_the_same():
    spoiled = happen("decimal commas")
    (column,) = changed_columns(spoiled)
    assert (spoiled[column].str.replace(",", ".").astype(float) == ROWS[column]).all()


def test_copies_are_training_rows_and_columns_move_to_the_right():
    seen = {tuple(row) for row in KNOWN.astype(str).to_numpy()}
    assert {tuple(row) for row in happen("copy of a training row").astype(str).to_numpy()} <= seen
    moved = happen("off by one column")
    assert moved["height"].tolist() == ROWS["weight"].tolist()
    assert moved["weight"].tolist() == ROWS["date"].tolist()


def test_an_accident_without_a_suitable_column_does_not_happen():
    for name, columns in {
        "new category": ["weight", "age"],
        "unit: x 1000": ["ward", "smoker"],
        "two columns swapped": ["weight", "ward"],
        "decimal commas": ["age"],
        "dates a century early": ["ward"],
        "numbers of another table": ["sex"],
    }.items():
        assert happen(name, rows=ROWS[columns], known=KNOWN[columns]) is None


def test_whole_floats_and_gaps_are_no_change():
    before = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "y"]})
    after = pd.DataFrame({"a": [1.0, 2.0, 3.5], "b": ["x", None, "y"]})
    assert changed_rows(before, after).tolist() == [False, False, True]


# --- detectors ------------------------------------------------------------------------------------


def test_rivals_keep_their_false_alarm_on_untouched_rows():
    known, rows = mixed(2000, 2), mixed(2000, 3)
    for name, detector in fit_rivals(known, known["sex"], seed=0).items():
        assert 0.01 < detector(rows).mean() < 0.09, name


def test_rivals_refuse_what_is_no_number_and_ignore_unseen_categories():
    points = Preprocessing().fit(KNOWN)
    assert len(np.unique(points.transform(happen("empty rows")), axis=0)) == 1
    new = points.transform(ROWS.assign(sex="unknown"))
    assert (new[:, [name == "sex" for name in points.column_of_]] == 0).all()
    for name in ("decimal commas", "dates as day.month.year"):
        with pytest.raises(ValueError, match=r"parse|match"):
            points.transform(happen(name))
        assert np.isfinite(points.transform(happen(name), errors="coerce")).all()


def test_outside_are_impossible_values_and_rows_far_from_all_others():
    outside = Outside(KNOWN)
    assert not outside(KNOWN).any()
    low, high = KNOWN["weight"].min(), KNOWN["weight"].max()
    for name, value in {
        "sex": "other",
        "age": np.nan,
        "height": "1,7",
        "weight": 2.1 * high - low,
        "date": "01.02.2022",
    }.items():
        assert outside(ROWS.assign(**{name: value})).all(), name
    assert not outside(ROWS.assign(ward=np.nan)).any()  # training had gaps there


def test_the_schema_flags_the_rows_that_violate_it():
    pytest.importorskip("pandera", reason="pandera is installed for the benchmark alone")
    flags = fit_schema(KNOWN)
    assert not flags(KNOWN).any()
    for name, value in {
        "sex": "other",
        "age": 33.5,
        "weight": 1000.0,
        "height": "1,7",
        "smoker": np.nan,
        "date": "1922-01-01",
    }.items():
        spoiled = KNOWN.astype({name: object})
        spoiled.loc[105, name] = value
        assert KNOWN.index[flags(spoiled)].tolist() == [105], name


# --- the suite ------------------------------------------------------------------------------------


def test_a_record_is_resumed_where_it_stopped(tmp_path):
    path, ran = tmp_path / "some.json", []

    def task(name, stop=False):
        def run():
            if stop:
                raise KeyboardInterrupt
            ran.append(name)
            return {"found": name}

        return run

    with pytest.raises(KeyboardInterrupt):
        record.resume(path, {"a": task("a"), "b": task("b", stop=True)}, ("numpy",))
    assert list(json.loads(path.read_text())["runs"]) == ["a"]
    found = record.resume(path, {"a": task("a"), "b": task("b")}, ("numpy",))
    assert ran == ["a", "b"]
    assert found == json.loads(path.read_text())
    assert found["command"] == "python -m benchmarks some"
    assert [path] == list(tmp_path.iterdir())


def test_a_refused_file_counts_as_flagged_and_apart():
    def refuse(frame):
        raise ValueError

    changed, outside = np.array([True, True, False]), np.array([True, False, True])
    detectors = {"a": refuse, "b": lambda frame: np.array([False, True, True])}
    counts = accidents.judge(detectors, pd.DataFrame(index=range(3)), changed, outside)
    assert counts == {"rows": 2, "outside": 1, "a": [2, 1, 1], "b": [1, 0, 0]}


def test_the_suite_runs_on_one_table(capsys):
    pytest.importorskip("pandera", reason="pandera is installed for the benchmark alone")
    run = accidents.measure("sklearn-wine", 0, quick=True)
    assert len(run["accidents"]) >= 18
    for counts in run["accidents"].values():
        for name in accidents.NAMES:
            assert counts["rows"] >= counts[name][0] >= counts[name][1]
            assert counts["outside"] >= counts[name][1]
    assert max(run["false alarms"].values()) <= 0.25 * run["test rows"]
    found = json.loads(as_text({"runs": {"sklearn-wine/0": run}}))
    accidents.show(found)
    assert "unit: x 1000" in capsys.readouterr().out
    assert accidents.markdown(found).count("\n| sklearn-wine |") == 1


# --- explanations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("way", explanations.WAYS)
def test_exactly_the_named_columns_are_spoiled(way, n_columns):
    rows, known = ROWS.drop(columns="date"), KNOWN.drop(columns="date")
    if n_columns not in explanations.WAYS[way][2]:
        pytest.skip("one column cannot be swapped")
    spoiled, columns = explanations.spoil(np.random.default_rng(0), rows, known, way, n_columns)
    assert len(spoiled) == len(rows)
    rows = rows.reset_index(drop=True)
    for name in rows:
        changed = changed_rows(rows[[name]], spoiled[[name]]).tolist()
        assert changed == [name in names for names in columns]
    assert {len(names) for names in columns} == {n_columns}


def test_precision_counts_the_spoiled_columns_that_are_named_first():
    rankings = [["a", "b", "c"], ["c", "a", "b"]]
    assert explanations.precision(rankings, [{"a"}, {"a"}]) == 0.5
    assert explanations.precision(rankings, [{"b", "c"}, {"a", "c"}]) == 0.75


@pytest.mark.parametrize("method", ["z-score", "ECOD"])
def test_a_number_that_moved_far_is_named_first(method):
    rows, known = (frame[["weight", "height", "age", "ward"]] for frame in (ROWS, KNOWN))
    ranker = rankers.METHODS[method](rankers.Fitted(known, None, 0))
    far = rows.assign(height=rows["height"] + 5)
    assert {ranking[0] for ranking in ranker(far)} == {"height"}
    assert {tuple(sorted(ranking)) for ranking in ranker(far)} == {tuple(sorted(known))}


def test_the_explanations_are_measured_on_one_table(capsys, monkeypatch):
    monkeypatch.setattr(explanations, "MAX_ROWS", 20)
    methods = {name: rankers.METHODS[name] for name in ("bacoun", "z-score", "chance")}
    run = explanations.measure("sklearn-wine", 0, quick=True, methods=methods)
    for cases in run["precision"].values():
        assert len(cases) == 8
        assert all(0 <= share <= 1 for share in cases.values())
    assert run["precision"]["bacoun"]["moved/1"] > 0.9
    assert run["precision"]["z-score"]["moved/1"] > 0.9
    assert run["precision"]["chance"]["moved/1"] < 0.4
    explanations.show({"runs": {"sklearn-wine/0": run}})
    assert "rows per second" in capsys.readouterr().out
    assert "| moved | 1 |" in explanations.markdown({"runs": {"sklearn-wine/0": run}})


def test_tree_shap_names_a_number_that_moved_far():
    pytest.importorskip("shap", reason="shap is installed for the benchmark alone")
    rows, known = (frame[["weight", "height", "age", "ward"]] for frame in (ROWS, KNOWN))
    ranker = rankers.by_tree_shap(rankers.Fitted(known, None, 0))
    named = [ranking[0] for ranking in ranker(rows.assign(height=rows["height"] + 5))]
    assert named.count("height") > 0.8 * len(named)
