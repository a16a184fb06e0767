"""The worked examples of CONTRIBUTING.md run as they stand, and name every file they touch."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator
from tests.server.conftest import running

from bacoun import BaCOUnClassifier, baselines, boundary, posterior

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(
    r"^```(?:python|jinja)\n(?:# |\{# )(\S+)(?: #\})?\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
SECTIONS = {
    title: BLOCK.findall(text)
    for title, text in re.findall(
        r"^### (.+?): .*?\n(.*?)(?=^###? |\Z)", PAGE, re.DOTALL | re.MULTILINE
    )
}
GRID = np.random.default_rng(0).uniform(-3, 3, (50, 2))


@pytest.fixture
def added(monkeypatch):
    """A function that carries out an example, and what it adds to KINDS and to QUICK."""

    def run(title, kinds):
        module = ModuleType("worked_example")  # a real one, so that its classes can be pickled
        monkeypatch.setitem(sys.modules, module.__name__, module)
        names = vars(module)
        names |= {"KINDS": dict(kinds), "QUICK": {}}
        for file, code in SECTIONS[title]:
            exec(compile(code, file, "exec"), names)
        for kind in names["KINDS"].keys() - kinds.keys():
            monkeypatch.setitem(kinds, kind, names["KINDS"][kind])
        return names

    return run


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package in which the examples that need no fit of their own are carried out."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for title in COPIED:
        for file, code in SECTIONS[title]:
            path = folder / file
            before = path.read_text() if path.exists() else ""
            name = code.split()[0]  # an assignment replaces the one that is there
            line = re.search(rf"^{re.escape(name)} = .*\n", before, re.MULTILINE)
            path.write_text(before.replace(line[0], code) if line else f"{before}\n{code}")
    return folder / "src"


def in_copy(copy, *arguments):
    command = [sys.executable, "-c", *arguments]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


# Several commands in one process, as its imports take longer than all else.
BACOUN = """
import json, sys
from bacoun.cli import main
for words in json.loads(sys.argv[1]):
    main(words)
    print("---", flush=True)
"""
COPIED = ("A check of a table", "A section of the report", "A dialect of the server", "A command")


@pytest.mark.parametrize("title", SECTIONS)
def test_an_example_names_every_file_and_only_the_first_is_new(title):
    files = [ROOT / file for file, _ in SECTIONS[title]]
    assert 0 < len(files) <= (3 if title == "A baseline" else 2)
    assert [file.exists() for file in files] == [False] + [True] * (len(files) - 1)


def test_there_are_seven_worked_examples():
    assert len(SECTIONS) == 7


def test_a_check_a_section_and_a_command_are_where_users_look(copy, iris_model, tmp_path):
    iris_model.save(tmp_path / "model")
    table = load_iris(as_frame=True).frame
    pd.concat([table] * 4).to_csv(tmp_path / "same.csv", index=False)
    table.to_csv(tmp_path / "test.csv", index=False)
    model, page = str(tmp_path / "model"), tmp_path / "report.html"
    report = ["report", model, str(tmp_path / "test.csv"), "--target", "target", "--out", str(page)]
    check = ["check", model, str(tmp_path / "same.csv"), "--json"]
    said = in_copy(copy, BACOUN, json.dumps([["classes", model], check, report])).split("---")
    assert said[0].split() == ["0", "1", "2"]
    assert " % of the rows are copies of others in this table." in said[1]
    assert re.search(r"150\srows; their mean confidence is \S+\s%", page.read_text())


def test_a_dialect_is_served_and_documented(copy, iris_model, tmp_path):
    iris_model.save(tmp_path / "iris")
    row = load_iris(as_frame=True).data.head(1).to_json(orient="records", lines=True)
    with running(tmp_path / "iris", "--no-playground", PYTHONPATH=str(copy)) as server:
        address = f"{server.address}/v1/models/iris/lines"
        answer = httpx.post(address, content=row, headers={"Content-Type": "application/x-ndjson"})
        documented = httpx.get(f"{server.address}/openapi.json").json()["paths"]
    assert json.loads(answer.text)["prediction"] == 0
    assert "/v1/models/{name}/lines" in documented


def test_a_boundary_sampler_is_known_by_its_name(added, fast, moons, tmp_path):
    added("A boundary sampler", boundary.KINDS)
    model = fast(boundary="gaussian-shell").set_params(boundary__radius=2.5).fit(*moons)
    near, far = model.uncertainty([[0.5, 0.25], [30.0, 30.0]]).epistemic
    assert far > 0.5 > near
    assert_saved_as_it_is(model, tmp_path)


def test_a_posterior_is_known_by_its_name(added, fast, moons, tmp_path):
    added("A posterior", posterior.KINDS)
    model = fast(posterior="bootstrap").set_params(posterior__n_draws=20).fit(*moons)
    assert model.score(*moons) > 0.8
    assert model.predict_proba_samples(GRID).shape == (20, 50, 2)
    assert_saved_as_it_is(model, tmp_path)


def assert_saved_as_it_is(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(GRID), model.predict_proba(GRID))
    assert str(loaded.health_) == str(model.health_)


def test_a_baseline_keeps_what_all_promise(added, moons):
    model = added("A baseline", baselines.KINDS)["QUICK"]["forest"].fit(*moons)
    draws = model.predict_proba_samples(GRID)
    np.testing.assert_allclose(model.predict_proba(GRID), draws.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(model.evaluate(GRID).total, model.uncertainty(GRID).total, atol=1e-4)
    check_estimator(model, on_skip=None)
    with pytest.raises(ValueError, match=r"n_trees must be a positive whole number; got 0\."):
        model.set_params(n_trees=0).fit(*moons)
