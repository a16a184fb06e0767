"""A small experiment from its text to records, tables and figures, the real way through."""

import json

import numpy as np
import pytest
from reproduction.results import Record, across_seeds, load_records, number_at, record_path
from reproduction.run import run_experiment
from reproduction.schema import parse_experiment, read_experiment

SMALL = """
title = "Small moons"
study = "regions"
seeds = [0, 1]
columns = ["accuracy", "epistemic/in", "epistemic/far", "rays/smallest_far"]
dataset = { kind = "moons", points_per_class = 60, noise = 0.1, n_test = 200 }
[options]
split = true
rays = true
map = { low = [-3.0, -3.0], high = [4.0, 3.0], resolution = 9 }
[methods."BaCOUn"]
kind = "bacoun"
n_boundary = 100
boundary = { shell = { epochs = 3, blocks = 2, hidden = 16 } }
features = { hidden = [16, 16], epochs = 30, learning_rate = 1e-2 }
posterior = { kind = "laplace", n_draws = 50 }
[methods."NLM"]
kind = "nlm"
features = { hidden = [16, 16], epochs = 30, learning_rate = 1e-2 }
posterior = { kind = "laplace", n_draws = 50 }
[published."BaCOUn"]
accuracy = 0.94
"""


@pytest.fixture(scope="module")
def experiment():
    return parse_experiment("small", SMALL)


@pytest.fixture(scope="module")
def run(experiment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, run_experiment(experiment, folder)


def test_there_is_a_record_for_each_method_and_seed(run):
    folder, records = run
    assert {(r.method, r.seed) for r in records} == {
        (method, seed) for method in ("BaCOUn", "NLM") for seed in (0, 1)
    }
    for record in records:
        assert record_path(folder, "small", record.method, record.seed).exists()
        assert record.command == "python -m reproduction small"
        assert record.versions["torch"]


def test_parts_add_up_in_every_region(run):
    _, records = run
    for record in records:
        for region in ("in", "between", "far", "test"):
            total, aleatoric, epistemic = (
                number_at(record, f"{part}/{region}")
                for part in ("total", "aleatoric", "epistemic")
            )
            assert total == pytest.approx(aleatoric + epistemic)
            assert number_at(record, f"model/{region}") + number_at(
                record, f"ood/{region}"
            ) == pytest.approx(epistemic)


def test_maps_agree_with_the_numbers_a_classifier_gives(run, experiment):
    from reproduction.methods import make_method
    from reproduction.studies.plane import grid
    from reproduction.studies.regions import load

    _, records = run
    record = next(r for r in records if r.method == "BaCOUn" and r.seed == 0)
    data = load(experiment.dataset, 0)
    model = make_method(experiment.methods["BaCOUn"], 0).fit(data.points, data.labels)
    asked = grid(**experiment.options["map"])
    expected = model.uncertainty(asked).epistemic.reshape(9, 9)
    np.testing.assert_allclose(record.arrays["map epistemic"], expected, atol=1e-3)
    # Row 0 is the lowest y, column 0 the lowest x: how the figures draw it.
    np.testing.assert_allclose(asked[0], [-3, -3])
    np.testing.assert_allclose(asked[8], [4, -3])


def test_a_second_run_does_nothing_and_a_lost_record_is_made_again(run, experiment):
    folder, records = run
    paths = [record_path(folder, "small", r.method, r.seed) for r in records]
    before = [path.stat().st_mtime_ns for path in paths]
    run_experiment(experiment, folder)
    assert [path.stat().st_mtime_ns for path in paths] == before
    text = json.loads(paths[0].read_text())["numbers"]
    paths[0].unlink()
    done = []
    run_experiment(experiment, folder, on_record=lambda *what: done.append(what))
    assert [what[:2] for what in done] == [(3, 4), (4, 4)]
    again = json.loads(paths[0].read_text())["numbers"]
    del text["fit_seconds"], again["fit_seconds"]
    assert again == text


def test_other_settings_make_the_record_anew(run, experiment):
    folder, _ = run
    changed = parse_experiment(
        "small", SMALL.replace("n_draws = 50 }\n[pub", "n_draws = 60 }\n[pub")
    )
    done = []
    run_experiment(changed, folder, on_record=lambda *what: done.append(what))
    assert len(done) == 3  # two of NLM, and the count at the start
    run_experiment(experiment, folder)


def test_side_by_side_gives_the_same_numbers(run, experiment, tmp_path):
    _, records = run
    parallel = run_experiment(experiment, tmp_path, n_jobs=2)
    for one, other in zip(
        sorted(records, key=lambda r: (r.method, r.seed)),
        sorted(parallel, key=lambda r: (r.method, r.seed)),
        strict=True,
    ):
        assert number_at(one, "epistemic/far") == pytest.approx(
            number_at(other, "epistemic/far"), rel=1e-6
        )


def test_a_damaged_record_is_named(experiment, tmp_path):
    path = tmp_path / "small" / "nlm-0.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a record; delete it and run again"):
        load_records(tmp_path, experiment)


def test_a_shared_method_is_run_once_where_it_is_from(tmp_path):
    text = SMALL.partition("[methods")[0].replace("seeds = [0, 1]", "seeds = [0]").partition("[opt")
    text = text[0] + '[methods.X]\nrecord_of = { experiment = "gmm", method = "Deep ensemble" }\n'
    sharing = parse_experiment("sharing", text, quick=True)
    assert sharing.methods["X"] == read_experiment("gmm", quick=True).methods["Deep ensemble"]
    done = []
    (record,) = run_experiment(sharing, tmp_path, on_record=lambda *what: done.append(what))
    assert [what[:2] for what in done] == [(0, 1), (1, 1)]
    assert (record.method, record.command) == ("X", "python -m reproduction gmm --quick")
    assert [path.parent.name for path in tmp_path.glob("*/*.json")] == ["gmm"]
    run_experiment(sharing, tmp_path, on_record=lambda *what: done.append(what))
    assert done[2:] == [(1, 1, "")]


def test_numbers_are_found_by_path_and_in_order_of_seeds():
    def record(seed, value):
        return Record("e", "m", seed, "", {}, {}, 0.0, {"epistemic": {"in": value}})

    records = [record(1, 0.2), record(0, 0.1)]
    np.testing.assert_array_equal(across_seeds(records, "m", "epistemic/in"), [0.1, 0.2])
    assert number_at(records[0], "epistemic/out") is None
    assert number_at(records[0], "accuracy/in") is None


def test_tables_show_ours_beside_the_papers(run, experiment):
    from reproduction.pages.tables import markdown_table, terminal_table

    _, records = run
    text = markdown_table(experiment, records)
    mean = np.mean([r.numbers["accuracy"] for r in records if r.method == "BaCOUn"])
    assert f"| BaCOUn | {mean:.3f} ± " in text
    assert "(0.940)" in text
    assert "2 seeds" in text
    assert terminal_table(experiment, records).row_count == 2


def test_figures_are_drawn_from_the_records(run, experiment, tmp_path):
    from reproduction.pages.figures import draw_figures

    _, records = run
    paths = draw_figures(experiment, records, tmp_path)
    assert [path.name for path in paths] == [
        "small-boundaries.png",
        "small-decomposition.png",
        "small-total.png",
        "small-draws.png",
        "small-rays.png",
    ]
    assert all(path.stat().st_size > 1000 for path in paths)
    assert sorted(tmp_path.iterdir()) == sorted(paths)
