"""30.16: tables of polars and Arrow go in and come out."""

import polars
import pyarrow
import pytest
from sklearn.datasets import load_iris

from bacoun.columns.checks import check_table
from bacoun.tabular import TableModel

IRIS = load_iris(as_frame=True).frame
KINDS = {"polars": polars.from_pandas, "arrow": pyarrow.Table.from_pandas}


@pytest.fixture(scope="module")
def model(fast):
    return TableModel.fit(IRIS, "target", classifier=fast())


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_another_library_is_fitted_as_that_of_pandas(model, fast, kind):
    other = TableModel.fit(KINDS[kind](IRIS), "target", classifier=fast())
    rows = IRIS.drop(columns="target").head(5)
    assert other.score(rows).equals(model.score(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_come_back_as_what_came_in(model, kind):
    rows = IRIS.drop(columns="target").head(5)
    given = KINDS[kind](rows)
    scored = model.score(given, because=True)
    assert type(scored) is type(given)
    expected = model.score(rows, because=True)
    assert scored.to_pandas()["decision"].tolist() == expected["decision"].tolist()
    assert scored.to_pandas()["total"].tolist() == expected["total"].tolist()
    assert model.explain(given) == model.explain(rows)
    assert check_table(model.profile, given) == check_table(model.profile, rows)


def test_what_is_no_table_is_refused_in_one_sentence(model):
    with pytest.raises(TypeError, match="or an Arrow table; got list"):
        model.score([[1, 2]])
