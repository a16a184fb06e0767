"""The tables of docs/tables.md are those of the benchmark records."""

from benchmarks.page import PAGE, page_text


def test_the_page_shows_the_records():
    text = PAGE.read_text()
    assert page_text(text) == text
