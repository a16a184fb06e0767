"""The page is what the records say, and the records are what the experiment files ask for."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproduction.pages.blocks import PAGES, with_block, with_tables
from reproduction.pages.claims import (
    BOTH,
    FAILS,
    HOLDS,
    OPEN,
    UNDECIDED,
    Results,
    above,
    all_of,
    any_of,
    below,
    negated,
    told,
)
from reproduction.pages.names import baselines
from reproduction.pages.paper_page import CLAIMS, page_text
from reproduction.pages.readings_page import distance, readings_text
from reproduction.pages.tables import number, spread
from reproduction.run import _is_done

from reproduction import Record, names, read_experiment

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", names())
def test_every_record_was_made_with_the_settings_of_the_file(name):
    experiment = read_experiment(name)
    for path in (RESULTS / name).glob("*.json"):
        record = Record.load(path)
        assert record.method not in experiment.record_of, record.method
        assert _is_done(experiment, RESULTS, record.method, record.seed), record.method


def test_the_page_in_the_docs_is_the_one_these_records_give():
    page = ROOT / "docs" / "paper.md"
    assert page.read_text() == page_text(Results(RESULTS), RESULTS, page)


def test_readings_are_those_these_records_give():
    assert (ROOT / "docs" / "readings.md").read_text() == readings_text(RESULTS)


@pytest.mark.parametrize("name", PAGES)
def test_tables_in_pages_are_those_of_the_records(name):
    text = (ROOT / "docs" / name).read_text()
    assert text == with_tables(RESULTS, text)
    assert "| method |" in text


def test_a_block_is_replaced_whole_and_must_be_there_once():
    page = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\n"
    assert with_block(page, "x", "new\n").startswith("a\n<!-- x -->\n\nnew\n\n<!-- end -->\nb\n")
    with pytest.raises(ValueError, match="must have one block 'z'; it has 0"):
        with_block(page, "z", "")


def test_distance_is_the_mean_log_ratio_to_what_was_published():
    experiment = read_experiment("readings-wine")
    published = {"auc": 0.862, "epistemic": {"in": 0.089e-2, "ood": 0.667e-2}}
    exact = [Record("readings-wine", "/ 64", 0, "", {}, {}, 0.0, published)]
    assert distance(experiment, exact, "/ 64") == pytest.approx(0, abs=1e-12)
    doubled = {"auc": 0.862, "epistemic": {"in": 0.089e-2, "ood": 2 * 0.667e-2}}
    other = [Record("readings-wine", "/ N", 0, "", {}, {}, 0.0, doubled)]
    assert distance(experiment, other, "/ N") == pytest.approx(np.log(2) / 3)


def test_without_records_nothing_is_decided(tmp_path):
    text = page_text(Results(tmp_path), tmp_path, tmp_path / "paper.md")
    assert text.count(f"**{OPEN}**") == sum(1 if claim.shared else 2 for claim in CLAIMS)
    assert not any(f"**{verdict}**" in text for verdict in (HOLDS, FAILS, UNDECIDED))


def test_a_claim_follows_its_numbers(tmp_path):
    claim = next(c for c in CLAIMS if "equally accurate" in c.statement)

    def results(gap):
        for k, m in enumerate(("BaCOUn", "BaCOUn, paper", "NLM", "BNN", "MC-Dropout", "GP")):
            for seed in range(3):
                numbers = {"accuracy": 0.95 + 0.001 * seed - gap * (k == 3)}
                Record("gmm", m, seed, "", {}, {}, 0.0, numbers).save(tmp_path)
        return Results(tmp_path)

    near = results(0.01)
    assert [claim.weigh(near, variant) for variant in BOTH] == [HOLDS, HOLDS]
    apart = results(0.05)
    assert [claim.weigh(apart, variant) for variant in BOTH] == [FAILS, FAILS]
    assert "| BNN | 0.901 ± 0.0010 |" in claim.measured(apart).replace("1.0e-03", "0.0010")


def test_a_cell_that_was_not_measured_is_a_dash_unless_all_are():
    def cell(row, column):
        if (row, column) != ("a", "x"):
            raise KeyError("gmm: no y of b")
        return "1"

    assert told("Lead.", "m", "ab", "xy", cell).splitlines()[-2:] == [
        "| a | 1 | - |",
        "| b | - | - |",
    ]
    with pytest.raises(KeyError, match="no y of b"):
        told("Lead.", "m", "b", "xy", cell)


def test_single_images_are_weighed_where_a_rule_finds_them(tmp_path):
    """BaCOUn has 1 nat about the image that the rule chooses, the others 0.5, 0.1 elsewhere."""
    claim = next(c for c in CLAIMS if "a BNN gets wrong" in c.statement)
    labels = np.array([3, 3, 3], dtype=np.uint8)
    for seed in (0, 1):
        for method in (*baselines("mnist-examples"), *BOTH):
            is_ours, is_bnn = method.startswith("BaCOUn"), method == "BNN"
            wrong = np.array([3, 8, 8], dtype=np.uint8) if is_bnn else labels
            epistemic = np.array([0.1, 1.0 + 0.1 * seed if is_ours else 0.5, 0.1])
            arrays = {"total in": np.array([0.0, 0.2, 0.9]), "epistemic in": epistemic}
            arrays |= {"predicted in": wrong, "labels in": labels}
            arrays |= {f"{part} usps": np.zeros(3) for part in ("total", "epistemic")}
            arrays |= {"predicted usps": labels, "labels usps": labels}
            Record("mnist-examples", method, seed, "", {}, {}, 0.0, {"x": 0}, arrays).save(tmp_path)
    results = Results(tmp_path)
    assert [claim.weigh(results, variant) for variant in BOTH] == [HOLDS, HOLDS]
    assert "| NLM | 0.500 ± 0 |" in claim.measured(results)


def by_seed(*values):
    return pd.Series(dict(enumerate(values)))


def test_two_standard_errors_decide():
    values = by_seed(1.0, 2.0, 3.0)  # mean 2, standard error 0.577
    assert above(values, 0.8) == HOLDS
    assert above(values, 0.9) == above(values, 3.1) == UNDECIDED
    assert above(values, 3.2) == below(values, 0.8) == FAILS
    assert below(values, 3.2) == HOLDS


def test_differences_are_taken_seed_by_seed():
    noisy = by_seed(1.0, 5.0, 9.0)
    assert above(noisy + 0.1, noisy) == HOLDS
    assert above(noisy + 0.1, 5.0) == UNDECIDED
    only_two = pd.Series({1: 4.9, 2: 8.9})
    assert above(noisy, only_two) == HOLDS  # the first seed has no partner
    assert above(by_seed(7.0), 1.0) == UNDECIDED  # one seed decides nothing


def test_a_claim_of_several_parts_is_as_good_as_its_worst_part():
    assert all_of([HOLDS, HOLDS]) == HOLDS
    assert all_of([HOLDS, UNDECIDED]) == UNDECIDED
    assert all_of([UNDECIDED, FAILS, HOLDS]) == FAILS
    assert any_of([FAILS, HOLDS]) == HOLDS
    assert any_of([FAILS, UNDECIDED]) == UNDECIDED
    assert any_of([FAILS, FAILS]) == FAILS
    assert negated(UNDECIDED) == UNDECIDED


def test_spread_is_mean_and_standard_deviation():
    assert spread(np.array([1.0, 2.0, 3.0])) == "2.000 ± 1.000"
    assert spread(np.array([0.5])) == "0.500"
    assert spread(np.array([])) == "-"
    assert number(-0.25) == "-0.250"
