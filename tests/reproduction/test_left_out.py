"""Classes left out of tables: what detectors and classifiers make of their rows."""

from itertools import pairwise

import numpy as np
import pytest
from reproduction.pages.tables import markdown_table
from reproduction.run import run_experiment
from reproduction.studies import STUDIES
from reproduction.studies.left_out import (
    cases,
    doubts,
    knn_distance,
    load,
    local_outlier_factor,
    mahalanobis,
)

from bacoun.uncertainty import auroc
from reproduction import missing_files, read_experiment

# --- detectors -----------------------------------------------------------------------------------


def test_knn_distance_is_that_to_the_kth_neighbor():
    line = np.arange(5.0)[:, None]  # 0, 1, 2, 3, 4
    rows = np.array([[0.0], [1.4], [10.0]])
    one, two = (knn_distance(line, np.zeros(5), n_neighbors=k)(rows) for k in (1, 2))
    np.testing.assert_allclose(one, [0, 0.4, 6])
    np.testing.assert_allclose(two, [1, 0.6, 7])


def test_mahalanobis_forgives_steps_along_the_data():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(500, 2)) * [10, 1]
    score = mahalanobis(cloud, np.zeros(500))
    along, across = score(np.array([[15.0, 0.0], [0.0, 5.0]]))
    assert across > 5 * along
    centre = cloud.mean(axis=0)
    once, twice = score(centre + np.array([[1.0, 1.0], [2.0, 2.0]]))
    assert score(centre[None]) == pytest.approx(0, abs=1e-12)
    assert twice == pytest.approx(4 * once)  # it is squared


def test_mahalanobis_is_measured_from_the_nearest_class_in_its_own_units():
    rng = np.random.default_rng(0)
    narrow, wide = rng.normal(size=(300, 2)), rng.normal([1000, 0], 10, size=(300, 2))
    labels = np.repeat([0, 1], 300)
    score = mahalanobis(np.concatenate([narrow, wide]), labels)
    means = np.stack([narrow.mean(axis=0), wide.mean(axis=0)])
    np.testing.assert_allclose(score(means), 0, atol=1e-12)
    from_narrow, from_wide = score(means + np.array([10.0, 0.0]))
    assert from_narrow > 50 * from_wide


@pytest.mark.parametrize("n_points", [12, 20])
def test_the_local_outlier_factor_is_a_ratio_of_distances(n_points):
    angle = 2 * np.pi * np.arange(n_points) / n_points
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    side = 2 * np.sin(np.pi / n_points)
    score = local_outlier_factor(ring, np.zeros(n_points), n_neighbors=2)
    # On the ring all is equally dense; its centre is a radius from all, they a side from another.
    np.testing.assert_allclose(score(np.array([ring[0], [0.0, 0.0]])), [1, 1 / side], rtol=1e-6)


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
        assert variant.doubt_.tails == before.tails
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
        "BaCOUn": ["ood_score", "epistemic", "total", "rarity"],
        "Deep ensemble": ["ood_score", "epistemic", "total"],
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
    assert cells[4].count(" - |") == 5  # a detector has one score, and no classes


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
