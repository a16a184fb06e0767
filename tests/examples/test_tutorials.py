"""The tutorials on deferring: their commands run, and their pages say what was measured."""

import json
import re
import shlex
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from examples.deferring import WAYS, Costs
from examples.tutorial import cost_table
from PIL import Image
from reproduction.datasets.sources import locate
from sklearn.exceptions import ConvergenceWarning

from bacoun.cli import main
from examples import help_desk, solar_cells

TUTORIALS = {"help-desk": help_desk, "solar-cells": solar_cells}
NEEDS = {"help-desk": "clinc", "solar-cells": "elpv"}
FOLDERS = {name: name.replace("-", "_") for name in TUTORIALS}


def need(name):
    """Skip a test of data that is not on this machine."""
    if locate(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not on this machine; set BACOUN_DATA")


@pytest.fixture(scope="module", params=TUTORIALS)
def run(request, tmp_path_factory):
    """Name, record and folder of a tutorial's quick run."""
    need(request.param)
    folder = tmp_path_factory.mktemp("tutorial") / FOLDERS[request.param]
    record = TUTORIALS[request.param].main(["--quick", "--out", str(folder)])
    return request.param, record, folder


# --- the commands ---------------------------------------------------------------------------------


def test_a_quick_run_writes_its_numbers_and_every_figure_of_the_page(run):
    name, record, folder = run
    assert json.loads((folder / f"{FOLDERS[name]}.json").read_text()) == record
    shown = re.findall(rf"images/({name}-\w+\.png)", TUTORIALS[name].TUTORIAL.page.read_text())
    assert sorted(shown) == sorted(path.name for path in folder.glob("*.png"))
    for figure in shown:
        with Image.open(folder / figure) as image:
            assert min(image.size) > 150


def test_every_block_of_the_page_can_be_made_from_a_run(run):
    name, record, _ = run
    tutorial = TUTORIALS[name].TUTORIAL
    text = tutorial.page.read_text()
    assert tutorial.page_text(text, record) != text
    assert len(re.findall("<!-- end -->", text)) == len(tutorial.blocks(record))


def test_costs_follow_from_what_is_deferred_and_what_is_wrong(run):
    _, record, _ = run
    wrong, look = record["costs"]["wrong"], record["costs"]["look"]
    compared = record["compared"]
    for ways in [compared] if WAYS[0] in compared else compared.values():
        assert [*ways] == [*WAYS]
        assert ways[WAYS[0]] == {"cost": 1000 * look, "deferred": 1000, "wrong": 0}
        for name, way in ways.items():
            expected = wrong * way["wrong"] + look * way["deferred"]
            assert way["cost"] == pytest.approx(expected, abs=0.01)
            if "answers everything" in name:
                assert way["deferred"] == 0
            elif name.startswith("bacoun"):
                assert way["wrong"] <= ways["bacoun answers everything"]["wrong"]


def test_what_is_unlike_the_training_rows_is_deferred_as_unfamiliar(run):
    name, record, _ = run
    groups = [*record["outcomes"].values()]
    for shares in groups:
        assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    known, unlike = groups[0], groups[1 if name == "help-desk" else 2]
    share = "deferred: unfamiliar"
    assert unlike[share] > 0.5 > known[share]


def test_the_commands_and_the_code_of_the_page_run_on_its_data(run, monkeypatch, capsys):
    name, _, folder = run
    monkeypatch.chdir(folder.parent)
    page = TUTORIALS[name].TUTORIAL.page.read_text()
    first, commands = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert first == f"python -m examples.{FOLDERS[name]}\n"  # which is the run itself
    for line in commands.splitlines():
        main(shlex.split(line.replace("bacoun fit", "bacoun fit --quick"))[1:])
    from_commands = pd.read_csv(folder / "scored.csv", keep_default_na=False)
    code = "".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    assert code.count("TableModel.fit(") == 1
    namespace = {"__name__": "__page__", "partial": partial}
    quick = code.replace("TableModel.fit(", "partial(TableModel.fit, quick=True)(")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of quick fits
        exec(compile(quick, "<page>", "exec"), namespace)
    scored = namespace["scored"]
    for column in ("prediction", "decision", "reason", "because"):
        assert scored[column].tolist() == from_commands[column].tolist()
    assert any(reason in capsys.readouterr().out for reason in ("defer", "unfamiliar"))


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_quick_run_does_not_change_the_page(name, tmp_path, capsys):
    with pytest.raises(SystemExit):
        TUTORIALS[name].main(["--quick", "--docs", "--out", str(tmp_path)])
    assert "leave out --quick" in capsys.readouterr().err


# --- the pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_page_shows_the_record(name):
    tutorial = TUTORIALS[name].TUTORIAL
    text, record = tutorial.page.read_text(), json.loads(tutorial.record.read_text())
    assert tutorial.page_text(text, record) == text
    rows = [line for line in text.splitlines() if line.startswith("| a person")]
    assert all("1,000" in row for row in rows)
    costs = TUTORIALS[name].COSTS
    assert record["costs"]["wrong"] == costs.wrong
    assert f"costs **{costs.wrong}**" in text
    assert f"costs **{costs.look}**" in text
    assert f"max_error_probability=1 / {costs.wrong / costs.look:.0f}" in text


# --- costs ----------------------------------------------------------------------------------------


def test_the_cost_of_a_known_stream():
    weights = np.array([0.5, 0.25, 0.25])
    wrong, deferred = np.array([0.0, 1.0, 1 / 3]), np.array([False, False, True])
    found = Costs(wrong=8, look=2).per_thousand(weights, wrong, deferred)
    assert found == {"cost": 2000 + 500, "deferred": 250, "wrong": 250}


def test_a_curve_begins_with_no_deferral_and_each_point_is_the_cost_of_its_threshold():
    rng = np.random.default_rng(0)
    costs, weights = Costs(wrong=10, look=1), rng.dirichlet(np.ones(40))
    wrong, doubt = rng.random(40), rng.permutation(40)
    deferred, cost = costs.curve(weights, wrong, doubt)
    assert len(cost) == 41
    for count in range(41):
        expected = costs.per_thousand(weights, wrong, doubt >= 40 - count)
        assert 1000 * deferred[count] == pytest.approx(expected["deferred"])
        assert cost[count] == pytest.approx(expected["cost"])


def test_the_least_cost_of_a_table_is_bold():
    costs = {"a": 300.0, "b": 1200.0, "c": 250.0}
    table = cost_table(
        {name: {"cost": cost, "deferred": 1, "wrong": 2} for name, cost in costs.items()}
    )
    assert re.findall(r"\| (\w) \| \*\*(.*?)\*\*", table) == [("c", "250")]
    assert table.count("**") == 2


# --- the data -------------------------------------------------------------------------------------


def test_questions_to_measure_with_are_no_training_questions():
    need("help-desk")
    tables = help_desk.read_questions()
    assert {name: len(table) for name, table in tables.items()} == {
        "train": 1500,
        "known": 900,
        "outside": 1000,
    }
    assert set(tables["train"]["intent"]) == set(tables["known"]["intent"])
    assert set(tables["outside"]["intent"]) == {"oos"}
    texts = {name: set(table["text"]) for name, table in tables.items()}
    assert not texts["outside"] & (texts["train"] | texts["known"])
    assert not texts["train"] & texts["known"]
    assert not set(help_desk.ASKED) & texts["train"]


def test_cells_to_train_on_are_those_that_experts_are_sure_of(tmp_path):
    need("solar-cells")
    cells = solar_cells.read_cells()
    assert len(cells) == cells["path"].nunique() == 2624
    assert cells["use"].value_counts().to_dict() == {
        "more": 775,
        "poly": 775,
        "train": 645,
        "mono": 429,
    }
    assert set(cells["kind"][cells["use"].isin(["train", "mono"])]) == {"mono"}
    written = solar_cells.write_photos(cells.groupby(["use", "label"]).head(2), tmp_path)
    assert sorted(path.name for path in (tmp_path / "train").iterdir()) == [
        "defective",
        "functional",
    ]
    assert set(written["label"][written["use"] == "train"]) == {"0", "1"}
    assert set(written["label"][written["use"] == "poly"]) == {"0", "1/3", "2/3", "1"}
    for photo in written["photo"]:
        with Image.open(photo) as image:
            assert image.size == (300, 300)
