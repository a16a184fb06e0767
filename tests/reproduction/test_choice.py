"""Settings are chosen on images that were not learned, and on no file that is reported on later."""

import numpy as np
import pytest
from reproduction.datasets.images import development_images
from reproduction.pages.tables import markdown_table
from reproduction.run import run_experiment

from bacoun import BaCOUnClassifier
from bacoun.uncertainty import Doubt
from reproduction import missing_files, read_experiment


def small(methods, **dataset):
    full = read_experiment("choice", quick=True)
    dataset = full.dataset | {"n_train": 200, "n_asked": 40} | dataset
    return full.model_copy(update={"dataset": dataset, "methods": methods})


def test_doubt_is_varied_without_a_new_fit(cache, small_methods, tmp_path):
    del small_methods["Deep ensemble"]
    experiment = small(small_methods, sets=["digits"])
    bacoun, nlm = run_experiment(experiment, tmp_path)
    numbers, variants = bacoun.numbers["digits"], bacoun.numbers["digits"]["doubt"]
    asked = experiment.options["doubt"]
    assert set(variants) == {
        f"power {power:g}, prior {prior:g}"
        for power in asked["power"]
        for prior in asked["ood_prior"]
    }
    assert len({variant["nll"] for variant in variants.values()}) == len(variants)
    as_fitted = f"power {Doubt.power:g}, prior {BaCOUnClassifier().ood_prior:g}"
    assert variants[as_fitted] == {
        "nll": numbers["nll"]["mean"],
        "aurc": numbers["aurc"]["mean"],
        "auroc": numbers["auroc"]["epistemic"]["left out"],
        "failure": numbers["failure"]["aurc"],
    }
    assert nlm.numbers["digits"]["doubt"] == {}


def test_the_choice_is_measured_on_each_of_its_sets(files_read, small_methods, tmp_path):
    experiment = small({"default": small_methods["BaCOUn"]})
    (record,) = run_experiment(experiment, tmp_path)
    for name in ("mnist", "digits"):
        numbers = record.numbers[name]
        assert set(numbers["auroc"]["ood_score"]) == {"left out"}
        assert set(numbers["rises"]) == set(experiment.options["shifts"][name])
    assert record.arrays["mnist epistemic blur"].shape == (3,)
    assert "-" not in markdown_table(experiment, [record]).splitlines()[2].split(" | ")
    assert set(files_read) == {("mnist", "train"), ("digits", "train"), ("digits", "test")}


def test_a_fit_to_one_set_does_not_depend_on_the_others(
    files_read, small_methods, tmp_path, monkeypatch
):
    methods = {"default": small_methods["BaCOUn"]}
    (both,) = run_experiment(small(methods), tmp_path)
    monkeypatch.setattr("reproduction.fits.make_method", None)  # nothing may be fitted now
    (one,) = run_experiment(small(methods, sets=["digits"]), tmp_path)
    assert one.numbers["digits"] == both.numbers["digits"]


@pytest.mark.parametrize("name", ["mnist", "digits"])
def test_development_images_do_not_overlap(files_read, name):
    data = development_images(name, n_train=250, n_asked=60, random_state=1)
    left_out = set(data.region_labels["left out"])
    assert len(left_out) == 2
    assert left_out.isdisjoint(data.labels)
    assert left_out.isdisjoint(data.test_labels)
    assert (len(data.points), len(data.test_points)) == (250, 60)
    assert len(data.regions["left out"]) == 30
    together = np.concatenate([data.points, data.test_points, data.regions["left out"]])
    assert len(np.unique(together.reshape(len(together), -1), axis=0)) == len(together)


def test_training_images_depend_on_the_seed_and_not_on_how_many_are_asked_about(files_read):
    few, many, other = (
        development_images("mnist", 200, n_asked, seed)
        for n_asked, seed in ((20, 0), (100, 0), (20, 1))
    )
    np.testing.assert_array_equal(few.points, many.points)
    np.testing.assert_array_equal(few.test_points, many.test_points[:20])
    assert not np.array_equal(few.points, other.points)


def test_some_images_are_always_held_out():
    data = development_images("digits", n_train=8000, n_asked=8000, random_state=0)
    n_known = len(data.points) + len(data.test_points)
    assert len(data.points) == int(0.7 * n_known)
    assert n_known + len(data.regions["left out"]) == 1797


def test_an_unknown_set_is_refused():
    with pytest.raises(ValueError, match="must be 'mnist' or 'digits'; got 'usps'"):
        development_images("usps", 10, 10, 0)


def test_the_choice_needs_one_file(monkeypatch, tmp_path):
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path))
    assert missing_files(read_experiment("choice")) == ["mnist"]
