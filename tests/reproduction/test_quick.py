"""Every experiment runs in its quick form, from its file to its table and its figures."""

import os

import pytest
from reproduction.pages.figures import draw_figures
from reproduction.pages.tables import markdown_table
from reproduction.results import number_at
from reproduction.run import run_experiment

from reproduction import missing_files, names, read_experiment


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One folder for all, because some experiments share records."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", names())
def test_every_quick_experiment_measures_all_its_columns(
    name, results, cache, image_folder, monkeypatch
):
    experiment, given = read_experiment(name, quick=True), os.environ.get("BACOUN_DATA")
    monkeypatch.setenv("BACOUN_DATA", str(image_folder))  # small files are enough
    if missing_files(experiment) and given:
        monkeypatch.setenv("BACOUN_DATA", given)
    if lacking := missing_files(experiment):
        pytest.skip(f"{' and '.join(lacking)} not available")
    records = run_experiment(experiment, results)
    assert {(r.method, r.seed) for r in records} == {
        (method, seed) for method in experiment.methods for seed in experiment.seeds
    }
    for column in (*experiment.columns, *experiment.further_columns):
        is_there = any(number_at(record, column) is not None for record in records)
        assert is_there or "published" in column, column  # the weights of that VAE are a download
    assert markdown_table(experiment, records)
    assert all(path.exists() for path in draw_figures(experiment, records, results / "figures"))
