"""The studies of shifts: what they measure, on models whose answers are known, and on stand-ins."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage

from bacoun.baselines import DeepEnsemble
from bacoun.datasets import load_images
from bacoun.experiments import missing_files, read_experiment
from bacoun.experiments.run import run_experiment
from bacoun.experiments.studies.choice import development_images
from bacoun.experiments.studies.shifts import answers, failure, measure
from bacoun.report.tables import markdown_table
from bacoun.uncertainty import augrc, aurc

SMALL = {
    "features": {"hidden": [8, 16], "epochs": 4},
    "posterior": {"kind": "laplace", "n_draws": 30},
}
BACOUN = SMALL | {
    "kind": "bacoun",
    "boundary": {"n_components": 4, "epochs": 2, "blocks": 1, "hidden": 8},
    "n_boundary": 100,
}
ENSEMBLE = {"kind": "ensemble", "n_members": 2, "hidden": [8], "epochs": 2}
LABELS = np.arange(40) % 4


class Striped:
    """Reads class k off a bright row k, and is as unsure as the image is dark."""

    classes_ = np.arange(10)

    def __init__(self, ood_score=None):
        self.ood_score = ood_score

    def evaluate(self, images):
        rows = images.mean(axis=2)
        epistemic = 1 - rows.max(axis=1)
        return SimpleNamespace(
            probabilities=np.eye(10, dtype=np.float32)[rows.argmax(axis=1)],
            total=epistemic,
            epistemic=epistemic,
            ood_score=None if self.ood_score is None else self.ood_score(images),
        )


def striped(labels=LABELS):
    images = np.zeros((len(labels), 10, 10), dtype=np.float32)
    images[np.arange(len(labels)), labels] = 1
    return images


DARK = np.zeros((10, 10, 10), dtype=np.float32)


# --- what is measured ----------------------------------------------------------------------------


def test_a_model_that_fades_gracefully_has_perfect_numbers():
    strengths = {"contrast": [0.8, 0.4]}
    numbers, arrays = measure(Striped(), (striped(), LABELS), strengths, 0, outside={"dark": DARK})
    assert numbers["accuracy"] == {"clean": 1, "contrast 0.8": 1, "contrast 0.4": 1, "mean": 1}
    assert numbers["nll"]["mean"] == 0
    assert numbers["aurc"]["mean"] == 0
    epistemic = numbers["epistemic"]
    assert [epistemic[name] for name in epistemic] == pytest.approx([0, 0.2, 0.6, 0.4], abs=1e-6)
    assert numbers["rises"] == pytest.approx({"contrast": 1})
    assert numbers["auroc"]["ood_score"] == numbers["auroc"]["total"] == {"dark": 1}
    share = 10 / 130  # the dark images are the only mistakes, and the least certain
    assert numbers["failure"]["augrc"] == pytest.approx(share**2 / 2)
    np.testing.assert_allclose(arrays["epistemic contrast"], [0, 0.2, 0.6], atol=1e-3)
    assert arrays["accuracy contrast"].dtype == np.float16


def test_the_mean_is_over_shifts_and_other_labelled_sets_but_not_over_clean_images():
    wrong = (striped(), LABELS + 1)
    numbers, _ = measure(
        Striped(), (striped(), LABELS), {"contrast": [0.5]}, 0, labelled={"other": wrong}
    )
    assert numbers["accuracy"] == {"clean": 1, "contrast 0.5": 1, "other": 0, "mean": 0.5}
    assert numbers["nll"]["other"] == pytest.approx(-np.log(1e-12))
    assert numbers["auroc"]["epistemic"] == {"other": 0.5}


def test_a_score_of_unfamiliarity_is_used_where_there_is_one():
    clean = (striped(), LABELS)
    model = Striped(ood_score=lambda images: images.mean(axis=(1, 2)))  # of all things, brightness
    numbers, _ = measure(model, clean, {}, 0, labelled={"same": clean}, outside={"dark": DARK})
    assert numbers["auroc"]["ood_score"] == {"same": 0.5, "dark": 0}
    assert numbers["auroc"]["epistemic"] == {"same": 0.5, "dark": 1}


def test_failure_pools_all_sets():
    first = np.array([0.1, 0.2]), np.array([True, True])
    second = np.array([0.3, 0.05]), np.array([False, True])
    pooled = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    expected = {"aurc": aurc(*pooled), "augrc": augrc(*pooled)}
    assert failure([first, second]) == expected == {"aurc": 1 / 16, "augrc": 1 / 32}


def test_answers_are_those_of_the_single_methods():
    images, labels = load_images("digits")
    model = DeepEnsemble(n_members=3, hidden=[8], epochs=2, random_state=0)
    model.fit(images[:200], labels[:200])
    said, parts = answers(model, images[200:260]), model.uncertainty(images[200:260])
    proba = model.predict_proba(images[200:260])
    np.testing.assert_allclose(said.probabilities, proba, atol=1e-4)
    np.testing.assert_allclose(said.total, parts.total, atol=1e-4)
    np.testing.assert_allclose(said.epistemic, parts.epistemic, atol=1e-4)
    np.testing.assert_array_equal(said.ood_score, said.epistemic)


# --- on stand-ins for the files ------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch, tmp_path_factory):
    """scikit-learn's digits at 28 x 28 in place of every file; which were read, and their parts."""
    asked = []
    images, labels = (
        np.concatenate(pair)
        for pair in zip(*(load_images("digits", split) for split in ("train", "test")), strict=True)
    )
    large = ndimage.zoom(images, (1, 3.5, 3.5), order=1).clip(0, 1)
    rows = {("mnist", "train"): slice(0, 600), ("mnist", "test"): slice(600, 900)}

    def stand_in(name, split="train"):
        asked.append((name, split))
        if name == "digits":
            return load_images(name, split)
        own = rows.get((name, split), slice(900, 960))
        turned = large if name in ("mnist", "usps") else large.swapaxes(1, 2)
        return turned[own], labels[own]

    monkeypatch.setattr("bacoun.datasets.images.load_images", stand_in)
    monkeypatch.setattr("bacoun.experiments.studies.choice.load_images", stand_in)
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path_factory.getbasetemp() / "shifts"))
    return asked


def test_shifts_are_measured_for_every_kind_of_method(read, tmp_path):
    methods = {"BaCOUn": BACOUN, "NLM": SMALL | {"kind": "nlm"}, "Deep ensemble": ENSEMBLE}
    full = read_experiment("shifts", quick=True)
    dataset = full.dataset | {"n_train": 200, "n_asked": 40}
    experiment = replace(full, dataset=dataset, methods=methods)
    records = run_experiment(experiment, tmp_path)
    assert [record.method for record in records] == list(methods)
    n_shifts = sum(map(len, experiment.options["shifts"].values()))
    for record in records:
        numbers = record.numbers
        for measured in ("accuracy", "nll", "ece", "aurc", "epistemic", "total"):
            assert len(numbers[measured]) == 1 + n_shifts + 1 + 1  # clean, USPS and the mean
        assert set(numbers["rises"]) == set(experiment.options["shifts"])
        for of_score in numbers["auroc"].values():
            assert set(of_score) == {"usps", "emnist-letters", "cifar10"}
        assert 0 < numbers["failure"]["augrc"] < numbers["failure"]["aurc"] < 1
        assert record.arrays["accuracy rotation"].shape == (6,)
    assert "-" not in markdown_table(experiment, records).splitlines()[2].split(" | ")


def test_the_choice_is_measured_on_each_of_its_sets(read, tmp_path):
    full = read_experiment("choice", quick=True)
    dataset = full.dataset | {"n_train": 200, "n_asked": 40}
    experiment = replace(full, dataset=dataset, methods={"default": BACOUN})
    (record,) = run_experiment(experiment, tmp_path)
    for name in ("mnist", "digits"):
        numbers = record.numbers[name]
        assert set(numbers["auroc"]["ood_score"]) == {"left out"}
        assert set(numbers["rises"]) == set(experiment.options["shifts"][name])
    assert record.arrays["mnist epistemic blur"].shape == (3,)
    assert "-" not in markdown_table(experiment, [record]).splitlines()[2].split(" | ")
    assert set(read) == {("mnist", "train"), ("digits", "train"), ("digits", "test")}


@pytest.mark.parametrize("name", ["mnist", "digits"])
def test_development_images_do_not_overlap(read, name):
    data = development_images(name, n_train=250, n_asked=60, random_state=1)
    left_out = set(data.region_labels["left out"])
    assert len(left_out) == 2
    assert left_out.isdisjoint(data.labels)
    assert left_out.isdisjoint(data.test_labels)
    assert (len(data.points), len(data.test_points)) == (250, 60)
    assert len(data.regions["left out"]) == 30
    together = np.concatenate([data.points, data.test_points, data.regions["left out"]])
    assert len(np.unique(together.reshape(len(together), -1), axis=0)) == len(together)


def test_training_images_depend_on_the_seed_and_not_on_how_many_are_asked_about(read):
    few, many, other = (
        development_images("mnist", 200, n_asked, seed)
        for n_asked, seed in ((20, 0), (100, 0), (20, 1))
    )
    np.testing.assert_array_equal(few.points, many.points)
    np.testing.assert_array_equal(few.test_points, many.test_points[:20])
    assert not np.array_equal(few.points, other.points)


def test_some_images_are_always_held_out(read):
    data = development_images("digits", n_train=8000, n_asked=8000, random_state=0)
    n_known = len(data.points) + len(data.test_points)
    assert len(data.points) == int(0.7 * n_known)
    assert n_known + len(data.regions["left out"]) == 1797


def test_an_unknown_set_is_refused():
    with pytest.raises(ValueError, match="must be 'mnist' or 'digits'; got 'usps'"):
        development_images("usps", 10, 10, 0)


def test_the_choice_needs_one_file_and_the_shifts_need_all(monkeypatch, tmp_path):
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path))
    assert missing_files(read_experiment("choice")) == ["mnist"]
    lacking = ["mnist", "usps", "emnist-letters", "cifar10"]
    assert missing_files(read_experiment("shifts")) == lacking
