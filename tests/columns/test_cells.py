"""30.13: a row is read in the same way alone and in any company."""

from hypothesis import given
from hypothesis import strategies as st

from bacoun.columns.cells import Cells
from bacoun.server.dialects.tables import to_frame

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
