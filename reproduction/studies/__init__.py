"""Studies: functions from (experiment, method, seed) to numbers and arrays."""

from collections.abc import Callable

from reproduction.results import Measured
from reproduction.schema import Experiment
from reproduction.studies.attack import attack
from reproduction.studies.choice import choice
from reproduction.studies.diagnosis import diagnosis
from reproduction.studies.disentanglement import disentanglement
from reproduction.studies.gp_limit import gp_limit
from reproduction.studies.halo import halo
from reproduction.studies.images import examples, image_sets, morph, noise, rotations
from reproduction.studies.left_out import left_out
from reproduction.studies.log_loss import log_loss
from reproduction.studies.ood_calibration import ood_calibration
from reproduction.studies.outliers import outliers
from reproduction.studies.pathology import pathology
from reproduction.studies.regions import regions
from reproduction.studies.shifts import shifts

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
    "diagnosis": diagnosis,
    "gp-limit": gp_limit,
    "disentanglement": disentanglement,
    "ood-calibration": ood_calibration,
}

__all__ = ["STUDIES"]
