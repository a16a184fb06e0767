"""Step 5: calibration scores (N,) -> thresholds with guarantees -> accept or defer (N,)."""

from bacoun.deferral.conformal import (
    class_thresholds,
    conformal_threshold,
    fewest_scores,
    prediction_set_threshold,
    prediction_sets,
)
from bacoun.deferral.risk import Acceptance, largest_acceptance, points_needed
from bacoun.deferral.rule import Decisions, DeferralRule

__all__ = [
    "Acceptance",
    "Decisions",
    "DeferralRule",
    "class_thresholds",
    "conformal_threshold",
    "fewest_scores",
    "largest_acceptance",
    "points_needed",
    "prediction_set_threshold",
    "prediction_sets",
]
