"""The accuracy benchmark: every method answers, and the summary follows from the record."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import accuracy


def rows(n_rows=90, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n_rows) + 2 * labels,
            "gaps": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
            "kind": np.array(["a", "b", "c"])[(labels + (rng.random(n_rows) < 0.1)) % 3],
        }
    )
    return frame, labels


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["bacoun", "forest", "boosting", "catboost", "logistic"])
def test_a_method_learns_a_table_with_gaps_and_categories(method):
    if method == "catboost":
        pytest.importorskip("catboost")
    frame, labels = rows()
    predict = accuracy.METHODS[method](frame, labels, 0)
    new, truth = rows(seed=1)
    new.loc[0, "kind"] = "never seen"
    probabilities = predict(new)
    assert probabilities.shape == (90, 3)
    assert accuracy.quality(probabilities, truth)["accuracy"] > 0.8


def test_quality_of_known_probabilities():
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    found = accuracy.quality(probabilities, np.array([0, 1, 1]))
    assert found["accuracy"] == pytest.approx(2 / 3, abs=1e-4)
    expected = -(np.log(0.5) + np.log(0.8) + np.log(1e-12)) / 3
    assert found["log loss"] == pytest.approx(expected, abs=1e-4)


def test_development_tables_are_not_reported():
    assert not {*accuracy.DEVELOPMENT, "segment", "vehicle"} & {*accuracy.TABLES}
    assert len(accuracy.TABLES) >= 20


def test_ranks_count_only_tables_that_all_methods_were_run_on():
    def run(value):
        return {"log loss": value, "accuracy": 1 - value}

    record = {
        "runs": {
            "iris/0/bacoun": run(0.1),
            "iris/1/bacoun": run(0.3),
            "iris/0/forest": run(0.4),
            "pima/0/bacoun": run(0.9),
        }
    }
    two = ("bacoun", "forest")
    found = accuracy.means(record, "log loss", methods=two)
    assert found == {"iris": {"bacoun": 0.2, "forest": 0.4}}
    assert accuracy.mean_ranks(record, "log loss", methods=two) == {"bacoun": 1.0, "forest": 2.0}
