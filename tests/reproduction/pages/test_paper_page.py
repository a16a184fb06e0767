"""The page is what the records say, and the records are what the experiment files ask for."""

from pathlib import Path

import numpy as np
import pytest
from reproduction.pages.claims import FAILS, HOLDS, OPEN, Results
from reproduction.pages.paper_page import CLAIMS, page_text
from reproduction.pages.tables import number, spread
from reproduction.run import _is_done

from reproduction import Record, load_records, names, read_experiment

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", names())
def test_every_record_was_made_with_the_settings_of_the_file(name):
    experiment = read_experiment(name)
    for record in load_records(RESULTS, name):
        assert _is_done(experiment, RESULTS, record.method, record.seed), record.method


def test_the_page_in_the_docs_is_the_one_these_records_give():
    page = ROOT / "docs" / "paper.md"
    assert page.read_text() == page_text(Results(RESULTS), RESULTS, page)


def test_without_records_nothing_is_decided(tmp_path):
    text = page_text(Results(tmp_path), tmp_path, tmp_path / "paper.md")
    assert text.count(f"**{OPEN}**") == len(CLAIMS)
    assert HOLDS not in text.split("## Tables")[0].replace("whether it holds", "")


def test_a_claim_follows_its_numbers(tmp_path):
    claim = next(c for c in CLAIMS if "equally accurate" in c.statement)

    def results(gap):
        for k, m in enumerate(("BaCOUn", "BaCOUn, paper", "NLM", "BNN", "MC-Dropout", "GP")):
            numbers = {"accuracy": 0.95 - gap * (k == 3)}
            Record("gmm", m, 0, "", {}, {}, 0.0, numbers).save(tmp_path)
        return Results(tmp_path)

    assert claim.check(results(0.01))[1] == HOLDS
    assert claim.check(results(0.05))[1] == FAILS
    assert "BNN 0.900" in claim.check(results(0.05))[0]


def test_spread_is_mean_and_standard_deviation():
    assert spread(np.array([1.0, 2.0, 3.0])) == "2.000 ± 1.000"
    assert spread(np.array([0.5])) == "0.500"
    assert spread(np.array([])) == "-"
    assert number(-0.25) == "-0.250"
