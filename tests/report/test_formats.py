"""Numbers as the report writes them."""

import math

import pytest

from bacoun.report.formats import digits, nats, percent, rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.974), "97.4\N{NO-BREAK SPACE}%"),
        (percent(1.0), "100\N{NO-BREAK SPACE}%"),
        (percent(0.9999), "over 99.9\N{NO-BREAK SPACE}%"),
        (percent(0.0), "0\N{NO-BREAK SPACE}%"),
        (digits(0.12345), "0.123"),
        (digits(0.0), "0"),
        (digits(1e-9), "under 0.0001"),
        (digits(math.inf), "infinite"),
        (nats(12.345), "12.3 nats"),
        (nats(0.01), "under 0.1 nats"),
        (nats(1e30), "over 1,000 nats"),
        (rows(1), "1 row"),
        (rows(1234), "1,234 rows"),
        (rows(2, "error"), "2 errors"),
    ],
)
def test_numbers_are_rounded_and_small_or_large_ones_named(text, expected):
    assert text == expected
