"""Dates are read and written as pandas does."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.columns import dates

DAY = datetime(1890, 1, 1), datetime(2190, 1, 1)
MOMENTS = st.lists(st.datetimes(*DAY), min_size=1, max_size=20)
SECONDS = MOMENTS.map(lambda moments: [each.replace(microsecond=0) for each in moments])
FORMATS = {
    "%Y-%m-%d": dates.ISO,
    "%Y-%m-%dT%H:%M:%S": dates.ISO,
    "%Y-%m-%d %H:%M:%S.%f": dates.ISO,
    "%Y-%m-%dT%H:%MZ": dates.ISO,
    "%Y/%m/%d": "%Y/%m/%d",
    "%d.%m.%Y": "%d.%m.%Y",
    "%d/%m/%Y": "%d/%m/%Y",
    "%m/%d/%Y": "%m/%d/%Y",
    "%d-%m-%Y": "%d-%m-%Y",
    "%m-%d-%Y": "%m-%d-%Y",
}


def as_text(values) -> np.ndarray:
    return np.array(values, dtype=object)


def days_of(moments) -> np.ndarray:
    since = pd.DatetimeIndex(moments) - pd.Timestamp(0)
    return np.asarray(since / pd.Timedelta(days=1))


@pytest.mark.parametrize(("written", "expected"), FORMATS.items())
@given(moments=MOMENTS)
@settings(deadline=None, max_examples=20)
def test_text_is_parsed_in_the_format_that_is_found(written, expected, moments):
    moments = [*moments, datetime(2020, 12, 31)]  # which tells day and month apart
    text = as_text([moment.strftime(written) for moment in moments])
    assert dates.find_format(text) == expected
    again = [datetime.strptime(each, written) for each in text]
    np.testing.assert_allclose(dates.parse(text, expected), days_of(again), rtol=0, atol=1e-8)


@given(moments=SECONDS)
@settings(deadline=None, max_examples=50)
def test_months_and_weekdays_are_those_of_pandas(moments):
    index, days = pd.DatetimeIndex(moments), days_of(moments)
    np.testing.assert_array_equal(dates.month(days), index.month)
    np.testing.assert_array_equal(dates.weekday(days), index.day_of_week + 1)


@given(moments=SECONDS)
@settings(deadline=None, max_examples=50)
def test_a_date_is_written_as_it_is_read(moments):
    for moment, days in zip(moments, days_of(moments), strict=True):
        midnight = np.floor(days)
        assert dates.as_text(midnight) == moment.strftime("%Y-%m-%d")
        assert dates.parse(as_text([dates.as_text(midnight)]), dates.ISO) == midnight
        minutes = midnight + (60 * moment.hour + moment.minute) / 1440
        shown = "%Y-%m-%d" if minutes == midnight else "%Y-%m-%d %H:%M"
        assert dates.as_text(minutes) == moment.strftime(shown)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0.0, "1970-01-01"),
        (-1.0, "1969-12-31"),
        (0.5, "1970-01-01 12:00"),
        (-0.25, "1969-12-31 18:00"),
        (11016.0, "2000-02-29"),
        (-354650.0, "0999-01-01"),
        (2932896.0, "9999-12-31"),
    ],
)
def test_known_dates(days, text):
    assert dates.as_text(days) == text
    assert dates.find_format(as_text([text])) == dates.ISO
    assert dates.parse(as_text([text]), dates.ISO) == days


@pytest.mark.parametrize("text", [["03/04/2021"], ["01-02-2021", "12-11-2021"], ["5/6/2021"]])
def test_day_and_month_that_cannot_be_told_apart_are_refused(text):
    with pytest.raises(ValueError, match=rf"cannot be told apart in dates such as '{text[0]}'"):
        dates.find_format(as_text(text))


@pytest.mark.parametrize(
    "text",
    [
        ["monday"],
        ["2021-04-03", "03.04.2021"],  # two formats
        ["2021-04-03", "soon"],
        ["2021-02-30"],
        ["31/12/2021", "12/31/2021"],
        ["2021-04"],
        ["20210403"],
        ["1.2.21"],
        ["192.168.2021"],
        ["2021-04-03 and more"],
    ],
)
def test_what_is_no_date_has_no_format(text):
    assert dates.find_format(as_text(text)) is None


def test_text_that_is_no_date_is_a_gap():
    days = dates.parse(as_text(["03.04.2021", "2021-04-03", None, ""]), "%d.%m.%Y")
    np.testing.assert_array_equal(days, [18720.0, np.nan, np.nan, np.nan])


def test_zones_are_brought_to_utc():
    text = as_text(["2021-04-03T02:00:00+02:00", "2021-04-03T00:00:00Z", "2021-04-03"])
    assert dates.find_format(text) == dates.ISO
    np.testing.assert_array_equal(dates.parse(text, dates.ISO), [18720.0] * 3)
    zoned = pd.Series(pd.to_datetime(["2021-04-03 02:00"]).tz_localize("Europe/Berlin"))
    np.testing.assert_array_equal(dates.as_days(zoned), [18720.0])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_in_any_unit_are_days(unit):
    moments = ["1969-12-31 18:00", "2021-04-03 00:00"]
    column = pd.Series(pd.to_datetime([*moments, None])).dt.as_unit(unit)
    assert dates.is_timestamps(column)
    np.testing.assert_array_equal(dates.as_days(column), [-0.25, 18720.0, np.nan])


def test_only_timestamps_and_dates_are_timestamps():
    day = datetime(2021, 4, 3)
    assert dates.is_timestamps(pd.Series([day.date(), None], dtype=object))
    assert dates.is_timestamps(pd.Series([day, None], dtype=object))
    for other in (["2021-04-03"], [1.5], [None, None], [day, "2021-04-03"]):
        assert not dates.is_timestamps(pd.Series(other, dtype=object))
