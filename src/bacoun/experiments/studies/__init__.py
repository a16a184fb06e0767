"""What an experiment measures: (experiment, method, seed) -> numbers and arrays."""

from collections.abc import Callable

from bacoun.experiments.results import Measured
from bacoun.experiments.schema import Experiment
from bacoun.experiments.studies.attack import attack
from bacoun.experiments.studies.choice import choice
from bacoun.experiments.studies.halo import halo
from bacoun.experiments.studies.images import examples, image_sets, morph, noise, rotations
from bacoun.experiments.studies.left_out import left_out
from bacoun.experiments.studies.log_loss import log_loss
from bacoun.experiments.studies.outliers import outliers
from bacoun.experiments.studies.pathology import pathology
from bacoun.experiments.studies.regions import regions
from bacoun.experiments.studies.shifts import shifts

STUDIES: dict[str, Callable[[Experiment, str, int], Measured]] = {
    "regions": regions,
    "pathology": pathology,
    "outliers": outliers,
    "attack": attack,
    "halo": halo,
    "left-out": left_out,
    "log-loss": log_loss,
    "images": image_sets,
    "examples": examples,
    "rotations": rotations,
    "noise": noise,
    "morph": morph,
    "choice": choice,
    "shifts": shifts,
}

__all__ = ["STUDIES"]
