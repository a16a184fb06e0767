import pytest

from bacoun.comparison.page import level, render_page
from bacoun.comparison.run import difficulty_table, quality_table, shift_table
from bacoun.comparison.summary import Summary


def run_of(scores, seconds=1.0):
    """A run with the AUROC, AURC and log loss of each score on two shifts."""

    def judged(auroc):
        shift = {"auroc": auroc, "fpr95": 1 - auroc, "aurc": 1 - auroc, "augrc": 0.1, "aupr": auroc}
        test = {"accuracy": auroc, "log loss": 1 - auroc, "ece": 0.1}
        return {"test": test, "shifts": {"near": shift, "far": shift | {"auroc": 0.99}}}

    return {
        "fit seconds": seconds,
        "predict seconds": 0.1,
        "scores": {name: judged(value) for name, value in scores.items()},
    }


@pytest.fixture
def record():
    hard = {"shifts": {"near": 0.55, "far": 1.0}}
    return {
        "runs": {
            "table/0/difficulty": hard,
            "table/0/bacoun": run_of({"bacoun": 0.9}, seconds=5.0),
            "table/1/bacoun": run_of({"bacoun": 0.8}, seconds=7.0),
            "table/0/mlp": run_of({"mlp, energy": 0.4, "mlp, entropy": 0.5}),
            "table/0/kNN": {"failed": "ValueError: <b>too few</b> rows"},
        }
    }


def test_tables_are_means_over_seeds(record):
    found = shift_table(record, "auroc")
    assert list(found.columns) == ["bacoun", "mlp, energy", "mlp, entropy"]
    assert found.loc[("table", "near"), "bacoun"] == pytest.approx(0.85)
    assert quality_table(record, "log loss").loc[("table", "test"), "bacoun"] == pytest.approx(0.15)
    assert quality_table(record, "fit seconds").loc[("table", "test"), "bacoun"] == 6.0
    assert difficulty_table(record)[("table", "far")] == 1.0


def test_what_some_method_lacks_is_in_no_mean(record):
    record["runs"]["other/0/bacoun"] = run_of({"bacoun": 0.1})
    assert [case for case, _ in shift_table(record, "auroc").index] == ["table", "table"]


def test_the_verdict_names_the_best_even_if_it_is_not_ours(record):
    assert Summary.of(record).verdict[0].startswith("AUROC: bacoun is first")
    record["runs"]["table/0/LOF"] = run_of({"LOF": 0.95})
    record["runs"]["table/0/forest"] = run_of({"forest": 0.93})
    verdict = Summary.of(record).verdict
    assert verdict[2].startswith("log loss: LOF is first by mean rank (0.050), then forest")
    assert verdict[2].endswith("bacoun is number 3 (0.150).")


def test_a_shift_that_nothing_can_notice_is_held_against_no_method(record):
    assert Summary.of(record).hidden == []  # ours notices it
    for name in ("table/0/bacoun", "table/1/bacoun"):
        record["runs"][name] = run_of({"bacoun": 0.52})
    assert Summary.of(record).hidden == ["near (table)"]


def test_the_page_escapes_what_it_is_given(record):
    page = render_page(Summary.of(record), {"table": "<script>.csv", "target": "y"})
    assert "&lt;script&gt;.csv" in page
    assert "&lt;b&gt;too few&lt;/b&gt;" in page
    assert "<b>too few" not in page


def test_nothing_to_compare_is_an_error():
    with pytest.raises(ValueError, match="none was: ValueError: no"):
        Summary.of({"runs": {"a/0/b": {"failed": "ValueError: no"}}})


def test_shades_rise_with_auroc():
    shades = [level(value / 100) for value in range(101)]
    assert shades == sorted(shades)
    assert (shades[50], shades[100]) == (0, 5)
