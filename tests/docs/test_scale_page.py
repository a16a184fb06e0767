"""The Dask example of the page on scale runs as it stands."""

import re
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_iris

from bacoun.cli import main
from bacoun.tabular import TableModel

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "scale.md").read_text()
IRIS = load_iris(as_frame=True).frame


def code_of(title):
    """The blocks of Python below a heading, as one program."""
    section = re.search(rf"^##+ {title}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))


@pytest.fixture
def here(iris_model, tmp_path, monkeypatch):
    """A working directory with a model and the files that the page names."""
    monkeypatch.chdir(tmp_path)
    iris_model.save("model")
    Path("new").mkdir()
    for number in range(2):
        IRIS.drop(columns="target").to_parquet(f"new/{number}.parquet")


@pytest.mark.usefixtures("here")
def test_dask_scores_and_keeps_the_columns(capsys):
    pytest.importorskip("dask.dataframe")
    exec(compile(code_of("Dask"), "<page>", "exec"), {"__name__": "__page__"})
    joined = pd.read_parquet("joined")
    assert len(joined) == 2 * len(IRIS)
    expected = TableModel.load("model").score(IRIS.drop(columns="target"))
    assert list(joined) == [*IRIS.drop(columns="target"), *expected]
    accepted = (joined["decision"] == "accept").sum()
    assert f"accept    {accepted}" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_parts_are_read_in_the_order_of_the_rows():
    main(["predict", "model", "new/*.parquet", "--out", "scored"])
    namespace = {"__name__": "__page__"}
    exec(compile(code_of("After an interruption"), "<page>", "exec"), namespace)
    assert len(namespace["scored"]) == 2 * len(IRIS)


@pytest.mark.parametrize(
    "title",
    [
        "Spark",
        "Ray",
        "Fit to more rows than fit into memory",
        "Flows and ensembles on a cluster",
        "Networks on several processes",
    ],
)
def test_the_other_examples_compile(title):
    compile(code_of(title), "<page>", "exec")
