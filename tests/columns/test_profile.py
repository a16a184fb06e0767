"""The profile of a training table: what it keeps, and that it survives storage."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from bacoun.columns.cells import Cells
from bacoun.columns.column import Column
from bacoun.columns.profile import TableProfile, hash_rows
from bacoun.files.model_folder import read_folder, write_folder
from bacoun.files.persistence import from_state, to_state

CANCER = load_breast_cancer(as_frame=True).data
WARD = pd.DataFrame(
    {
        "id": [f"p{i}" for i in range(40)],
        "age": [*range(30, 50)] * 2,
        "smoker": [True, False] * 20,
        "ward": ["A", "B", "B", "C"] * 10,
        "unit": "mg",
        "lab": [1.5, np.nan, 2.5, 2.5] * 10,
    }
)
KINDS = {"age": "number", "smoker": "boolean", "ward": "category", "lab": "number"}


def as_csv(frame):
    """The table as `stream_table` reads it: all cells are text."""
    text = io.StringIO(frame.to_csv(index=False))
    return pd.read_csv(text, dtype=str, na_filter=False)


def test_columns_keep_their_order_and_kind():
    profile = TableProfile.of(WARD, KINDS)
    assert profile.names == list(WARD)
    assert [column.kind for column in profile.columns] == [
        *("dropped", "number", "boolean", "category", "dropped", "number")
    ]
    assert [column.name for column in profile.used] == list(KINDS)


def test_known_answers():
    id_, age, smoker, ward, unit, lab = TableProfile.of(WARD, KINDS).columns
    assert id_.counts == {}
    assert (age.low, age.high, age.mean, age.whole_share) == (30, 49, 39.5, 1.0)
    assert age.distinct == tuple(range(30, 50))
    assert (smoker.mean, smoker.distinct) == (0.5, (0.0, 1.0))
    assert ward.counts == {"B": 20, "A": 10, "C": 10}
    assert unit.counts == {"mg": 40}
    assert (lab.n_missing, lab.n_present, lab.distinct_counts) == (10, 30, (10, 20))


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60))
def test_shares_are_those_of_the_values(values):
    profile = Column.of("x", Cells.read(pd.Series(values), "number"))
    cuts = profile.cuts
    assert (np.diff(cuts) >= 0).all()
    assert cuts[0] < min(values) <= max(values) < cuts[-1]
    np.testing.assert_allclose(profile.cdf, [np.mean(np.array(values) <= cut) for cut in cuts])
    json.dumps(vars(profile) | {"cuts": None}, allow_nan=False)


def test_storage_keeps_everything(tmp_path):
    profile = TableProfile.of(WARD, KINDS)
    write_folder({"profile": to_state(profile)}, tmp_path / "model", overwrite=False)
    again = from_state(TableProfile, read_folder(tmp_path / "model")["profile"])
    assert again.columns == profile.columns
    assert (again.hashed, again.repeated) == (profile.hashed, profile.repeated)
    np.testing.assert_array_equal(again.row_hashes, profile.row_hashes)
    assert again.row_hashes.dtype == np.int64


def test_a_damaged_profile_is_refused():
    with pytest.raises(ValueError, match="not stored completely"):
        from_state(TableProfile, {"columns": []})


@pytest.mark.parametrize("frame", [CANCER, WARD[list(KINDS)]], ids=["cancer", "ward"])
def test_rows_have_the_same_hash_as_text(frame):
    kinds = dict.fromkeys(CANCER, "number") | KINDS
    one, two = (
        hash_rows(Cells.read(table[name], kinds[name]) for name in table)
        for table in (frame, as_csv(frame))
    )
    np.testing.assert_array_equal(one, two)
    assert len(np.unique(one)) == len(frame.drop_duplicates())


def test_nine_digits_and_stripped_text_decide():
    numbers = Cells.read(pd.Series(["1.50", "1.5", "1.50000000001", "1.50001"]), "number").hashes()
    assert len(set(numbers[:3])) == 1
    assert numbers[3] != numbers[0]
    text = Cells.read(pd.Series(["a", " a ", "b"]), "category").hashes()
    assert text[0] == text[1] != text[2]
    zeros = Cells.read(pd.Series([0.0, -0.0]), "number").hashes()
    assert zeros[0] == zeros[1]


def test_ids_are_not_hashed():
    other = WARD.assign(id=[f"q{i}" for i in range(40)])
    one, two = (TableProfile.of(table, KINDS).row_hashes for table in (WARD, other))
    np.testing.assert_array_equal(one, two)


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr("bacoun.columns.profile._MAX_HASHES", 100)
    profile = TableProfile.of(CANCER, dict.fromkeys(CANCER, "number"))
    assert len(profile.row_hashes) == 100
    assert profile.hashed == 100 / 569
    assert (np.diff(profile.row_hashes.view(np.uint64).astype(object)) > 0).all()
    assert profile.repeated == 0


def test_dates_are_days_since_1970():
    days = pd.Series(["02.01.1970", "11.01.1970"], name="day")
    profile = Column.of("day", Cells.read(days, "date", "%d.%m.%Y"))
    assert (profile.low, profile.high) == (1.0, 10.0)
