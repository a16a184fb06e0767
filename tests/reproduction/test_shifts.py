"""The study of shifts: what it measures, on models whose answers are known, and on stand-ins."""

import numpy as np
import pytest
from reproduction.pages.tables import markdown_table
from reproduction.run import run_experiment
from reproduction.studies.shifts import evaluated, failure, measure

from bacoun.base import Evaluation
from bacoun.baselines import DeepEnsemble
from bacoun.features import LearnedFeatures
from bacoun.uncertainty import augrc, aurc
from reproduction import missing_files, read_experiment
from reproduction.datasets import load_images

LABELS = np.arange(40) % 4


class Striped:
    """Reads class k off a bright row k, and is as unsure as the image is dark."""

    classes_ = np.arange(10)

    def __init__(self, ood_score=None):
        self.ood_score = ood_score

    def evaluate(self, images):
        rows = images.mean(axis=2)
        epistemic = 1 - rows.max(axis=1)
        return Evaluation(
            probabilities=np.eye(10, dtype=np.float32)[rows.argmax(axis=1)],
            total=epistemic,
            aleatoric=np.zeros(len(images)),
            epistemic=epistemic,
            ood_score=epistemic if self.ood_score is None else self.ood_score(images),
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


def test_the_mean_is_over_shifts_and_other_labeled_sets_but_not_over_clean_images():
    wrong = (striped(), LABELS + 1)
    numbers, _ = measure(
        Striped(), (striped(), LABELS), {"contrast": [0.5]}, 0, labeled={"other": wrong}
    )
    assert numbers["accuracy"] == {"clean": 1, "contrast 0.5": 1, "other": 0, "mean": 0.5}
    assert numbers["nll"]["other"] == pytest.approx(-np.log(1e-12))
    assert numbers["auroc"]["epistemic"] == {"other": 0.5}


def test_each_score_is_judged_by_itself():
    clean = (striped(), LABELS)
    model = Striped(ood_score=lambda images: images.mean(axis=(1, 2)))  # of all things, brightness
    numbers, _ = measure(model, clean, {}, 0, labeled={"same": clean}, outside={"dark": DARK})
    assert numbers["auroc"]["ood_score"] == {"same": 0.5, "dark": 0}
    assert numbers["auroc"]["epistemic"] == {"same": 0.5, "dark": 1}


def test_failure_pools_all_sets():
    first = np.array([0.1, 0.2]), np.array([True, True])
    second = np.array([0.3, 0.05]), np.array([False, True])
    pooled = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    expected = {"aurc": aurc(*pooled), "augrc": augrc(*pooled)}
    assert failure([first, second]) == expected == {"aurc": 1 / 16, "augrc": 1 / 32}


def test_what_is_measured_is_what_the_classifier_says():
    images, labels = load_images("digits")
    model = DeepEnsemble(n_members=3, network=LearnedFeatures(hidden=[8], epochs=2), random_state=0)
    model.fit(images[:200], labels[:200])
    found, parts = evaluated(model, images[200:260]), model.uncertainty(images[200:260])
    proba = model.predict_proba(images[200:260])
    np.testing.assert_allclose(found.probabilities, proba, atol=1e-4)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(found.total, parts.total, atol=1e-4)
    np.testing.assert_allclose(found.epistemic, parts.epistemic, atol=1e-4)
    np.testing.assert_array_equal(found.ood_score, found.epistemic)


# --- on stand-ins for the files ------------------------------------------------------------------


def test_shifts_are_measured_for_every_kind_of_method(files_read, small_methods, tmp_path):
    full = read_experiment("shifts", quick=True)
    dataset = full.dataset | {"n_train": 200, "n_asked": 40}
    experiment = full.model_copy(update={"dataset": dataset, "methods": small_methods})
    records = run_experiment(experiment, tmp_path)
    assert {record.method for record in records} == set(small_methods)
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


def test_the_shifts_need_all_their_files(monkeypatch, tmp_path):
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path))
    lacking = ["mnist", "usps", "emnist-letters", "cifar10"]
    assert missing_files(read_experiment("shifts")) == lacking
