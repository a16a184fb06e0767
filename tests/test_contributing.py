"""The worked examples of CONTRIBUTING.md run as they stand, and name every file they touch."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from bacoun import BaCOUnClassifier, baselines, boundary, posterior

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
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


@pytest.mark.parametrize(
    ("title", "most"), [("A boundary sampler", 2), ("A posterior", 2), ("A baseline", 3)]
)
def test_an_example_names_every_file_and_only_the_first_is_new(title, most):
    files = [ROOT / file for file, _ in SECTIONS[title]]
    assert 0 < len(files) <= most
    assert [file.exists() for file in files] == [False] + [True] * (len(files) - 1)


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
