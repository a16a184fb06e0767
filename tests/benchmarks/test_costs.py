"""The pages on scale say what their records say, and only if these are complete."""

import pytest

from benchmarks import costs, out_of_core


def cost_record(n_features=80):
    """A row costs 1 microsecond for each column, class and hundred draws, whatever is done."""
    runs = {
        str(size): dict.fromkeys(costs.COSTS, size.columns + size.classes + size.draws / 100)
        | {"passes of sums": 6, "features of a row": n_features}
        for size in costs.SIZES
    }
    return {"runs": runs}


def test_costs_add_up_to_those_of_a_billion_rows():
    text = costs.markdown(cost_record())
    assert "| 20 columns, 3 classes, 500 draws | 28.0 | 28.0 | 28.0 | 28.0 |" in text
    assert "One more column adds 1.00 microseconds" in text
    hour = 28e-6 * 1e9 / 3600
    assert f"take {hour:.1f} hours of one core to score" in text
    assert f"To fit them takes {8 * hour:.1f} hours" in text
    assert "320 GB on disk" in text
    assert "refused above 124 classes" in text


def test_nothing_is_foretold_from_half_a_record():
    record = cost_record()
    del record["runs"][str(costs.SIZES[-1])]
    assert costs.outlook(record) == []
    assert len(costs.rows_of(record)[1]) == len(costs.SIZES) - 1


def test_growth_goes_on_as_a_power():
    record = cost_record()
    for size in costs.GROWTH["classes"]:
        record["runs"][str(size)]["sums"] = float(size.classes**2)
    assert costs.grown(record, "classes", "sums", 1000) == pytest.approx(1e6)


def fit_record(**changes):
    run = {"rows": 100, "seconds of fit": 60.0, "peak megabytes": 1024, "coreset difference": 0.1}
    run |= {
        "processor seconds": 30.0,
        "accuracy": 0.9,
        "log loss": 0.3,
        "AUROC class": 0.8,
        "load of the machine before": 0.0,
    }
    return {"runs": {out_of_core.IN_MEMORY: run, out_of_core.STREAMED: run | changes}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accuracy": 0.897}, "-0.0030 at worst, within the promised 0.005 and 3 GB"),
        ({"AUROC class": 0.79}, "-0.0100 at worst, not within the promised"),
        ({"peak megabytes": 4096}, "not within"),
    ],
)
def test_a_broken_promise_is_not_hidden(changes, words):
    assert words in out_of_core.markdown(fit_record(**changes))


def test_rows_are_drawn_again_the_same_and_unknown_ones_differ():
    rows = out_of_core.draw(50, seed=1)
    assert rows.equals(out_of_core.draw(50, seed=1))
    assert set(rows["label"]) == set(range(out_of_core.N_CLASSES))
    unknown = out_of_core.unknown_rows(rows)
    assert (unknown["moved"].to_numpy() != rows.drop(columns="label").to_numpy()).sum() == 50
    assert sorted(unknown["shuffled"]["column 3"]) == sorted(rows["column 3"])
