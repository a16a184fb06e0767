"""Log loss on known classes: the classifier's, the network's, and the difference."""

from types import SimpleNamespace

import numpy as np
import pytest
from reproduction.fits import fitted
from reproduction.pages.tables import markdown_table
from reproduction.run import run_experiment
from reproduction.studies import STUDIES
from reproduction.studies.left_out import load
from reproduction.studies.log_loss import network_proba

from reproduction import missing_files, read_experiment

TABLES = ["iris", "sklearn-wine"]


@pytest.fixture
def experiment(cache, small_methods):
    return read_experiment("log-loss").model_copy(
        update={
            "seeds": [0],
            "dataset": {"kind": "tables", "n_train": 90, "tables": TABLES},
            "methods": small_methods,
        }
    )


def test_the_network_is_asked_about_known_classes_alone():
    regions = np.array([[0.2, 0.2, 0.6], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]], dtype=np.float32)
    model = SimpleNamespace(classes_=np.array([3, 4]), region_proba=lambda rows: regions)
    known = network_proba(model, np.zeros((3, 2)))
    np.testing.assert_allclose(known, [[0.5, 0.5], [0, 1], [0.5, 0.5]], atol=1e-30)
    assert (known > 0).all()  # so that no log loss is infinite


def test_numbers_are_those_of_the_probabilities_by_hand(experiment):
    numbers, arrays = STUDIES["log-loss"](experiment, "BaCOUn", 0)
    assert arrays == {}
    for table in TABLES:
        dataset = {"kind": "table", "table": table, "n_train": 90}
        data = load(dataset, 0)
        model, _ = fitted(experiment.model_copy(update={"dataset": dataset}), "BaCOUn", 0, data)
        truth = data.test_labels  # classes are 0, 1, 2
        every = np.arange(len(truth))
        proba = model.predict_proba(data.test_points)
        nll = -np.log(proba[every, truth]).mean()
        regions = model.region_proba(data.test_points).astype(float)
        network_nll = np.mean(np.log(regions[:, :3].sum(axis=1) / regions[every, truth]))
        assert numbers["nll"][table] == pytest.approx(nll)
        assert numbers["network_nll"][table] == pytest.approx(network_nll)
        assert numbers["excess"][table] == pytest.approx(nll - network_nll)
        assert numbers["accuracy"][table] == model.score(data.test_points, truth)
    for measure in ("accuracy", "nll", "ece", "network_accuracy", "network_nll", "excess"):
        assert numbers["mean"][measure] == pytest.approx(
            np.mean([numbers[measure][table] for table in TABLES])
        )
    assert numbers["largest_excess"] == max(numbers["excess"].values())
    assert numbers["fit_seconds"] == pytest.approx(sum(numbers["seconds"].values()), abs=0.1)


def test_only_a_model_with_an_edge_is_compared_with_its_network(experiment, tmp_path):
    records = run_experiment(experiment, tmp_path)
    numbers = {record.method: record.numbers for record in records}
    assert "largest_excess" in numbers["BaCOUn"]
    for method in ("NLM", "Deep ensemble"):
        assert set(numbers[method]) == {
            "mean",
            "fit_seconds",
            "seconds",
            "accuracy",
            "nll",
            "ece",
        }
    text = markdown_table(experiment, records)
    assert "mean excess" in text.splitlines()[0]
    assert " - |" in text.splitlines()[3]


def test_files_are_named_that_the_tables_need(monkeypatch, tmp_path, experiment):
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    assert missing_files(read_experiment("log-loss")) == ["medical", "tables"]
    assert missing_files(experiment) == []
