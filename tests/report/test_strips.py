"""Strips show where a value lies among those of the training rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacoun.columns.column import Column
from bacoun.report.data import report_data
from bacoun.report.page import render_page
from bacoun.report.strips import draw, in_words
from bacoun.tabular import TableModel

NUMBER = Column("width", "number", 10, usual=(0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 10.0))


def kinds(strip):
    return [mark.attributes["class"] for mark in strip.marks if mark.element in ("circle", "path")]


def center(strip, kind):
    (mark,) = (mark for mark in strip.marks if mark.attributes.get("class") == kind)
    return float(mark.attributes["cx"])


def test_distributions_are_those_of_the_training_rows():
    rng = np.random.default_rng(0)
    label, n = np.repeat([0, 1], 100), 200
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(n) % 10 == 0, np.nan, rng.normal(size=n) + label),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=n), "D"),
            "site": rng.choice(["A", "B", "C"], n, p=[0.2, 0.7, 0.1]),
            "smoker": rng.random(n) < 0.25,
            "dose": rng.choice([10.0, 20.0], n),
            "label": label,
        }
    )
    model = TableModel.fit(frame, "label", quick=True, random_state=0)
    columns = {column.name: column for column in model.profile.used}
    assert list(columns["site"].shares) == ["B", "A", "C"]
    assert set(columns["smoker"].shares) == {"false", "true"}
    assert set(columns["dose"].shares) == {"10", "20"}
    for name in ("site", "smoker", "dose"):
        assert sum(columns[name].shares.values()) == pytest.approx(1)
    size = columns["size"]
    assert frame["size"].min() <= size.low < size.fill < size.high <= frame["size"].max()
    assert size.fill == pytest.approx(frame["size"].median(), abs=0.3)
    assert list(size.usual) == sorted(set(size.usual))
    assert "the median is 2021-" in in_words(columns["when"])
    assert "site = " in render_page(report_data(model, frame.tail(40)))


@pytest.mark.parametrize(
    ("value", "shown"),
    [("4", "value"), ("11", "value"), ("99", "value arrow"), ("-1e30", "value arrow")],
)
def test_a_value_is_a_dot_or_beyond_the_picture_an_arrow(value, shown):
    assert kinds(draw(NUMBER, value, "2"))[-2:] == ["expected", shown]


def test_a_missing_value_is_not_marked():
    assert not {"value", "value arrow"} & set(kinds(draw(NUMBER, "missing", "2")))


def test_places_in_a_picture_are_in_the_order_of_the_values():
    dates = Column("when", "date", 10, usual=tuple(np.linspace(0.0, 400.0, 9).tolist()))
    for column, values in ((NUMBER, ("0.5", "2", "9")), (dates, ("1970-02-01", "1970-12-31"))):
        places = [center(draw(column, value), "value") for value in values]
        assert places == sorted(set(places))
    strip = draw(Column("x", "number", 10, usual=(5.0,) * 9), "5", "5")  # all are equal
    assert center(strip, "value") == center(strip, "expected")


@given(st.dictionaries(st.text(max_size=9), st.integers(1, 99), min_size=1, max_size=40), st.data())
def test_segments_of_a_category_fill_the_strip_and_the_value_lies_in_its_own(counts, data):
    value = data.draw(st.sampled_from(sorted(counts)))
    ordered = dict(sorted(counts.items(), key=lambda pair: -pair[1]))
    strip = draw(Column("x", "category", sum(counts.values()), counts=ordered), value)
    bars = [mark.attributes for mark in strip.marks if mark.element == "rect"]
    ends = [float(bar["x"]) + float(bar["width"]) for bar in bars]
    assert float(bars[0]["x"]) >= 0
    assert 0.97 * strip.width - 8 <= ends[-1] <= strip.width
    (own,) = (bar for bar in bars if "half" in bar["class"])
    left, wide = float(own["x"]), float(own["width"])
    assert left - 1 <= center(strip, "value") <= left + wide + 1
