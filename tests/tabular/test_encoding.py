"""Columns of any dtype are encoded, in the same way from every file format."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

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
            ("w", OneHotEncoder(), ["ward"]),
        ]
    )
    expected = theirs.fit_transform(FRAME).astype(float)
    np.testing.assert_array_equal(TableEncoder().fit(FRAME).transform(FRAME), expected)


def test_it_imputes_as_scikit_learn_does():
    frame = FRAME.copy()
    frame.loc[[3, 5], "age"] = np.nan
    frame.loc[[5, 9], "ward"] = None
    numbers = TableEncoder().fit(frame, impute=True).transform(frame)
    median = SimpleImputer(strategy="median", add_indicator=True).fit_transform(frame[["age"]])
    np.testing.assert_array_equal(numbers[:, :2], median)
    frequent = frame["ward"].mode()[0]
    np.testing.assert_array_equal(numbers[[5, 9], 4:7], [np.array(list("ABC")) == frequent] * 2)
    np.testing.assert_array_equal(np.flatnonzero(numbers[:, 7]), [5, 9])


def test_names_of_features():
    frame = FRAME.copy()
    frame.loc[1, "age"] = np.nan
    names = TableEncoder().fit(frame, impute=True).feature_names_
    assert names == ["age", "age missing", "count", "smoker", "ward=A", "ward=B", "ward=C"]


def test_the_state_survives_json():
    encoder = TableEncoder().fit(FRAME.assign(id=range(N)), impute=True)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(again.transform(FRAME), encoder.transform(FRAME))
    assert again.dropped_ == {"id": "id"}
    with pytest.raises(ValueError, match="Fit it again"):
        TableEncoder.from_dict({"columns": [{"nonsense": 1}]})


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
    assert TableEncoder().fit(read_table(path), impute=gaps).to_dict() == encoder.to_dict()
    chunks = [encoder.transform(chunk) for chunk in stream_table(path, rows=7)]
    np.testing.assert_array_equal(np.concatenate(chunks), expected)


def test_the_order_of_columns_does_not_matter():
    encoder = TableEncoder().fit(FRAME)
    turned = FRAME[FRAME.columns[::-1]].assign(more=1)
    np.testing.assert_array_equal(encoder.transform(turned), encoder.transform(FRAME))
    assert encoder.extra(turned) == ["more"]


def test_an_unseen_category_is_all_zeros():
    numbers, unseen = TableEncoder().fit(FRAME).transform_with_unseen(spoiled("ward", "Z"))
    assert np.flatnonzero(unseen).tolist() == [7]
    assert numbers[7, 3:].tolist() == [0, 0, 0]


def test_a_gap_where_training_had_none_is_filled_and_marked():
    encoder = TableEncoder().fit(FRAME, impute=True)
    numbers, unseen = encoder.transform_with_unseen(spoiled("ward", None))
    assert numbers.shape[1] == 6
    assert numbers[7, 3:].sum() == 1
    assert np.flatnonzero(unseen).tolist() == [7]


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
        pd.array([1, 2] * 20, dtype="Int64"),
        pd.array([1, 2] * 20, dtype="int64[pyarrow]"),
        np.array([1, 2] * 20, dtype=np.uint8),
        np.array([1, 2] * 20, dtype=np.float32),
        pd.Series([1, 2.0] * 20, dtype=object),
        [__import__("decimal").Decimal(1), __import__("decimal").Decimal(2)] * 20,
    ],
)
def test_numbers_are_recognized_in_any_dtype(values):
    frame = pd.DataFrame({"x": values})
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].kind == "number"
    np.testing.assert_array_equal(encoder.transform(frame)[:, 0], [1, 2] * 20)


@pytest.mark.parametrize("kind", ["category", "string", "object", "string[pyarrow]"])
def test_text_is_recognized_in_any_dtype(kind):
    frame = FRAME.astype({"ward": kind})
    assert TableEncoder().fit(frame).to_dict() == TableEncoder().fit(FRAME).to_dict()


def test_numeric_categories_match_stored_numbers():
    frame = FRAME.assign(ward=RNG.choice(["1", "2"], N))
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[3].kind == "category"
    expected = encoder.transform(frame)
    for kind in (int, float):
        np.testing.assert_array_equal(encoder.transform(frame.astype({"ward": kind})), expected)


FITS = {
    "gap": (spoiled("age", None), "'age' has some, in 1 row. Fill them, or fit with impute"),
    "gap in text": (spoiled("ward", "NA"), "'ward' has some"),
    "infinite": (spoiled("age", np.inf).astype({"age": float}), "'age' has infinite values"),
    "a word among numbers": (spoiled("age", "?"), "among numbers it has '?' in row 8"),
    "decimal commas": (FRAME.assign(age=["1,5", "2,5"] * 20), "must use decimal points"),
    "dates": (
        FRAME.assign(day=pd.Timestamp("2020-01-01") + pd.to_timedelta(range(N), "D")),
        "'day'",
    ),
    "date objects": (
        FRAME.assign(day=[datetime.date(2020, 1, 1 + i % 9) for i in range(N)]),
        "'day'",
    ),
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


def test_too_many_categories_are_refused():
    many = pd.DataFrame({"x": [f"v{i // 2}" for i in range(2002)]})
    with pytest.raises(ValueError, match=r"at most 1000 categories; it has 1001\. Group the rare"):
        TableEncoder().fit(many)


TRANSFORMS = {
    "gap": (spoiled("count", None), "'count' has some"),
    "gap in truths": (spoiled("smoker", ""), "'smoker' has some"),
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
