"""Columns of any dtype are encoded, in the same way from every file format."""

import json
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OrdinalEncoder

from bacoun.columns.cells import Cells
from bacoun.columns.profile import TableProfile
from bacoun.files.persistence import from_state, to_state
from bacoun.tabular import TableEncoder, find_ids, read_table, stream_table

N = 40
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(50, 9, N),
        "count": RNG.integers(0, 5, N),
        "smoker": RNG.random(N) < 0.5,
        "ward": RNG.choice(["A", "B", "C"], N),
    }
)


def spoiled(column, value, row=7):
    frame = FRAME.astype({column: object})
    frame.loc[row, column] = value
    return frame


def sentence(info):
    message = str(info.value)
    assert "\n" not in message
    return message


def test_it_matches_a_column_transformer():
    theirs = ColumnTransformer(
        [
            ("as they are", "passthrough", ["age", "count", "smoker"]),
            ("w", OrdinalEncoder(), ["ward"]),
        ]
    )
    expected = theirs.fit_transform(FRAME).astype(float)
    encoder = TableEncoder().fit(FRAME)
    np.testing.assert_array_equal(encoder.transform(FRAME), expected)
    assert encoder.feature_names_ == ["age", "count", "smoker", "ward"]
    assert encoder.categorical_features_ == [2, 3]


def test_it_imputes_as_scikit_learn_does():
    frame = FRAME.copy()
    frame.loc[[3, 5], "age"] = np.nan
    numbers = TableEncoder().fit(frame).transform(frame)
    median = SimpleImputer(strategy="median", add_indicator=True).fit_transform(frame[["age"]])
    np.testing.assert_array_equal(numbers[:, :2], median)


def test_a_gap_is_a_category_of_its_own():
    frame = FRAME.copy()
    frame.loc[[5, 9], "ward"] = None
    encoder = TableEncoder().fit(frame)
    numbers, unseen = encoder.transform_with_unseen(frame)
    assert np.flatnonzero(numbers[:, 3] == 3).tolist() == [5, 9]
    assert not unseen.any()


def test_names_of_features():
    frame = FRAME.copy()
    frame.loc[1, "age"] = np.nan
    encoder = TableEncoder().fit(frame)
    assert encoder.feature_names_ == ["age", "age missing", "count", "smoker", "ward"]
    assert encoder.categorical_features_ == [1, 3, 4]


def test_a_number_of_two_values_is_a_category():
    frame = FRAME.assign(dose=[20.0, 50.0] * 20)
    encoder = TableEncoder().fit(frame)
    assert encoder.categorical_features_ == [2, 3, 4]
    numbers, unseen = encoder.transform_with_unseen(frame.assign(dose=["20.0", "30"] * 20))
    assert numbers[:2, 4].tolist() == [0, -1]
    assert unseen.tolist() == [False, True] * 20


# --- dates ----------------------------------------------------------------------------------------

DAYS = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) * 40, "D"))


@pytest.mark.parametrize(
    "written",
    [
        DAYS,
        DAYS.dt.date,
        DAYS.dt.tz_localize("UTC"),
        DAYS.astype("timestamp[us][pyarrow]"),
        DAYS.dt.strftime("%Y-%m-%d"),
        DAYS.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        DAYS.dt.strftime("%d.%m.%Y"),
        DAYS.dt.strftime("%m/%d/%Y"),
    ],
    ids=["timestamps", "dates", "zone", "arrow", "ISO", "ISO with time", "points", "American"],
)
def test_dates_become_days_month_and_weekday(written):
    encoder = TableEncoder().fit(FRAME.assign(day=written.to_numpy()))
    assert encoder.feature_names_[-3:] == ["day", "day month", "day weekday"]
    numbers = encoder.transform(FRAME.assign(day=written.to_numpy()))[:, -3:]
    expected = [(DAYS - pd.Timestamp(0)).dt.days, DAYS.dt.month - 1, DAYS.dt.day_of_week]
    np.testing.assert_array_equal(numbers, np.column_stack(expected))


def test_months_count_only_if_training_has_all_of_them():
    few = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), "D")
    names = TableEncoder().fit(FRAME.assign(day=few)).feature_names_
    assert names[-2:] == ["day", "day weekday"]


def test_dates_in_another_format_are_refused():
    encoder = TableEncoder().fit(FRAME.assign(day=DAYS.dt.strftime("%d.%m.%Y")))
    with pytest.raises(ValueError) as info:  # noqa: PT011
        encoder.transform(FRAME.assign(day=DAYS.dt.strftime("%Y-%m-%d")))
    assert "'day' must hold dates such as 03.04.2021, as in training; got '2020-01-01'" in sentence(
        info
    )


def test_day_and_month_must_differ_somewhere():
    unclear = FRAME.assign(day=["03/04/2021", "05/06/2021"] * 20)
    with pytest.raises(ValueError, match="day and month cannot be told apart"):
        TableEncoder().fit(unclear)


def test_the_state_survives_json():
    encoder = TableEncoder().fit(FRAME.assign(id=range(N)), impute=True)
    hashes = encoder.profile_.row_hashes
    state = json.loads(json.dumps(to_state(encoder.profile_) | {"row_hashes": None}))
    again = TableEncoder(from_state(TableProfile, state | {"row_hashes": hashes}))
    np.testing.assert_array_equal(again.transform(FRAME), encoder.transform(FRAME))
    assert again.dropped_ == {"id": "id"}


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize("gaps", [False, True])
def test_chunks_of_a_file_are_encoded_like_the_whole(tmp_path, name, gaps):
    frame = FRAME.copy()
    if gaps:
        frame["smoker"] = frame["smoker"].astype(object)
        for row, column in enumerate(frame):
            frame.loc[row, column] = None
    encoder = TableEncoder().fit(frame, impute=gaps)
    path = tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
    expected = encoder.transform(frame)
    np.testing.assert_array_equal(encoder.transform(read_table(path)), expected)
    assert TableEncoder().fit(read_table(path), impute=gaps).columns_ == encoder.columns_
    chunks = [encoder.transform(chunk) for chunk in stream_table(path, rows=7)]
    np.testing.assert_array_equal(np.concatenate(chunks), expected)


def test_the_order_of_columns_does_not_matter():
    encoder = TableEncoder().fit(FRAME)
    turned = FRAME[FRAME.columns[::-1]].assign(more=1)
    np.testing.assert_array_equal(encoder.transform(turned), encoder.transform(FRAME))


def test_an_unseen_category_is_marked_and_named():
    encoder = TableEncoder().fit(FRAME)
    numbers, unseen = encoder.transform_with_unseen(spoiled("ward", "Z"))
    assert np.flatnonzero(unseen).tolist() == [7]
    assert numbers[7, 3] == -1
    words = encoder.unseen_in(spoiled("ward", "Z"))
    assert list(map(str, words[7])) == ["ward = Z (not seen in training)"]
    assert sum(map(len, words)) == 1


def test_a_gap_in_a_constant_column_of_any_dtype_is_marked():
    encoder = TableEncoder().fit(FRAME.assign(zero=0.0))
    for dtype in ("float64", "Float64", "double[pyarrow]", object):
        zeros = pd.Series([0.0] * (N - 1) + [None], dtype=dtype)
        assert np.flatnonzero(encoder.transform_with_unseen(FRAME.assign(zero=zeros))[1]) == N - 1


@pytest.mark.parametrize("impute", [True, False])
def test_a_gap_where_training_had_none_is_filled_and_marked(impute):
    encoder = TableEncoder().fit(FRAME, impute)
    for name, filled in (("age", FRAME["age"].median()), ("ward", -1)):
        numbers, unseen = encoder.transform_with_unseen(spoiled(name, None))
        assert np.flatnonzero(unseen).tolist() == [7]
        assert numbers[7, list(FRAME).index(name)] == filled


def test_ids_constant_and_empty_columns_are_dropped():
    frame = FRAME.assign(
        number=np.arange(N) + 1000,
        shuffled=RNG.permutation(N),
        name=[f"P{i}" for i in range(N)],
        one="x",
        zero=0.0,
        nothing=np.nan,
    )
    assert TableEncoder().fit(frame).dropped_ == {
        "number": "id",
        "shuffled": "id",
        "name": "id",
        "one": "constant",
        "zero": "constant",
        "nothing": "empty",
    }


def test_distinct_numbers_are_not_ids():
    frame = pd.DataFrame({"real": RNG.normal(size=N), "gaps": np.arange(N) * 2})
    assert find_ids(frame) == {}
    assert find_ids(pd.DataFrame({"few": ["a", "b", "c"]})) == {}


@pytest.mark.parametrize(
    "values",
    [
        pd.array([True, None] * 20, dtype="boolean"),
        ["true", "False"] * 20,
        [True, None] * 20,
        pd.array([True, False] * 20, dtype="bool[pyarrow]"),
    ],
)
def test_booleans_are_recognized_in_any_dtype(values):
    frame = pd.DataFrame({"x": values, "y": RNG.normal(size=N)})
    encoder = TableEncoder().fit(frame.assign(x=[True, False] * 20), impute=True)
    assert encoder.transform(frame)[0, 0] == 1
    assert TableEncoder().fit(pd.DataFrame({"x": [True, False, *values]}), True).columns_[
        0
    ].kind == ("boolean")


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, 2, 5, 2] * 10, dtype="Int64"),
        pd.array([1, 2, 5, 2] * 10, dtype="int64[pyarrow]"),
        np.array([1, 2, 5, 2] * 10, dtype=np.uint8),
        np.array([1, 2, 5, 2] * 10, dtype=np.float32),
        pd.Series([1, 2.0, 5, 2] * 10, dtype=object),
        [Decimal(1), Decimal(2), Decimal(5), Decimal(2)] * 10,
    ],
)
def test_numbers_are_recognized_in_any_dtype(values):
    frame = pd.DataFrame({"x": values})
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].kind == "number"
    np.testing.assert_array_equal(encoder.transform(frame)[:, 0], [1, 2, 5, 2] * 10)


@pytest.mark.parametrize("kind", ["category", "string", "object", "string[pyarrow]"])
def test_text_is_recognized_in_any_dtype(kind):
    frame = FRAME.astype({"ward": kind})
    assert TableEncoder().fit(frame).columns_ == TableEncoder().fit(FRAME).columns_


def test_numeric_categories_match_stored_numbers():
    frame = FRAME.assign(ward=RNG.choice(["1", "2"], N))
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[3].kind == "category"
    expected = encoder.transform(frame)
    for kind in (int, float):
        np.testing.assert_array_equal(encoder.transform(frame.astype({"ward": kind})), expected)


FITS = {
    "infinite": (spoiled("age", np.inf).astype({"age": float}), "'age' has infinite values"),
    "a word among numbers": (spoiled("age", "?"), "among numbers it has '?' in row 8"),
    "decimal commas": (FRAME.assign(age=["1,5", "2,5"] * 20), "must use decimal points"),
    "complex": (FRAME.assign(z=1j * np.arange(N)), "'z' holds complex128"),
    "lists": (FRAME.assign(z=[[i % 3] for i in range(N)]), "'z' holds 'list'"),
    "names of numbers": (FRAME.rename(columns={"age": 3}), "column names must be text"),
    "names twice": (FRAME.rename(columns={"age": "ward"}), "more than once: 'ward'"),
    "nothing left": (pd.DataFrame({"id": range(N), "one": 1}), "a column to learn from"),
}


@pytest.mark.parametrize(("frame", "expected"), FITS.values(), ids=FITS)
def test_a_bad_table_is_refused_in_fit(frame, expected):
    with pytest.raises(ValueError) as info:  # noqa: PT011
        TableEncoder().fit(frame)
    assert expected in sentence(info)


@pytest.mark.parametrize(("name", "gap"), [("age", None), ("ward", "NA")])
def test_gaps_are_refused_if_they_are_not_to_be_imputed(name, gap):
    with pytest.raises(ValueError, match=f"'{name}' has some, in 1 row. Fill them, or fit with"):
        TableEncoder().fit(spoiled(name, gap), impute=False)


def test_too_many_categories_are_refused():
    many = pd.DataFrame({"x": [f"v{i // 2}" for i in range(2002)]})
    with pytest.raises(ValueError, match=r"at most 1000 categories; it has 1001\. Group the rare"):
        TableEncoder().fit(many)


TRANSFORMS = {
    "infinite": (spoiled("count", np.inf), "'count' has infinite values"),
    "word": (
        spoiled("age", "old"),
        "column 'age' must hold numbers as in training; got 'old' in row 8",
    ),
    "no truth": (spoiled("smoker", "maybe"), "must hold true or false as in training; got 'maybe'"),
    "no truth, a number": (FRAME.assign(smoker=2), "got '2' in row 1"),
    "column missing": (FRAME.drop(columns=["age", "ward"]), "it lacks 'age', 'ward'"),
    "dates": (FRAME.assign(age=pd.Timestamp("2020-01-01")), "'age' holds datetime64"),
}


@pytest.mark.parametrize(("frame", "expected"), TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_bad_table_is_refused_in_transform(frame, expected):
    with pytest.raises(ValueError) as info:  # noqa: PT011
        TableEncoder().fit(FRAME).transform(frame)
    assert expected in sentence(info)


def test_thousands_of_columns_are_encoded():
    wide = pd.DataFrame(RNG.normal(size=(5, 2_000))).rename(columns="c{}".format)
    assert TableEncoder().fit(wide).transform(wide).shape == (5, 2_000)


def test_a_fit_reads_each_column_once(monkeypatch):
    read, names = Cells.read, []

    def count(column, *arguments, **options):
        names.append(column.name)
        return read(column, *arguments, **options)

    monkeypatch.setattr(Cells, "read", count)
    features = TableEncoder().fit_transform(FRAME)
    assert sorted(names) == sorted(FRAME)
    np.testing.assert_array_equal(features, TableEncoder().fit(FRAME).transform(FRAME))


def test_what_is_sent_to_workers_encodes_in_the_same_way():
    encoder = TableEncoder().fit(FRAME)
    light = pickle.loads(pickle.dumps(encoder.without_row_hashes()))
    assert len(light.profile_.row_hashes) == 0 < len(encoder.profile_.row_hashes)
    np.testing.assert_array_equal(light.transform(FRAME), encoder.transform(FRAME))
