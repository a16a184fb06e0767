"""A method nobody has named yet is drawn like the others."""

import numpy as np
import pytest
from reproduction.pages.figures import draw_figures, figure_names
from reproduction.pages.names import baselines, method_colors
from reproduction.schema import read_experiment

from reproduction import Record

KNOWN = ("BaCOUn", "NLM", "GP")


def test_every_unknown_method_gets_a_color_of_its_own():
    colors = method_colors([*KNOWN, "new", "newer"])
    assert len(set(colors.values())) == 5
    assert {method: colors[method] for method in KNOWN} == method_colors(KNOWN)
    assert len(method_colors([f"new {i}" for i in range(30)])) == 30


def renamed(name, methods):
    """An experiment whose methods have other names."""
    experiment = read_experiment(name)
    return experiment.model_copy(update={"methods": {m: {"kind": "nlm"} for m in methods}})


def record(name, method, numbers, arrays):
    return Record(name, method, 0, "", {}, {}, 0.0, numbers, arrays)


@pytest.mark.parametrize("methods", [["new"], ["BaCOUn", "new", "newer"]])
def test_a_figure_in_the_plane_shows_methods_without_a_color_of_their_own(tmp_path, methods):
    arrays = {f"map {part}": np.full((5, 5), 0.1) for part in ("total", "aleatoric", "epistemic")}
    arrays |= {"map winners": np.zeros((5, 5), np.uint8), "map draws": np.eye(5)[None]}
    arrays |= {"points": np.eye(3, 2), "labels": np.arange(3), "rays": np.ones((9, 4))}
    records = [record("gmm", method, {}, arrays) for method in methods]
    paths = draw_figures(renamed("gmm", methods), records, tmp_path)
    assert len(paths) == len(figure_names(read_experiment("gmm"))) == 5


def test_a_figure_of_sets_of_images_shows_methods_without_a_color_of_their_own(tmp_path):
    sets = ("in", "usps", "cifar10")
    of_sets = {part: dict.fromkeys(sets, 0.1) for part in ("epistemic", "aleatoric")}
    arrays = {f"epistemic {name}": np.ones(3) for name in sets}
    records = [record("mnist", m, of_sets | {"sd": of_sets}, arrays) for m in ("NLM", "new")]
    (path,) = draw_figures(renamed("mnist", ["NLM", "new"]), records, tmp_path)
    assert path.name == "mnist-sets.png"


def test_figures_do_not_depend_on_when_they_are_drawn(tmp_path):
    sets = ("in", "usps", "cifar10")
    numbers = {part: dict.fromkeys(sets, 0.1) for part in ("epistemic", "aleatoric")}
    numbers["sd"] = dict(numbers)
    records = [record("mnist", "NLM", numbers, {f"epistemic {n}": np.ones(3) for n in sets})]
    first, second = (
        draw_figures(renamed("mnist", ["NLM"]), records, tmp_path / run)[0].read_bytes()
        for run in ("first", "second")
    )
    assert first == second


def test_baselines_are_those_of_the_file():
    assert baselines("shifts") == ("NLM", "BNN", "MC-Dropout", "Deep ensemble")
