"""Fit a method to digits; ask about the same digits ever more corrupted, and about strange images.

The question is not only whether shifted images are noticed, but whether they are still read
correctly, and whether what is read wrongly is what the method was unsure about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bacoun.experiments.fits import fitted
from bacoun.experiments.schema import Experiment
from bacoun.experiments.studies.corruptions import corrupted
from bacoun.experiments.studies.regions import load
from bacoun.uncertainty import (
    augrc,
    aurc,
    auroc,
    expected_calibration_error,
    negative_log_likelihood,
    rank_correlation,
)

Measured = tuple[dict[str, Any], dict[str, np.ndarray]]
Labelled = tuple[np.ndarray, np.ndarray]
"""Images (N, H, W) and their labels (N,)."""

SCORES = ("ood_score", "epistemic", "total")
_LABELLED = ("usps",)  # sets of other images whose labels are digits as well
_SMALLEST = 1e-12  # a true class held impossible costs 27.6 nats, not infinitely many


@dataclass(frozen=True)
class Answers:
    """What a method says about N images.

    Attributes
    ----------
    probabilities : ndarray of shape (N, K)
    total, epistemic : ndarray of shape (N,)
        In nats.
    ood_score : ndarray of shape (N,)
        How unfamiliar each image is; epistemic uncertainty if the method has no score of its own.
    """

    probabilities: np.ndarray
    total: np.ndarray
    epistemic: np.ndarray
    ood_score: np.ndarray


def shifts(experiment: Experiment, method: str, seed: int) -> Measured:
    """Quality and uncertainty on test digits, on corrupted ones and on sets of other images."""
    data = load(experiment.dataset, seed)
    model, seconds = fitted(experiment, method, seed, data)
    others = [name for name in data.regions if name != "in"]
    numbers, arrays = measure(
        model,
        (data.regions["in"], data.region_labels["in"]),
        experiment.options["shifts"],
        seed,
        labelled={
            name: (data.regions[name], data.region_labels[name])
            for name in others
            if name in _LABELLED
        },
        outside={name: data.regions[name] for name in others if name not in _LABELLED},
    )
    return {"fit_seconds": seconds, **numbers}, arrays


def measure(
    model: Any,
    clean: Labelled,
    strengths: Mapping[str, Sequence[float]],
    seed: int,
    *,
    labelled: Mapping[str, Labelled] | None = None,
    outside: Mapping[str, np.ndarray] | None = None,
) -> Measured:
    """All numbers about a fitted model under shift.

    Parameters
    ----------
    model : classifier
    clean : images and labels
        From the training distribution, not used in training.
    strengths : mapping from a family of corruptions to its strengths
        In the order of growing shift; each is applied to the clean images.
    seed : int
        Of the corruptions.
    labelled : mapping from a name to images and labels, optional
        Other images of the learned classes.
    outside : mapping from a name to images, optional
        Images of no learned class: any prediction of them is wrong.

    Returns
    -------
    numbers : dict
        By measure, then by set: accuracy, log loss, calibration error, AURC of the total
        uncertainty, mean epistemic and mean total; "mean" is the mean over all labelled shifts, the
        clean images not among them. "rises" is the rank correlation of mean epistemic with strength
        in each family, from the clean images on; "auroc" tells the other sets from the clean
        images; "failure" ranks all images together by total uncertainty.
    arrays : dict of ndarray
        Mean epistemic and accuracy of each family, the clean images first.
    """
    labelled, outside = labelled or {}, outside or {}
    images, labels = clean
    names = {family: [f"{family} {s:g}" for s in values] for family, values in strengths.items()}
    sets: dict[str, Labelled] = {"clean": clean}
    for family, values in strengths.items():
        for name, strength in zip(names[family], values, strict=True):
            sets[name] = corrupted(images, family, strength, seed), labels
    sets |= labelled
    found = {name: answers(model, asked) for name, (asked, _) in sets.items()}
    truth = {name: np.searchsorted(model.classes_, own) for name, (_, own) in sets.items()}
    strange = {name: answers(model, asked) for name, asked in outside.items()}

    numbers = _by_measure({name: _quality(found[name], truth[name]) for name in sets})
    curves = {family: ["clean", *names[family]] for family in strengths}
    numbers["rises"] = {
        family: rank_correlation(range(len(curve)), [numbers["epistemic"][name] for name in curve])
        for family, curve in curves.items()
    }
    other = {name: found[name] for name in labelled} | strange
    numbers["auroc"] = {
        score: {
            name: auroc(getattr(found["clean"], score), getattr(said, score))
            for name, said in other.items()
        }
        for score in SCORES
    }
    numbers["failure"] = failure(
        [(found[name].total, _right(found[name], truth[name])) for name in sets]
        + [(said.total, np.zeros(len(said.total), dtype=bool)) for said in strange.values()]
    )
    arrays = {
        f"{part} {family}": np.array([numbers[part][name] for name in curve], dtype=np.float16)
        for family, curve in curves.items()
        for part in ("epistemic", "accuracy")
    }
    return numbers, arrays


def answers(model: Any, images: np.ndarray) -> Answers:
    """All that is measured about images, asked for once."""
    said = model.evaluate(images)
    table = said.probabilities.astype(np.float64)
    table /= table.sum(axis=1, keepdims=True)
    return Answers(table, said.total, said.epistemic, said.ood_score)


def failure(judged: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """AURC and AUGRC of all sets pooled; a set is its uncertainty (N,) and what is right (N,)."""
    uncertainty, right = (np.concatenate(column) for column in zip(*judged, strict=True))
    return {"aurc": aurc(uncertainty, right), "augrc": augrc(uncertainty, right)}


def _right(said: Answers, truth: np.ndarray) -> np.ndarray:
    right: np.ndarray = said.probabilities.argmax(axis=1) == truth
    return right


def _quality(said: Answers, truth: np.ndarray) -> dict[str, float]:
    """The numbers of one labelled set; `truth` (N,) are columns of the true classes."""
    right = _right(said, truth)
    return {
        "accuracy": float(right.mean()),
        "nll": negative_log_likelihood(said.probabilities.clip(min=_SMALLEST), truth),
        "ece": expected_calibration_error(said.probabilities, truth),
        "aurc": aurc(said.total, right),
        "epistemic": float(said.epistemic.mean()),
        "total": float(said.total.mean()),
    }


def _by_measure(quality: dict[str, dict[str, float]]) -> dict[str, Any]:
    """From numbers by set to numbers by measure, with the mean over all sets but the clean one."""
    shifted = [name for name in quality if name != "clean"]
    return {
        measured: {name: quality[name][measured] for name in quality}
        | {"mean": float(np.mean([quality[name][measured] for name in shifted]))}
        for measured in quality["clean"]
    }
