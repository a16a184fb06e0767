"""Where settings for images are chosen: development shifts, none of which is reported on later.

Everything comes from the training file of MNIST and from scikit-learn's digits. Two digits are left
out, some images of the other eight are held out and corrupted; test images and other sets of images
are not read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bacoun.datasets import Dataset
from reproduction.datasets import load_images
from reproduction.fits import fitted
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.left_out import doubts
from reproduction.studies.shifts import measure

_N_LEFT_OUT = 2  # digits
_LARGEST_SHARE = 0.7  # of the images of learned digits, to train on


def choice(experiment: Experiment, method: str, seed: int) -> Measured:
    """Quality on held-out images, clean and corrupted, and how well left-out digits are noticed.

    Numbers are nested under the name of each set of images; see `measure`. `doubt` holds a few of
    them for the same fit with other settings of its doubt.
    """
    numbers: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    n_images = {key: experiment.dataset[key] for key in ("n_train", "n_asked")}
    for name in experiment.dataset["sets"]:
        data = development_images(name, **n_images, random_state=seed)
        # Settings of its own for each set, so that its cached fit does not depend on the others.
        dataset = {"kind": experiment.dataset["kind"], "set": name, **n_images}
        model, seconds = fitted(replace(experiment, dataset=dataset), method, seed, data)
        measured = partial(
            measure,
            clean=(data.test_points, data.test_labels),
            strengths=experiment.options["shifts"][name],
            seed=seed,
            outside={"left out": data.regions["left out"]},
        )
        found, curves = measured(model)
        numbers[name] = {"fit_seconds": seconds, **found, "doubt": {}}
        for label, variant in doubts(model, experiment.options.get("doubt", {})):
            other, _ = measured(variant)
            numbers[name]["doubt"][label] = {
                "nll": other["nll"]["mean"],
                "aurc": other["aurc"]["mean"],
                "auroc": other["auroc"]["epistemic"]["left out"],
                "failure": other["failure"]["aurc"],
            }
        arrays |= {f"{name} {key}": curve for key, curve in curves.items()}
    return numbers, arrays


def development_images(name: str, n_train: int, n_asked: int, random_state: int) -> Dataset:
    """Images of eight digits to learn and to be tested on, and of two that are not learned.

    Parameters
    ----------
    name : "mnist" or "digits"
        Of MNIST, the training file alone is read.
    n_train : int
        Training images, at most; never more than 70 % of those there are.
    n_asked : int
        Held-out images, at most; of the left-out digits there are half as many.
    random_state : int
        Which digits are left out, and which images are drawn.
    """
    images, labels = _images(name)
    rng = np.random.default_rng(random_state)
    left_out = np.isin(labels, rng.permutation(10)[:_N_LEFT_OUT])
    known, strange = (rng.permutation(np.flatnonzero(rows)) for rows in (~left_out, left_out))
    n_train = min(n_train, int(_LARGEST_SHARE * len(known)))
    train, held_out = known[:n_train], known[n_train : n_train + n_asked]
    strange = strange[: n_asked // 2]
    return Dataset(
        points=images[train],
        labels=labels[train],
        test_points=images[held_out],
        test_labels=labels[held_out],
        regions={"left out": images[strange]},
        region_labels={"left out": labels[strange]},
        feature_names=[f"pixel {row} {column}" for row, column in np.ndindex(*images.shape[1:])],
    )


def _images(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "mnist":
        return load_images("mnist", "train")
    if name == "digits":
        halves = (load_images("digits", split) for split in ("train", "test"))
        images, labels = (np.concatenate(pair) for pair in zip(*halves, strict=True))
        return images, labels
    raise ValueError(f"a set of development images must be 'mnist' or 'digits'; got {name!r}.")
