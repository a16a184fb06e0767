"""The benchmarks of wide tables and of error bounds measure what they say."""

import json

import numpy as np
import pandas as pd
import pytest

from bacoun.comparison import record
from benchmarks import bounds, wide

MIXED = pd.DataFrame(
    {
        "weight": np.random.default_rng(0).normal(70.0, 9.0, 40),
        "height": [*np.linspace(1.5, 1.9, 39), np.nan],
        "unit": 1,
        "ward": ["North", "South"] * 20,
    }
)
WORDS = pd.DataFrame({name: ["x", "y"] * 20 for name in "abcde"})

# --- wide tables ----------------------------------------------------------------------------------


def test_tables_with_numbers_move_by_these_and_others_by_new_categories():
    assert list(wide.far_rows(MIXED, MIXED, 0)) == [*wide.FAR][:2]
    assert list(wide.far_rows(WORDS, WORDS, 0)) == [*wide.FAR][2:]


def test_far_rows_are_as_far_as_their_names_say():
    every, one = wide.far_rows(MIXED, MIXED, 0).values()
    numbers = ["weight", "height"]
    spread = MIXED[numbers].std()
    pd.testing.assert_frame_equal(every[numbers], 3 * MIXED[numbers] + 20 * spread)
    moved = ((one[numbers] - MIXED[numbers]) / spread).fillna(0.0)
    assert np.allclose(np.sort(moved, axis=1), [0.0, 1000.0])
    assert moved.any().all()  # not always the same column
    for frame in (every, one):
        pd.testing.assert_frame_equal(frame[["unit", "ward"]], MIXED[["unit", "ward"]])


def test_half_of_the_cells_are_new():
    (words,) = wide.far_rows(WORDS, WORDS, 0).values()
    assert ((words != WORDS).sum(axis=1) == 3).all()
    assert not words[words != WORDS].isin(["x", "y"]).any(axis=None)


def test_generated_tables_have_the_size_that_they_are_named_for():
    train, test, target = wide.load("200 columns", 0)
    assert train.drop(columns=target).shape == (2000, 200)
    assert len(test) == 3000
    train, _, target = wide.load("150 inputs", 0)
    inputs = wide.Preprocessing().fit(train.drop(columns=target))
    assert len(inputs.column_of_) == 150


def test_a_wide_table_is_measured_and_shown(capsys):
    found = {"runs": {"150 inputs/0": wide.measure("150 inputs", 0, quick=True)}}
    run = json.loads(record.as_text(found))["runs"]["150 inputs/0"]
    assert set(run["models"]) == set(wide.NAMES)
    assert all(each["accuracy"] > 0.85 for each in run["models"].values())
    assert min(run["far"].values()) > 0.99
    assert run["false alarm"] < 0.2
    wide.show(found)
    assert "150 inputs" in capsys.readouterr().out
    assert wide.markdown(found).count("\n| 150 inputs |") == 2


@pytest.mark.parametrize(("ours", "expected"), [(0.895, [True, True]), (0.894, [False, True])])
def test_to_keep_up_is_to_be_no_less_accurate_than_the_margin(ours, expected):
    accuracies = zip(wide.NAMES, (ours, 0.9, 0.9), strict=True)
    runs = [{"models": {name: {"accuracy": value} for name, value in accuracies}}]
    assert list(wide.keeps_up(runs).values()) == expected


# --- error bounds ---------------------------------------------------------------------------------


def test_copies_are_identical_or_differ_only_in_the_last_digits():
    plain, same, other = bounds.plain(0), bounds.copies(0), bounds.copies(0, identical=False)
    assert len(plain.train) == len(same.train.drop_duplicates()) == 600
    assert 3 * 600 * 0.9 < len(same.train) < 3 * 600 * 1.1
    assert len(other.train.drop_duplicates()) == len(other.train)
    pd.testing.assert_frame_equal(same.train, other.train, atol=1e-7)
    pd.testing.assert_frame_equal(same.fresh, other.fresh)


def test_fresh_persons_are_new_and_a_person_has_one_label():
    train, fresh, options = bounds.persons(0)
    assert options == {"group": "person"}
    assert (train.groupby("person")["target"].agg(["size", "nunique"]) == [8, 1]).all(axis=None)
    assert train["person"].nunique() == 75
    assert len(fresh) == 4000
    assert "person" not in bounds.persons(0, named=False).train


def test_drift_starts_with_the_calibration_rows_and_goes_on():
    still, turning = bounds.drift(0, degrees=0), bounds.drift(0, degrees=30)
    pd.testing.assert_frame_equal(still.train.head(480), turning.train.head(480))
    assert turning.fresh["day"].min() >= turning.train["day"].max()
    last = [frame[["a", "b"]].iloc[-1].to_numpy() for frame in (still.fresh, turning.fresh)]
    angle = np.degrees(np.arccos(last[0] @ last[1] / np.prod(np.linalg.norm(last, axis=1))))
    assert angle == pytest.approx(60)


def test_a_bound_is_exceeded_only_if_it_is_promised():
    found = {"bound": [None, 0.1, 0.1, 0.2], "error": [0.5, 0.11, 0.1, None]}
    assert bounds.exceeded(found) == 1


def test_fits_of_all_kinds_are_judged_and_shown(capsys, monkeypatch):
    monkeypatch.setattr(bounds, "N_FRESH", 200)
    kinds = ("plain rows", "copies", "slow drift")
    runs = {f"{kind}/0": bounds.measure(kind, 0, n_fits=1) for kind in kinds}
    found = json.loads(record.as_text({"runs": runs}))
    bounds.show(found)
    assert "slow drift" in capsys.readouterr().out
    for kind in kinds:
        assert bounds.markdown(found).count(f"\n| {kind} | 1 |") == 1


def test_blocks_of_a_kind_are_fits_of_other_tables():
    first, second = (bounds.KINDS["plain rows"](block * bounds.PER_BLOCK) for block in (0, 1))
    assert not first.train.equals(second.train)
