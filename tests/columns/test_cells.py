"""A row is read in the same way alone and in any company, strictly or leniently."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacoun.columns.cells import Cells
from bacoun.server.dialects.formats import to_frame

CELLS = st.one_of(
    st.sampled_from([1, 1.0, "1", "1.0", 0.5, True, None, "a", "", 2**60, 2**60 + 1, -3.0, 1e300]),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
)


@given(st.lists(CELLS, min_size=1, max_size=8))
def test_a_category_does_not_depend_on_the_other_rows(cells):
    together = Cells.read(to_frame({"x": cells})["x"], "category").content
    alone = [Cells.read(to_frame({"x": [cell]})["x"], "category").content[0] for cell in cells]
    assert together.tolist() == alone


def test_a_whole_number_is_the_same_category_with_and_without_decimals():
    values = Cells.read(to_frame({"x": [1, 1.0, "1", 2.5]})["x"], "category").content
    assert values.tolist() == ["1", "1", "1", "2.5"]


ODD = st.one_of(
    CELLS, st.sampled_from(["true", "NA", "2021-04-03", "1,5", b"x", 1j, Decimal("sNaN")])
)


@given(
    st.lists(ODD, min_size=1, max_size=8),
    st.sampled_from(["number", "boolean", "category", "date"]),
)
def test_strict_reading_refuses_what_lenient_reading_marks(cells, kind):
    column = pd.Series(cells, dtype=object, name="x")
    lenient = Cells.read(column, kind)
    assert not (lenient.missing & lenient.bad).any()
    if lenient.bad.any():
        first = str(cells[lenient.bad.argmax()])[:40]
        with pytest.raises(ValueError, match="column 'x' must hold") as error:
            Cells.read(column, kind, strict=True)
        assert repr(first) in str(error.value)
    else:
        strict = Cells.read(column, kind, strict=True)
        np.testing.assert_array_equal(strict.values, lenient.values)


def test_one_and_true_are_two_categories():
    cells = Cells.read(pd.Series([1, True, 1.0, "1"], dtype=object), "category")
    assert cells.counts == {"1": 3, "True": 1}
