"""Fit a method to digits; evaluate it on corrupted digits and on images of other kinds.

Three questions: are shifted images detected, are they still classified correctly, and are the
misclassified ones those with high uncertainty?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bacoun.base import Evaluation
from bacoun.uncertainty import (
    augrc,
    aurc,
    auroc,
    expected_calibration_error,
    negative_log_likelihood,
    rank_correlation,
)
from reproduction.fits import fitted
from reproduction.results import Measured, by_measure
from reproduction.schema import Experiment
from reproduction.studies.corruptions import corrupted
from reproduction.studies.regions import load

Labeled = tuple[np.ndarray, np.ndarray]
"""Images (N, H, W) and their labels (N,)."""

SCORES = ("ood_score", "epistemic", "total")
_LABELED = ("usps",)  # sets of other images whose labels are digits as well
_SMALLEST = 1e-12  # a true class of probability 0 costs 27.6 nats, not infinitely many


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
        labeled={
            name: (data.regions[name], data.region_labels[name])
            for name in others
            if name in _LABELED
        },
        outside={name: data.regions[name] for name in others if name not in _LABELED},
    )
    return {"fit_seconds": seconds, **numbers}, arrays


def measure(
    model: Any,
    clean: Labeled,
    strengths: Mapping[str, Sequence[float]],
    seed: int,
    *,
    labeled: Mapping[str, Labeled] | None = None,
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
    labeled : mapping from a name to images and labels, optional
        Other images of the learned classes.
    outside : mapping from a name to images, optional
        Images of no learned class: any prediction of them is wrong.

    Returns
    -------
    numbers : dict
        By measure, then by set: accuracy, log loss, calibration error, AURC of the total
        uncertainty, mean epistemic and mean total; "mean" is the mean over all labeled shifts, the
        clean images not among them. "rises" is the rank correlation of mean epistemic with strength
        in each family, from the clean images on; "auroc" tells the other sets from the clean
        images; "failure" ranks all images together by total uncertainty.
    arrays : dict of ndarray
        Mean epistemic and accuracy of each family, the clean images first.
    """
    labeled, outside = labeled or {}, outside or {}
    images, labels = clean
    names = {family: [f"{family} {s:g}" for s in values] for family, values in strengths.items()}
    sets: dict[str, Labeled] = {"clean": clean}
    for family, values in strengths.items():
        for name, strength in zip(names[family], values, strict=True):
            sets[name] = corrupted(images, family, strength, seed), labels
    sets |= labeled
    found = {name: evaluated(model, asked) for name, (asked, _) in sets.items()}
    truth = {name: np.searchsorted(model.classes_, own) for name, (_, own) in sets.items()}
    other_sets = {name: evaluated(model, asked) for name, asked in outside.items()}

    quality = by_measure({name: _quality(found[name], truth[name]) for name in sets})
    numbers: dict[str, Any] = {part: _with_mean(values) for part, values in quality.items()}
    curves = {family: ["clean", *names[family]] for family in strengths}
    numbers["rises"] = {
        family: rank_correlation(range(len(curve)), [numbers["epistemic"][name] for name in curve])
        for family, curve in curves.items()
    }
    other = {name: found[name] for name in labeled} | other_sets
    numbers["auroc"] = {
        score: {
            name: auroc(getattr(found["clean"], score), getattr(of_set, score))
            for name, of_set in other.items()
        }
        for score in SCORES
    }
    numbers["failure"] = failure(
        [(found[name].total, _correct(found[name], truth[name])) for name in sets]
        + [(of_set.total, np.zeros(len(of_set.total), bool)) for of_set in other_sets.values()]
    )
    arrays = {
        f"{part} {family}": np.array([numbers[part][name] for name in curve], dtype=np.float16)
        for family, curve in curves.items()
        for part in ("epistemic", "accuracy")
    }
    return numbers, arrays


def evaluated(model: Any, images: np.ndarray) -> Evaluation[np.ndarray]:
    """`model.evaluate(images)`, its probabilities in double precision, in which they sum to one."""
    found: Evaluation[np.ndarray] = model.evaluate(images)
    probabilities = found.probabilities.astype(np.float64)
    return replace(found, probabilities=probabilities / probabilities.sum(axis=1, keepdims=True))


def failure(sets: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """AURC and AUGRC of all sets pooled; each is its uncertainty (N,) and what is correct (N,)."""
    uncertainty, correct = (np.concatenate(column) for column in zip(*sets, strict=True))
    return {"aurc": aurc(uncertainty, correct), "augrc": augrc(uncertainty, correct)}


def _correct(found: Evaluation[np.ndarray], truth: np.ndarray) -> np.ndarray:
    correct: np.ndarray = found.probabilities.argmax(axis=1) == truth
    return correct


def _quality(found: Evaluation[np.ndarray], truth: np.ndarray) -> dict[str, float]:
    """The numbers of one labeled set; `truth` (N,) are columns of the true classes."""
    correct = _correct(found, truth)
    return {
        "accuracy": float(correct.mean()),
        "nll": negative_log_likelihood(found.probabilities.clip(min=_SMALLEST), truth),
        "ece": expected_calibration_error(found.probabilities, truth),
        "aurc": aurc(found.total, correct),
        "epistemic": float(found.epistemic.mean()),
        "total": float(found.total.mean()),
    }


def _with_mean(values: dict[str, float]) -> dict[str, float]:
    """Values by set, and their mean over all sets but the clean one."""
    shifted = [value for name, value in values.items() if name != "clean"]
    return values | {"mean": float(np.mean(shifted))}
