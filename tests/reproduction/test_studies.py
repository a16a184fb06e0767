import sys

import numpy as np
import pandas as pd
import pytest
from reproduction.schema import parse_experiment, read_experiment
from reproduction.studies import STUDIES
from reproduction.studies.attack import descend
from reproduction.studies.plane import grid, rays

from reproduction.datasets import gaussian_mixture_log_density


def test_rays_start_at_the_edge_of_the_data_and_end_at_three_radii():
    points = np.random.default_rng(0).normal(size=(500, 2)) + 5
    centre = points.mean(axis=0)
    radius = np.linalg.norm(points - centre, axis=1).max()
    asked = rays(points, np.array([1.0, 3.0]), n_rays=10)
    distance = np.linalg.norm(asked - centre, axis=2)
    np.testing.assert_allclose(distance, radius * np.array([[1.0], [3.0]]) * np.ones(10))


def test_a_grid_runs_along_x_first():
    np.testing.assert_array_equal(grid([0, 10], [1, 11], 2), [[0, 10], [1, 10], [0, 11], [1, 11]])


def test_an_attack_finds_the_low_place_and_stays_beyond_the_data():
    start = np.array([[0.0, 12.0], [0.0, -10.0]])
    density = gaussian_mixture_log_density(start)
    band = np.array([density.min() - 1, density.max() + 1])

    def value(points):  # lowest at x = 3
        return np.abs(points[:, 0] - 3)

    end = descend(value, start, band, n_steps=30)
    assert (value(end) < value(start) - 1).all()
    reached = gaussian_mixture_log_density(end)
    assert ((reached > band[0]) & (reached < band[1])).all()


def test_an_attack_never_makes_a_point_look_less_familiar():
    start = np.array([0.0, 12.0]) + np.random.default_rng(0).normal(size=(20, 2))
    band = np.array([-1e3, 0.0])

    def value(points):
        return np.sin(3 * points).sum(axis=1)

    assert (value(descend(value, start, band, 10)) <= value(start)).all()


def test_the_log_density_of_the_mixture_integrates_to_one():
    asked = grid([-25, -25], [25, 25], 300)
    cell = (50 / 299) ** 2
    assert np.exp(gaussian_mixture_log_density(asked)).sum() * cell == pytest.approx(1, abs=1e-3)


def test_pathology_tells_far_points_from_data_by_bacoun_features():
    experiment = read_experiment("pathology")
    numbers, arrays = STUDIES["pathology"](experiment, "BaCOUn, 2 x 64", 0)
    assert numbers["logistic"]["edge"] > 0.85
    assert set(arrays) >= {"map logistic", "map naive bayes", "edge"}
    assert all(0 <= arrays[f"map {n}"].min() <= 1 for n in ("logistic", "naive bayes"))


def test_outlier_scores_of_all_detectors_are_better_than_chance():
    experiment = read_experiment("outliers", quick=True)
    for method in experiment.methods:
        numbers, arrays = STUDIES["outliers"](experiment, method, 0)
        assert numbers["auroc"] > 0.8
        assert 0.3 < numbers["precision_of_removed"] <= 1
        assert len(arrays["scores"]) == 4200


def test_an_unknown_study_is_refused(tmp_path):
    from reproduction.run import run_experiment

    text = """
title = "t"
study = "astrology"
seeds = [0]
columns = []
dataset = { kind = "moons" }
methods = {}
"""
    with pytest.raises(ValueError, match="the study of an experiment must be one of"):
        run_experiment(parse_experiment("x", text), tmp_path)


@pytest.fixture
def patients(monkeypatch):
    """A table whose first 300 rows are young; older ones are of the other class."""
    from reproduction.studies import diagnosis

    rng = np.random.default_rng(0)
    age, dose = rng.uniform(20, 40, 300), rng.normal(size=300)
    young = pd.DataFrame({"age": age, "dose": dose, "ill": np.where(dose > 0, "yes", "no")})
    old = pd.DataFrame({"age": np.full(50, 90.0), "dose": np.full(50, 2.0), "ill": "no"})
    frame = pd.concat([young, old], ignore_index=True)
    module = sys.modules["reproduction.studies.diagnosis"]
    monkeypatch.setattr(module, "load_frame", lambda name: (frame, "ill"))
    return diagnosis


def test_a_diagnosis_defers_whom_it_has_not_seen_and_counts_the_cost(patients):
    settings = {"table": "made", "column": "age", "oldest": 40, "target": "ill", "kind": "tables"}
    experiment = read_experiment("diagnosis", quick=True).model_copy(update={"dataset": settings})
    ours, _ = patients(experiment, "BaCOUn", 0)
    forest, _ = patients(experiment, "Random forest", 0)
    assert ours["unfamiliar"]["older"] == 1  # so nobody is answered, and each costs one deferral
    assert ours["answered"]["older"] == ours["error"]["older"] == 0
    assert ours["cost"]["older"] == 1
    assert ours["explained"]["older"] > 0.9
    assert ours["answered"]["known"] > 0.7
    assert ours["cost"]["known"] < 0.6
    # The forest knows nothing of age: it is sure of them, and wrong.
    assert forest["error"]["older"] == forest["answered"]["older"] == 1
    assert forest["cost"]["older"] == 10


def test_the_distance_to_a_gaussian_process_is_zero_for_itself(monkeypatch):
    from reproduction.studies import gp_limit

    module = sys.modules["reproduction.studies.gp_limit"]
    monkeypatch.setattr(module, "_OTHER_SEED", 0)
    numbers, _ = gp_limit(read_experiment("gp-limit", quick=True), "GP", 0)
    assert {value for part in numbers.values() for value in part.values()} == {0.0}
