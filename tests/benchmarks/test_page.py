"""The tables of the pages are those of the benchmark records."""

import pytest
from benchmarks.page import DOCS, STUDIES, page_text


@pytest.mark.parametrize("page", STUDIES)
def test_a_page_shows_the_records(page):
    text = (DOCS / page).read_text()
    assert page_text(page, text) == text
