"""A fitted model, whose table has names that try to break out of a page."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from bacoun.report.data import report_data
from bacoun.tabular import TableModel

NASTY = "<script>window.broken = 1</script>\"'&<img src=x onerror='window.broken=1'>"


@pytest.fixture(scope="session")
def nasty():
    """A name that runs a script wherever it is not escaped."""
    return NASTY


@pytest.fixture(scope="session")
def table():
    frame = load_breast_cancer(as_frame=True).frame
    named = frame.assign(diagnosis=np.where(frame["target"] == 0, "malignant", NASTY))
    named["ward"] = np.where(np.arange(len(named)) % 3 == 0, "A", "B")
    named = named.rename(columns={"mean radius": NASTY})
    columns = [NASTY, "mean texture", "worst area", "worst symmetry", "ward", "diagnosis"]
    return named[columns].sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="session")
def model(table):
    return TableModel.fit(table.head(400), "diagnosis", quick=True, random_state=0)


@pytest.fixture(scope="session")
def real(model, table):
    """The report of a fitted model, with names that try to break out."""
    strange = table.tail(60).assign(**{"worst area": 9_000.0, "ward": "Z"})
    names = {"model": NASTY, "test": f"{NASTY}.csv", "ood": NASTY}
    return report_data(model, table.tail(169), strange.drop(columns="diagnosis"), names=names)
