"""Doubt on circles around a cloud: what is counted, and that it grows outwards."""

import numpy as np
import pytest
from reproduction.fits import fitted
from reproduction.pages.tables import markdown_table
from reproduction.run import run_experiment
from reproduction.studies.regions import load

from reproduction import read_experiment


@pytest.fixture
def experiment(cache, small_methods):
    full = read_experiment("halo", quick=True)
    dataset = full.dataset | {"points_per_class": 60, "n_test": 200}
    method = small_methods["BaCOUn"] | {"features": {"hidden": [16, 16], "epochs": 60}}
    return full.model_copy(update={"dataset": dataset, "methods": {"BaCOUn": method}})


def test_numbers_are_those_of_the_points_on_each_circle(experiment, tmp_path):
    (record,) = run_experiment(experiment, tmp_path)
    numbers, epistemic = record.numbers, record.arrays["epistemic"]
    radii = experiment.options["radii"]
    assert epistemic.shape == (len(radii), 200)
    for radius, values in zip(radii, epistemic, strict=True):
        assert numbers["mean"][f"{radius:g}"] == pytest.approx(values.mean(), abs=1e-3)
        assert numbers["smallest"][f"{radius:g}"] == pytest.approx(values.min(), abs=1e-3)
        assert 0 <= numbers["nearest"]["lowest"] <= numbers["nearest"][f"{radius:g}"] <= 1
    assert numbers["mean"]["60"] > numbers["mean"]["8"] > numbers["epistemic"]["in"]
    assert " - |" not in markdown_table(experiment, [record])

    data = load(experiment.dataset, 0)
    model, _ = fitted(experiment, "BaCOUn", 0, data)
    angle = 2 * np.pi * np.arange(200) / 200
    circle = 20 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    means = np.stack([data.points[data.labels == k].mean(axis=0) for k in model.classes_])
    nearest = np.linalg.norm(circle[:, None] - means, axis=2).argmin(axis=1)
    hits = np.mean(model.predict(circle) == model.classes_[nearest])
    assert numbers["nearest"]["20"] == pytest.approx(hits)
