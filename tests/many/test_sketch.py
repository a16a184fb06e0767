"""One pass keeps a sample, what columns can hold, and rows to calibrate on, however it is split."""

from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.many.sketch import Sampling, Sketch
from bacoun.tabular import TableEncoder

N = 3000
RNG = np.random.default_rng(0)


def make_table():
    """Rare extremes, categories and gaps; rows that occur twice; patients with several rows."""
    table = pd.DataFrame(
        {
            "visit": np.arange(N),
            "patient": RNG.integers(0, 700, N),
            "x": RNG.normal(size=N),
            "two": RNG.choice([1.0, 2.0], N),
            "ward": RNG.choice(["A", "B", "C"], N),
            "flag": RNG.random(N) < 0.5,
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), "D"),
            "label": RNG.choice(["ill", "well"], N),
        }
    )
    table.loc[17, "x"], table.loc[1800, "x"] = 1e6, -1e6
    table.loc[[40, 900], "ward"] = ["rare", None]
    table.loc[2500, ["two", "x"]] = np.nan
    table.loc[2900, "two"] = 1.5
    copies = table.sample(300, random_state=0).index
    table.loc[copies, table.columns[1:]] = table.loc[(copies + 1) % N, table.columns[1:]].to_numpy()
    return table.convert_dtypes(dtype_backend="pyarrow")


TABLE = make_table()


def sampling(**changes):
    options = {"target": "label", "group": None, "ids": ("visit",), "share": 0.2, "rate": 0.1}
    return Sampling(**options | {"most_held_out": 10_000, "seed": 0} | changes)


@cache
def chunks(**changes):
    return [
        Sketch.of(TABLE[start : start + 250], sampling(**changes)) for start in range(0, N, 250)
    ]


def sketch(**changes):
    return Sketch.merge(chunks(**changes))


@settings(max_examples=4)
@given(cuts=st.sets(st.integers(1, 11)))
def test_it_does_not_depend_on_who_merges_what(cuts):
    parts, bounds = chunks(), [0, *sorted(cuts), 12]
    groups = [parts[a:b] for a, b in pairwise(bounds)]
    merged, whole = Sketch.merge([Sketch.merge(group) for group in groups]), Sketch.merge(parts)
    pd.testing.assert_frame_equal(merged.train, whole.train)
    pd.testing.assert_frame_equal(merged.held_out, whole.held_out)
    assert (merged.labels, merged.digest) == (whole.labels, whole.digest)


def test_every_row_is_counted_and_about_the_shares_are_kept():
    found = sketch()
    assert found.labels == Counter(TABLE["label"].tolist())
    assert found.n_training == pytest.approx(0.8 * N, rel=0.05)
    assert len(found.sample) == pytest.approx(0.1 * 0.8 * N, rel=0.25)
    assert found.digest != Sketch.of(TABLE.head(2999), sampling()).digest


@pytest.mark.parametrize("seed", range(2))
def test_an_encoder_of_the_sample_knows_what_all_training_rows_hold(seed):
    plan = sampling(seed=seed, rate=0.02)
    train = TABLE[~plan.is_held_out(plan.hashes(TABLE))]
    of_all = TableEncoder().fit(train.drop(columns="label"))
    of_sample = TableEncoder().fit(sketch(seed=seed, rate=0.02).train.drop(columns="label"))
    assert of_sample.profile_.max_missing == of_all.profile_.max_missing
    for one, other in zip(of_sample.columns_, of_all.columns_, strict=True):
        names = ("name", "kind", "levels", "low", "high", "gaps")
        np.testing.assert_equal(*([getattr(c, name) for name in names] for c in (one, other)))


@pytest.mark.parametrize("group", [None, "patient"])
def test_a_group_is_on_one_side_and_calibrates_once(group):
    plan, found = sampling(group=group), sketch(group=group, rate=1.0)
    keys = [group] if group else [name for name in TABLE if name not in ("visit", "label")]
    train, held_out = (rows[keys].astype(str) for rows in (found.train, found.held_out))
    assert not held_out.duplicated().any()
    assert len(held_out.merge(train, on=keys)) == 0
    assert len(train) == found.n_training
    rest = TABLE[plan.is_held_out(plan.hashes(TABLE))]
    assert len(held_out) == len(rest[keys].drop_duplicates()) < len(rest)


def test_at_most_so_many_rows_are_held_out_whatever_the_order():
    found = sketch(most_held_out=50)
    assert len(found.held_out) == 50
    everything = sketch().held_out
    pd.testing.assert_frame_equal(found.held_out, everything.head(50))


def test_another_seed_draws_and_holds_out_other_rows():
    one, other = sketch(seed=0), sketch(seed=1)
    assert not one.sample.index.equals(other.sample.index)
    assert one.n_training != other.n_training


def test_infinite_numbers_are_refused_at_once():
    rows = TABLE.head(100).assign(x=pd.Series([np.inf] * 100, dtype="double[pyarrow]"))
    with pytest.raises(ValueError, match="'x' has infinite values"):
        Sketch.of(rows, sampling())
