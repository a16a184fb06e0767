import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bacoun.comparison.ranking import holm, rank


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 0.9, size=30)
    noise = rng.normal(0, 0.01, size=(30, 2))
    return pd.DataFrame({"ours": base + 0.05, "near": base + 0.05 + noise[:, 0], "far": base})


def test_ranks_are_means_of_ranks_and_ties_share_them():
    found = rank(pd.DataFrame({"a": [1, 2], "b": [2, 2], "c": [0, 1]}), "a", higher_is_better=True)
    assert found.ranks.to_dict() == {"b": 1.25, "a": 1.75, "c": 3.0}
    assert list(found.ranks.index) == ["b", "a", "c"]
    reverse = rank(
        pd.DataFrame({"a": [1, 2], "b": [2, 2], "c": [0, 1]}), "a", higher_is_better=False
    )
    assert list(reverse.ranks.index) == ["c", "a", "b"]


def test_tests_are_those_of_scipy_after_holm(table):
    found = rank(table, "ours", higher_is_better=True)
    raw = [
        stats.wilcoxon(table["ours"] - table[n], zero_method="zsplit").pvalue
        for n in ("near", "far")
    ]
    assert found.wilcoxon["far"] == pytest.approx(2 * raw[1])
    assert found.wilcoxon["near"] == pytest.approx(max(raw[0], 2 * raw[1]))
    assert found.wilcoxon["far"] < 0.001 < 0.05 < found.wilcoxon["near"]


def test_a_method_equal_to_the_reference_is_not_different(table):
    found = rank(table.assign(copy=table["ours"]), "ours", higher_is_better=True)
    assert found.wilcoxon["copy"] == 1.0


def test_holm_never_makes_a_p_value_smaller_nor_larger_than_one():
    raw = pd.Series(np.random.default_rng(1).uniform(size=20), index=map(str, range(20)))
    corrected = holm(raw)
    assert (corrected >= raw - 1e-12).all()
    assert (corrected <= 1).all()
    assert (corrected[raw.sort_values().index].diff().dropna() >= 0).all()
