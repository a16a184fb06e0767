"""Choosing settings for images: development shifts, none of which is reported on later.

Everything comes from the training file of MNIST and from scikit-learn's digits. Two digits are left
out, some images of the other eight are held out and corrupted; test images and other sets of images
are not read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from reproduction.datasets.images import development_images
from reproduction.fits import fitted
from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.left_out import doubts
from reproduction.studies.shifts import measure


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
        model, seconds = fitted(
            experiment.model_copy(update={"dataset": dataset}), method, seed, data
        )
        measured = partial(
            measure,
            clean=(data.test_points, data.test_labels),
            strengths=experiment.options["shifts"][name],
            seed=seed,
            outside={"left out": data.regions["left out"]},
        )
        found, curves = measured(model)
        numbers[name] = {"fit_seconds": seconds, **found, "doubt": {}}
        for label, variant in doubts(model, experiment.options.get("doubt")):
            other, _ = measured(variant)
            numbers[name]["doubt"][label] = {
                "nll": other["nll"]["mean"],
                "aurc": other["aurc"]["mean"],
                "auroc": other["auroc"]["epistemic"]["left out"],
                "failure": other["failure"]["aurc"],
            }
        arrays |= {f"{name} {key}": curve for key, curve in curves.items()}
    return numbers, arrays
