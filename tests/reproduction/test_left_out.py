"""Classes left out of tables: what detectors and classifiers make of their rows."""

from itertools import pairwise

import numpy as np
import pytest
from reproduction.pages.tables import markdown_table
from reproduction.run import run_experiment
from reproduction.studies import STUDIES
from reproduction.studies.left_out import cases, doubts, load

from bacoun.uncertainty import auroc
from reproduction import missing_files, read_experiment

# --- cases ---------------------------------------------------------------------------------------


def test_cases_are_listed_counted_or_all():
    chosen = {"iris": [2, 0], "sklearn-wine": 2, "breast-cancer": "all", "digits-table": 0}
    assert list(cases(chosen)) == [
        ("iris", 2),
        ("iris", 0),
        ("sklearn-wine", 0),
        ("sklearn-wine", 1),
        ("breast-cancer", 0),
        ("breast-cancer", 1),
    ]


def test_cases_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="a number of them or 'all'; got 'most' for iris"):
        list(cases({"iris": "most"}))


def test_files_are_asked_for_only_if_a_table_needs_them(monkeypatch, tmp_path):
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path))
    experiment = read_experiment("left-out")
    assert missing_files(experiment) == ["tables"]
    dataset = experiment.dataset | {"left_out": {"iris": "all"}}
    assert missing_files(experiment.model_copy(update={"dataset": dataset})) == []


# --- doubt ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(fast, moons):
    return fast().fit(*moons)


def test_other_doubt_refits_nothing_and_leaves_the_model_alone(model):
    before = model.doubt_
    found = dict(doubts(model, {"power": [2.0, 3.0], "ood_prior": [0.001, 0.1]}))
    assert list(found) == [
        "power 2, prior 0.001",
        "power 2, prior 0.1",
        "power 3, prior 0.001",
        "power 3, prior 0.1",
    ]
    for variant in found.values():
        assert variant.boundary_ is model.boundary_
        assert variant.features_ is model.features_
        assert variant.posterior_ is model.posterior_
        assert variant.doubt_.views == before.views
    assert model.doubt_ is before


def test_a_larger_prior_gives_larger_epistemic_uncertainty_and_the_same_best_guess(model, moons):
    rows = np.concatenate([moons[0], np.random.default_rng(0).uniform(-4, 4, (100, 2))])
    variants = dict(doubts(model, {"power": [2.5], "ood_prior": [0.001, 0.01, 0.1]}))
    found = [variant.evaluate(rows) for variant in variants.values()]
    for less, more in pairwise(found):
        assert (more.epistemic >= less.epistemic - 1e-6).all()
        assert (more.epistemic > less.epistemic + 1e-3).any()
        np.testing.assert_array_equal(
            more.probabilities.argmax(axis=1), less.probabilities.argmax(axis=1)
        )
        np.testing.assert_array_equal(more.ood_score, less.ood_score)


def test_a_model_without_doubt_and_settings_without_doubt_have_no_variants(model, fast, moons):
    asked = {"power": [2.0], "ood_prior": [0.1]}
    assert list(doubts(fast(ood_prior=0).fit(*moons), asked)) == []
    assert list(doubts(object(), asked)) == []
    assert list(doubts(model, None)) == []


# --- the study -----------------------------------------------------------------------------------


@pytest.fixture
def experiment(cache, small_methods):
    del small_methods["NLM"]
    return read_experiment("left-out").model_copy(
        update={
            "seeds": [0],
            "dataset": {
                "kind": "tables",
                "n_train": 90,
                "left_out": {"iris": [0, 2], "sklearn-wine": 1},
            },
            "options": {"doubt": {"power": [2.5], "ood_prior": [0.05]}},
            "methods": small_methods
            | {
                "kNN distance": {"kind": "knn-distance"},
                "LOF": {"kind": "lof", "n_neighbors": 10},
                "Mahalanobis": {"kind": "mahalanobis"},
            },
        }
    )


def test_every_method_is_measured_on_every_case(experiment, tmp_path):
    records = {record.method: record for record in run_experiment(experiment, tmp_path)}
    assert set(records) == set(experiment.methods)
    scores = {
        "BaCOUn": ["ood_score", "epistemic", "aleatoric", "total", "rarity"],
        "Deep ensemble": ["ood_score", "epistemic", "aleatoric", "total"],
    }
    every = {"iris: 0", "iris: 2", "sklearn-wine: 0"}
    for method, record in records.items():
        numbers = record.numbers
        assert list(numbers["auroc"]) == scores.get(method, ["ood_score"])
        for score, values in numbers["auroc"].items():
            assert set(values) == every
            assert numbers["mean"][score] == pytest.approx(np.mean(list(values.values())))
            assert numbers["lowest"][score] == min(values.values())
        assert numbers["fit_seconds"] == pytest.approx(sum(numbers["seconds"].values()), abs=0.1)
        assert ("nll" in numbers) == ("accuracy" in numbers) == (method in scores)
    for method in ("kNN distance", "LOF", "Mahalanobis", "BaCOUn"):
        assert records[method].numbers["auroc"]["ood_score"]["iris: 0"] > 0.95  # far from the rest
    varied = records["BaCOUn"].numbers["nll power 2.5, prior 0.05"]
    assert set(varied) == every
    assert varied != records["BaCOUn"].numbers["nll"]
    cells = markdown_table(experiment, list(records.values())).splitlines()
    assert "| - |" not in cells[2]
    assert cells[4].count(" - |") == 6  # a detector has one score, and no classes


def test_numbers_are_those_of_the_scores_by_hand(experiment):
    dataset = experiment.dataset | {"left_out": {"iris": [2]}}
    numbers, arrays = STUDIES["left-out"](
        experiment.model_copy(update={"dataset": dataset}), method="kNN distance", seed=0
    )
    assert arrays == {}
    data = load({"table": "iris", "n_train": 90, "left_out": 2}, 0)

    def fifth_distance(rows):
        gaps = (rows[:, None] - data.points) / data.points.std(axis=0)
        return np.sort(np.linalg.norm(gaps, axis=2), axis=1)[:, 4]

    expected = auroc(fifth_distance(data.regions["in"]), fifth_distance(data.regions["out"]))
    assert numbers["auroc"]["ood_score"]["iris: 2"] == pytest.approx(expected, abs=1e-9)


def test_a_case_keeps_its_fit_whatever_the_other_cases_are(experiment, tmp_path, monkeypatch):
    methods = {"BaCOUn": experiment.methods["BaCOUn"]}
    (all_,) = run_experiment(experiment.model_copy(update={"methods": methods}), tmp_path)
    monkeypatch.setattr("reproduction.fits.make_method", None)  # nothing may be fitted now
    dataset = experiment.dataset | {"left_out": {"iris": [2]}}
    (one,) = run_experiment(
        experiment.model_copy(update={"methods": methods, "dataset": dataset}), tmp_path
    )
    assert one.numbers["nll"]["iris: 2"] == all_.numbers["nll"]["iris: 2"]
